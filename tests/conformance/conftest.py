"""Servers that some backends need: the same that the tests of these backends use."""

from tests.cluster.conftest import nats_servers
from tests.servers.conftest import postgres, redis, redis_cluster

__all__ = ["nats_servers", "postgres", "redis", "redis_cluster"]
