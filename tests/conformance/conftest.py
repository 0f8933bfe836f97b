"""Servers that some queue backends need: the same that the tests of these backends use."""

from tests.servers.conftest import postgres, redis, redis_cluster

__all__ = ["postgres", "redis", "redis_cluster"]
