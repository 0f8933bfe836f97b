"""Client queues in PostgreSQL: its tables, and what its loss does."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bench.queues.postgres_server import PACKAGE, PostgresServer, program
from holdfast.durable.queues.queue_store import AppendBatch, Appended, QueueEntry
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.model.owed import Owed
from holdfast.storage.postgres.options import PostgresOptions
from holdfast.storage.postgres.queues import PostgresQueues
from holdfast.storage.postgres.schema import MIGRATIONS, VERSION
from tests.servers.entries import PLENTY, SECOND_US, Steps, append, entries, entry, limits, numbers
from tests.services import need
from tests.unit.server.certificates import Authority

pytestmark = pytest.mark.slow


async def ask(url: str, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query, *arguments)]
    finally:
        await connection.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for one test, to be treated badly."""
    if program("initdb") is None:
        need("initdb", PACKAGE)
    server = PostgresServer()
    try:
        yield server.start()
    finally:
        server.close()


_ALL_PROPERTIES = (
    b"\x01\x01\x02\x00\x00\x00\x3c\x03\x00\x04json\x08\x00\x03r/t\x09\x00\x02\xff\x00\x26\x00\x01k\x00\x02v1"
)


def test_every_column_of_the_tables_is_written(
    postgres_store: PostgresQueues, postgres_options: PostgresOptions, steps: Steps
) -> None:
    """P1, but for packet ids, which lie with the session (T3)."""
    url, schema = postgres_options.url, postgres_options.schema
    whole = entry(9, b"x", properties=_ALL_PROPERTIES, expires_us=steps.clock.wall_us() + 60 * SECOND_US)
    whole = QueueEntry(whole.number, Owed(whole.message, 1, identifiers=(7, 8)), whole.expires_us)
    steps(append(postgres_store, "c", [whole]))

    for table, promised in {
        "session_context": {"client_id", "last_updated_time", "last_serial_number"},
        "message": {
            *("client_id", "serial_number", "topic", "time", "packet_type", "qos", "payload", "user_properties"),
            *("retain", "msg_expiry_interval", "payload_format_indicator", "content_type", "response_topic"),
            "correlation_data",
        },
    }.items():
        ((row,),) = steps(ask(url, f"SELECT to_jsonb(one) FROM {schema}.{table} AS one"))
        columns = json.loads(row)
        assert promised <= columns.keys()
        assert [name for name, value in columns.items() if value is None] == []
    indexes = [text for (text,) in steps(ask(url, "SELECT indexdef FROM pg_indexes WHERE schemaname = $1", schema))]
    assert any("UNIQUE" in text and "(client_id, serial_number)" in text for text in indexes)


def test_tables_of_the_first_version_are_brought_forward_with_their_queues(
    postgres_options: PostgresOptions, steps: Steps
) -> None:
    """P1: messages, places and numbers stay."""
    url, schema = postgres_options.url, postgres_options.schema
    # What the first version had, and this one has not.
    older = (
        f"ALTER TABLE {schema}.session_context ADD COLUMN last_packet_id integer",
        f"ALTER TABLE {schema}.message ADD COLUMN packet_id integer",
        f"CREATE INDEX message_packet_id ON {schema}.message (client_id, packet_id) WHERE packet_id IS NOT NULL",
        f"UPDATE {schema}.schema_version SET version = 1",
    )
    store = PostgresQueues(postgres_options, steps.clock)
    steps(append(store, "c", entries(1, 2, 3)))
    steps(store.acknowledge([("c", [1])]))
    steps(store.release("c", [2]))
    steps(store.close())
    for statement in older:
        steps(ask(url, statement))

    store = PostgresQueues(postgres_options, steps.clock)
    found = steps(store.read("c", 0, 10))

    assert [(each.number, each.owed.serial, each.released) for each in found] == [(2, 2, True), (3, 3, False)]
    assert steps(store.last("c")) == (3, 3)
    steps(append(store, "c", entries(4)))
    assert steps(numbers(store, "c")) == [2, 3, 4]
    query = "SELECT count(*) FROM information_schema.columns WHERE table_schema = $1 AND column_name LIKE '%packet_id'"
    assert steps(ask(url, query, schema)) == [(0,)]
    assert steps(ask(url, f"SELECT version FROM {schema}.schema_version")) == [(VERSION,)]
    steps(store.close())


def test_the_first_version_is_what_it_was() -> None:
    """A migration that was released never changes: tables of every version come forward from it."""
    digest = hashlib.sha256(MIGRATIONS[0].encode()).hexdigest()
    assert digest == "118b8edec36f7f5b58a8f797f41af2d34bffec83cd76e3d6ee8ff8cc2f187f55"


def test_people_find_properties_in_columns(
    postgres_store: PostgresQueues, postgres_options: PostgresOptions, steps: Steps
) -> None:
    """P1"""
    properties = _ALL_PROPERTIES
    now_us = steps.clock.wall_us()
    steps(append(postgres_store, "c", [entry(9, b"\0\xff", properties=properties, expires_us=now_us + 60 * SECOND_US)]))
    steps(postgres_store.release("c", [1]))

    columns = (
        "serial_number, topic, time, packet_type, qos, payload, user_properties, retain, msg_expiry_interval, "
        "payload_format_indicator, content_type, response_topic, correlation_data"
    )
    (row,) = steps(ask(postgres_options.url, f"SELECT {columns} FROM {postgres_options.schema}.message"))

    assert row == (
        *(1, "plant/7/level", now_us // 1000, "PUBREL", 1, b"\0\xff", '[["k", "v1"]]', False, 60),
        *(1, "json", "r/t", b"\xff\0"),
    )


def test_serials_are_given_out_once_however_many_ask(postgres_options: PostgresOptions, steps: Steps) -> None:
    """P2"""
    stores = [PostgresQueues(postgres_options, steps.clock) for _ in range(2)]

    async def both() -> list[list[Appended | Exception]]:
        """The same packs from two sides, as when a first try is still on its way. New queues, then old ones."""
        answers: list[list[Appended | Exception]] = []
        for first in (1, 4):
            packs = [AppendBatch(f"c{place}", entries(first, first + 1, first + 2), PLENTY) for place in range(20)]
            answers += await asyncio.gather(*[store.append(packs) for store in stores])
        return answers

    answers = steps(both())

    for answer, first in zip(answers, (1, 1, 4, 4), strict=True):
        found = [each.serials for each in answer if isinstance(each, Appended)]
        assert found == [[first, first + 1, first + 2]] * 20, answer
    assert steps(numbers(stores[0], "c19")) == [1, 2, 3, 4, 5, 6]
    for store in stores:
        steps(store.close())


def test_whoever_changes_what_waits_waits_for_its_turn(
    postgres_store: PostgresQueues, postgres_options: PostgresOptions, steps: Steps
) -> None:
    """P2"""
    schema = postgres_options.schema
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast' AND wait_event_type = 'Lock'"

    async def story() -> None:
        await append(postgres_store, "c", entries(1, 2, 3))
        somebody = await asyncpg.connect(postgres_options.url)
        for work in (
            postgres_store.read("c", 0, 1),
            postgres_store.append([AppendBatch("c", entries(4), PLENTY)]),
            postgres_store.acknowledge([("c", [1])]),
        ):
            async with somebody.transaction():
                await somebody.execute(f"SELECT 1 FROM {schema}.session_context WHERE client_id = 'c' FOR UPDATE")
                task = asyncio.create_task(work)
                while not await somebody.fetchval(waiting):
                    assert not task.done()
            await task
        await somebody.close()

    steps(story())
    assert steps(numbers(postgres_store, "c")) == [2, 3, 4]


def test_cleaning_up_by_time_goes_in_steps(postgres_store: PostgresQueues, steps: Steps) -> None:
    """P2"""
    soon_us = steps.clock.wall_us() + SECOND_US
    steps(append(postgres_store, "c", [entry(number, expires_us=soon_us) for number in range(1, 1502)], limits(2000)))
    steps.clock.advance(SECOND_US)

    swept = [steps(postgres_store.sweep(steps.clock.wall_us())) for _ in range(3)]

    assert swept == [1000, 501, 0]


def test_a_client_id_that_cannot_be_stored_does_not_concern_others(
    postgres_store: PostgresQueues, steps: Steps
) -> None:
    """T4"""
    packs = [AppendBatch("a\ud800", entries(1), PLENTY), AppendBatch("c", entries(1), PLENTY)]

    wrong, right = steps(postgres_store.append(packs))

    assert isinstance(wrong, PermanentError)
    assert isinstance(right, Appended)
    assert right.serials == [1]
    steps(postgres_store.drop(["a\ud800"]))


def test_a_damaged_message_is_set_aside_and_the_rest_is_read(
    postgres_store: PostgresQueues, postgres_options: PostgresOptions, steps: Steps
) -> None:
    steps(append(postgres_store, "c", entries(1, 2, 3), limits(4)))
    damage = f"UPDATE {postgres_options.schema}.message SET packet_type = 'PUBCOMP' WHERE serial_number = 2"
    steps(ask(postgres_options.url, damage))

    with pytest.raises(PermanentError, match="message 2"):
        steps(postgres_store.read("c", 0, 10))

    assert steps(numbers(postgres_store, "c")) == [1, 3]
    assert steps(postgres_store.size("c")).messages == 2
    assert steps(append(postgres_store, "c", entries(2, 3, 4))).serials == [0, 3, 4]
    steps(postgres_store.drop(["c"]))
    left = f"SELECT count(*) FROM {postgres_options.schema}.message"
    assert steps(ask(postgres_options.url, left)) == [(0,)]


def test_tables_of_a_newer_version_are_left_alone(postgres_options: PostgresOptions, steps: Steps) -> None:
    store = PostgresQueues(postgres_options, steps.clock)
    steps(append(store, "c", entries(1)))
    steps(store.close())
    schema = postgres_options.schema
    steps(ask(postgres_options.url, f"UPDATE {schema}.schema_version SET version = 99"))

    store = PostgresQueues(postgres_options, steps.clock)
    with pytest.raises(SettingsError, match="version 99"):
        steps(store.size("c"))

    steps(ask(postgres_options.url, f"UPDATE {schema}.schema_version SET version = {VERSION}"))
    assert steps(store.size("c")).messages == 1
    steps(store.close())


@pytest.mark.parametrize(
    "wrong", [{"url": "mysql://x"}, {"schema": "a;b"}, {"connections": 0}, {"synchronous_commit": "maybe"}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        PostgresOptions(**{"url": "postgresql://127.0.0.1", **wrong})  # type: ignore[arg-type]


def test_a_postgres_that_is_killed_or_silent_loses_nothing_and_stores_nothing_twice(
    own_postgres: PostgresServer, steps: Steps
) -> None:
    """P2 T13"""
    options = PostgresOptions(own_postgres.url, timeout_s=0.5, give_up_s=0.6, synchronous_commit="on")
    hasty = PostgresQueues(options, steps.clock)
    patient = PostgresQueues(PostgresOptions(own_postgres.url), steps.clock)
    acknowledged: list[int] = []

    async def fill(last: int, kill: bool) -> None:
        """Batch after batch, until the last one fails because the server is gone."""
        while True:
            number = len(acknowledged) + 1
            if number == last:
                await asyncio.to_thread(own_postgres.kill if kill else own_postgres.pause)
            (answer,) = await hasty.append([AppendBatch("c", entries(number), PLENTY)])
            if isinstance(answer, Appended):
                acknowledged.append(number)
                continue
            assert isinstance(answer, TransientError), answer
            if number == last:
                return

    steps(fill(20, kill=False))
    with pytest.raises(TransientError):
        steps(hasty.read("c", 0, 10))
    own_postgres.resume()
    again = len(acknowledged) + 1
    assert steps(append(patient, "c", entries(again))).serials == [again]
    acknowledged.append(again)

    steps(fill(again + 20, kill=True))
    own_postgres.start()
    again = len(acknowledged) + 1
    assert steps(append(patient, "c", entries(again, again + 1))).serials == [again, again + 1]

    assert steps(numbers(patient, "c")) == list(range(1, again + 2))
    steps(hasty.close())
    steps(patient.close())


def test_tls_checks_who_is_there(own_postgres: PostgresServer, tmp_path: Path, steps: Steps) -> None:
    authority = Authority(tmp_path)
    for name, file in authority.server_files("postgres").items():
        copy = own_postgres.folder / name
        shutil.copy(file, copy)
        copy.chmod(0o600)
        shutil.chown(copy, own_postgres.folder.owner())
    own_postgres.kill()
    own_postgres.set_options(
        ssl="on", ssl_cert_file=own_postgres.folder / "certificate", ssl_key_file=own_postgres.folder / "key"
    )
    own_postgres.start()

    url = f"{own_postgres.url}?sslmode=verify-full&sslrootcert="
    store = PostgresQueues(PostgresOptions(f"{url}{authority.file}"), steps.clock)
    assert steps(append(store, "c", entries(1))).serials == [1]
    used = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'holdfast'"
    assert steps(ask(own_postgres.url, used)) == [(True,)]
    steps(store.close())
    another = tmp_path / "another"
    another.mkdir()
    stranger = PostgresQueues(PostgresOptions(f"{url}{Authority(another).file}", give_up_s=0.1), steps.clock)
    with pytest.raises(TransientError, match="certificate"):
        steps(append(stranger, "c", entries(2)))
    steps(stranger.close())
