"""Queues of a TBMQ, made as its documentation shows them, and brought into homes of queues."""

import json
from collections.abc import Iterator

import asyncpg
import pytest
from redis import Redis

from bench.queues.postgres_server import PostgresServer
from bench.queues.redis_server import RedisServer
from holdfast.durable.queues.external_queue import queue_name
from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry, QueueStore
from holdfast.model.errors import SettingsError, TransientError
from holdfast.storage.postgres.queues import PostgresQueues
from holdfast.storage.postgres.tbmq import TbmqPostgres
from holdfast.storage.redis.options import RedisOptions
from holdfast.storage.redis.queues import RedisQueues
from holdfast.storage.redis.tbmq import TbmqRedis
from holdfast.storage.tbmq import (
    ImportReport,
    OwedPacket,
    TbmqSource,
    choose_base,
    import_queues,
    parse_user_properties,
)
from tests.servers.entries import PLENTY, SECOND_US, Steps, append, entries

_TABLES = """
    CREATE TABLE device_session_ctx (
        client_id character varying(255) NOT NULL PRIMARY KEY, last_updated_time bigint NOT NULL,
        last_serial_number bigint, last_packet_id integer);
    CREATE TABLE device_publish_msg (
        client_id character varying(255) NOT NULL, serial_number bigint NOT NULL, topic character varying NOT NULL,
        time bigint NOT NULL, packet_id integer, packet_type character varying(255), qos integer NOT NULL,
        payload bytea NOT NULL, user_properties character varying, retain boolean, msg_expiry_interval integer,
        payload_format_indicator integer, content_type character varying(255), response_topic character varying(255),
        correlation_data bytea, PRIMARY KEY (client_id, serial_number));
    CREATE INDEX idx_device_publish_msg_packet_id ON device_publish_msg (client_id, packet_id)"""


def tell_nobody(_report: ImportReport) -> None: ...


class Sessions:
    """Those that an import asks for; clients in `elsewhere` have one that would not read their queue."""

    def __init__(self, *elsewhere: str) -> None:
        self.made: dict[str, list[OwedPacket]] = {}
        self._elsewhere = elsewhere

    def obstacle(self, client_id: str) -> str:
        return "it has a session" if client_id in self._elsewhere else ""

    def make(self, client_id: str, begun: int, packets: list[OwedPacket]) -> None:
        self.made[client_id] = packets


async def bring(
    source: TbmqSource, target: QueueStore, steps: Steps, base: int = 0, sessions: Sessions | None = None
) -> ImportReport:
    base = base or await choose_base(source, steps.clock)
    return await import_queues(source, target, steps.clock, base, sessions or Sessions(), tell_nobody)


@pytest.fixture
def tbmq_database(postgres: PostgresServer, steps: Steps) -> str:
    """A database of a TBMQ 1.x."""

    async def run(*statements: str) -> None:
        connection = await asyncpg.connect(postgres.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    async def fill(url: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(_TABLES)
        now_ms = steps.clock.wall_us() // 1000
        rows = [
            ("dev", 65_535, "a/b", now_ms, 65_535, "PUBLISH", 1, b"\x00\xff", None, False, *[None] * 5),
            ("dev", 65_536, "a/b", now_ms, 1, "PUBLISH", 2, b"two", '{"props":[{"k":"x","v":"1"},{"k":"x","v":"2"}]}',
             True, 100, 1, "text/plain", "answer/to", b"\x01\x02"),
            ("dev", 65_537, "a/c", now_ms - 5000, 2, "PUBLISH", 1, b"late", None, False, 5, *[None] * 4),
            ("dev", 65_538, "a/d", now_ms, 3, "PUBREL", 2, b"three", None, False, *[None] * 5),
            ("{odd}", 7, "a/b", now_ms, 7, "PUBLISH", 1, b"seven", None, False, -1, *[None] * 4),
            ("{odd}", 8, "a/b", now_ms, 8, "PUBLISH", 0, b"nobody's", None, False, *[None] * 5),
        ]  # fmt: skip
        places = ", ".join(f"${place}" for place in range(1, 16))
        await connection.executemany(f"INSERT INTO device_publish_msg VALUES ({places})", rows)
        contexts = [("dev", now_ms, 65_538, 3), ("{odd}", now_ms, 8, 8), ("idle", now_ms, 4, 4)]
        await connection.executemany("INSERT INTO device_session_ctx VALUES ($1, $2, $3, $4)", contexts)
        await connection.close()

    steps(run("DROP DATABASE IF EXISTS thingsboard_mqtt_broker", "CREATE DATABASE thingsboard_mqtt_broker"))
    url = postgres.url.replace("/postgres", "/thingsboard_mqtt_broker")
    steps(fill(url))
    return url


def shape(found: list[QueueEntry]) -> list[tuple[bytes, int, bool, bool]]:
    return [(each.message.payload, each.owed.qos, each.owed.retain, each.released) for each in found]


@pytest.mark.slow
def test_the_tables_of_a_tbmq_1_are_brought(tbmq_database: str, redis_store: RedisQueues, steps: Steps) -> None:
    """P3"""
    source = steps(TbmqPostgres.open(tbmq_database))

    sessions = Sessions()
    report = steps(bring(source, redis_store, steps, sessions=sessions))

    assert sessions.made == {
        "dev": [OwedPacket(65_535, 1, False), OwedPacket(1, 2, False), OwedPacket(3, 3, True)],
        "{odd}": [OwedPacket(7, 1, False)],
    }
    assert (report.clients, report.messages, report.expired) == (2, 4, 1)
    assert report.unreadable == [("{odd}", "message 8: QoS 0 is not owed to anybody")]
    assert (report.refused, report.miscounted) == ([], [])
    found = steps(redis_store.read("dev", 0, 10))
    assert shape(found) == [(b"\x00\xff", 1, False, False), (b"two", 2, True, False), (b"three", 2, False, True)]
    now_us = steps.clock.wall_us() // 1000 * 1000
    assert [each.expires_us for each in found] == [0, now_us + 100 * SECOND_US, 0]
    assert found[1].message.properties == (
        b"\x01\x01\x02\x00\x00\x00\x64\x03\x00\x0atext/plain\x08\x00\x09answer/to\x09\x00\x02\x01\x02"
        b"\x26\x00\x01x\x00\x011\x26\x00\x01x\x00\x012"
    )
    (odd,) = steps(redis_store.read("{odd}", 0, 10))
    assert odd.expires_us == now_us + 0xFFFF_FFFF * SECOND_US
    assert all(each.number <= steps.clock.wall_us() for each in [*found, odd]), "a broker goes on above them"
    steps(source.close())


@pytest.mark.slow
def test_a_database_without_tbmq_is_refused(postgres: PostgresServer, steps: Steps) -> None:
    with pytest.raises(SettingsError, match="device_publish_msg"):
        steps(TbmqPostgres.open(postgres.url))
    with pytest.raises(SettingsError, match="cannot be read"):
        steps(TbmqPostgres.open(postgres.url.replace("holdfast@", "nobody@")))


def put(raw: Redis, client_id: str, score: int, packet_id: int, payload: str, **other: object) -> None:
    """As TBMQ's documentation shows it, but for what `other` says."""
    key = f"{{{client_id}}}_messages"
    raw.zadd(key, {f"{key}_{packet_id}": score})
    fields = {
        "packetType": "PUBLISH",
        "payload": payload,
        "time": 1736333110026,
        "clientId": client_id,
        "retained": False,
        "packetId": packet_id,
        "topicName": "europe/ua/kyiv/client/0",
        "qos": 1,
        **other,
    }
    raw.set(f"{key}_{packet_id}", json.dumps(fields), ex=600)
    raw.set(f"{{{client_id}}}_last_packet_id", packet_id)


@pytest.fixture
def tbmq_redis(redis: RedisServer) -> Iterator[Redis]:
    with Redis(port=redis.port, db=3) as raw:
        raw.flushdb()
        put(raw, "client", 65_534, 65_534, "eyJkYXRhIjoidGJtcWlzYXdlc29tZSJ9")
        put(raw, "client", 65_535, 65_535, "/w==", qos=2, packetType="PUBREL", retained=True)
        put(raw, "client", 65_536, 1, "")
        put(raw, "a{b}", 1, 1, "eA==")
        yield raw


@pytest.fixture
def source(redis: RedisServer, tbmq_redis: Redis, steps: Steps) -> Iterator[TbmqRedis]:
    opened = TbmqRedis(RedisOptions((redis.url.replace("/0", "/3"),)), steps.clock)
    yield opened
    steps(opened.close())


def test_the_keys_of_a_tbmq_2_are_brought(
    source: TbmqRedis, tbmq_redis: Redis, redis_store: RedisQueues, steps: Steps
) -> None:
    put(tbmq_redis, "client", 65_537, 2, "eA==", properties={"userProperties": "?"})
    put(tbmq_redis, "client", 65_538, 3, "not base64!")
    put(tbmq_redis, "client", 65_539, 4, "eA==")
    tbmq_redis.delete("{client}_messages_4")

    sessions = Sessions()
    report = steps(bring(source, redis_store, steps, sessions=sessions))

    assert sessions.made["client"] == [
        OwedPacket(65_534, 1, False),
        OwedPacket(65_535, 2, True),
        OwedPacket(1, 3, False),
        OwedPacket(2, 4, False),
    ]
    assert (report.clients, report.messages, report.expired) == (2, 5, 1)
    assert report.shortened == [("client", "message 65537: without properties")]
    assert [client_id for client_id, _ in report.unreadable] == ["client"]
    assert not report.complete()
    found = steps(redis_store.read("client", 0, 10))
    assert shape(found) == [
        (b'{"data":"tbmqisawesome"}', 1, False, False),
        (b"\xff", 2, True, True),
        (b"", 1, False, False),
        (b"x", 1, False, False),
    ]
    assert {each.message.topic for each in found} == {b"europe/ua/kyiv/client/0"}
    assert {each.message.received_us for each in found} == {1736333110026000}
    now_us = steps.clock.wall_us()
    assert all(now_us + 590 * SECOND_US < each.expires_us <= now_us + 600 * SECOND_US for each in found)
    assert shape(steps(redis_store.read("a{b}", 0, 10))) == [(b"x", 1, False, False)]


class Breaking:
    """A store that fails at its third append."""

    def __init__(self, store: QueueStore) -> None:
        self._store = store
        self._left = 2

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def append(self, packs: list[AppendBatch]) -> list[Appended | Exception]:
        self._left -= 1
        if self._left < 0:
            raise TransientError("away")
        return await self._store.append(packs)


def test_queues_have_the_names_by_which_the_broker_looks_for_them(
    source: TbmqRedis, tbmq_redis: Redis, redis_store: RedisQueues, steps: Steps
) -> None:
    put(tbmq_redis, "50% off", 1, 1, "eA==")
    steps(bring(source, redis_store, steps))
    assert len(steps(redis_store.read(queue_name("50% off"), 0, 10))) == 1


def test_an_import_that_was_interrupted_goes_on(
    source: TbmqRedis, tbmq_redis: Redis, redis_store: RedisQueues, steps: Steps
) -> None:
    with tbmq_redis.pipeline() as at_once:
        for score in range(65_537, 69_000):
            put(at_once, "client", score, score % 65_535 + 1, "eA==")
        at_once.execute()
    base = steps(choose_base(source, steps.clock))
    with pytest.raises(TransientError):
        steps(bring(source, Breaking(redis_store), steps, base))  # type: ignore[arg-type]
    assert 0 < steps(redis_store.size("client")).messages < 3466

    report = steps(bring(source, redis_store, steps, base))
    again = steps(bring(source, redis_store, steps, base))

    assert report.complete()
    assert (report.messages, again.messages) == (3467, 3467)
    assert steps(redis_store.size("client")).messages == 3466
    numbers = [each.number for each in steps(redis_store.read("client", 0, 5000))]
    assert numbers == list(range(base + 65_534, base + 69_000))


def test_a_queue_that_no_session_would_read_is_left_alone(
    source: TbmqRedis, redis_store: RedisQueues, steps: Steps
) -> None:
    report = steps(bring(source, redis_store, steps, sessions=Sessions("client")))

    assert report.refused == [("client", "it has a session")]
    assert (report.clients, steps(redis_store.size("client")).messages) == (1, 0)


def test_a_queue_that_is_used_is_left_alone(source: TbmqRedis, redis_store: RedisQueues, steps: Steps) -> None:
    base = steps(choose_base(source, steps.clock))
    steps(append(redis_store, "client", entries(1, 2)))
    steps(redis_store.append([AppendBatch("a{b}", entries(base + 10_000_000), PLENTY)]))

    report = steps(bring(source, redis_store, steps, base))

    assert (report.clients, report.messages) == (0, 0)
    assert sorted(report.refused) == [
        ("a{b}", "the queue was used after the import began"),
        ("client", "the queue holds 2 other messages already"),
    ]
    assert steps(redis_store.size("client")).messages == 2


@pytest.mark.slow
def test_it_is_brought_into_postgres_as_well(source: TbmqRedis, postgres_store: PostgresQueues, steps: Steps) -> None:
    """P3"""
    report = steps(bring(source, postgres_store, steps))

    assert report.complete()
    assert report.messages == 4
    assert len(steps(postgres_store.read("client", 0, 10))) == 3


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        (None, ()),
        ("", ()),
        ('{"props":[{"k":"a","v":"b"}]}', (("a", "b"),)),
        ('{"a":"b","c":"d","a":"e"}', (("a", "b"), ("c", "d"), ("a", "e"))),
        ('[["a","b"],["c","d"]]', (("a", "b"), ("c", "d"))),
        ('[{"key":"a","value":"b"}]', (("a", "b"),)),
        ('{"a":"b"}', (("a", "b"),)),
    ],
)
def test_user_properties_have_many_shapes(text: str | None, pairs: tuple[tuple[str, str], ...]) -> None:
    assert parse_user_properties(text) == pairs
