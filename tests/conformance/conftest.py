"""Servers that the homes of client queues need, one of each for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.services import need


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Any]:
    from bench.queues.redis_server import PACKAGE, PROGRAM, RedisServer

    need(PROGRAM, PACKAGE)
    server = RedisServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="session")
def redis_cluster_servers() -> Iterator[Any]:
    from bench.queues.redis_server import PACKAGE, PROGRAM, RedisCluster

    need(PROGRAM, PACKAGE)
    cluster = RedisCluster()
    try:
        yield cluster.start()
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Any]:
    from bench.queues.postgres_server import PACKAGE, PostgresServer, program

    if program("initdb") is None:
        need("initdb", PACKAGE)
    server = PostgresServer(fsync="off")
    try:
        yield server.start()
    finally:
        server.close()
