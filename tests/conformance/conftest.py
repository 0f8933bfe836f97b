"""Servers that some homes of client queues need: the same that the tests of these homes use."""

from tests.servers.conftest import postgres, redis, redis_cluster

__all__ = ["postgres", "redis", "redis_cluster"]
