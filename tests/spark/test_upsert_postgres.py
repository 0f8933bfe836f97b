"""examples/upsert_postgres.py brings each acknowledged reading into PostgreSQL once, whenever it is killed."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.queues.postgres_server import PACKAGE, PostgresServer, missing
from tests.history.processes import until
from tests.services import need
from tests.spark.examples import RunningExample, example
from tests.spark.lakes import archive
from tests.spark.publishers import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "upsert_postgres"
DEVICES = 7
#: Of 100 messages, so many are readings.
READINGS_OF_100 = 96
#: Advisory locks on which PostgreSQL waits in the middle of a task's COPY, and when it is about to commit a batch.
COPYING, COMMITTING = 1, 2
HOLDS = f"""
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::int, 0); RETURN NEW; END $$;
CREATE TRIGGER hold_copy BEFORE INSERT ON lake_staged
FOR EACH ROW WHEN (NEW.serial % 50 = 49) EXECUTE FUNCTION hold({COPYING});
CREATE CONSTRAINT TRIGGER hold_commit AFTER INSERT OR UPDATE ON lake_progress
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hold({COMMITTING});
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    if missing():
        need("initdb", PACKAGE)
    with closing(PostgresServer(fsync="off")) as server:
        yield server.start()


@pytest.fixture
def database(postgres: PostgresServer, tmp_path: Path) -> str:
    """The address of one that is empty."""
    name = f"plant_{abs(hash(tmp_path))}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.url.removesuffix("postgres") + name


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, "shards = 3\n") as running:
        yield running


@pytest.fixture
def upsert() -> ModuleType:
    return example(NAME)


def messages(first: int, count: int) -> list[Sent]:
    """Readings, and some that are none: a payload without a number, and another topic."""
    sent = []
    for number in range(first, first + count):
        device = f'd"{number // 10 % DEVICES},'
        payload = b"warm" if number % 50 == 7 else json.dumps({"celsius": number / 7}).encode()
        what = "pressure" if number % 50 == 8 else "temperature"
        sent.append(Sent(f"plant/hall/{device}/{what}", payload, client_id=device))
    return sent


def acknowledged(broker: Broker) -> list[tuple[str, float]]:
    return [
        (sent.topic.split("/")[2], json.loads(sent.payload)["celsius"])
        for sent in broker.sent
        if sent.topic.endswith("/temperature") and sent.payload != b"warm"
    ]


def rows(connection: psycopg.Connection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def count(connection: psycopg.Connection, table: str) -> object:
    return rows(connection, f"SELECT count(*) FROM {table}")[0][0]


def waiting(hold: int) -> str:
    return f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = {hold} AND NOT granted"


def lost_and_twice(broker: Broker, connection: psycopg.Connection) -> tuple[int, int]:
    """Readings that were acknowledged and are not there; and those that are there once too often."""
    wanted = Counter(acknowledged(broker))
    found = Counter((device, celsius) for device, celsius in rows(connection, "SELECT device, celsius FROM readings"))
    return (wanted - found).total(), (found - wanted).total()


def killed_at(hold: int, log: Path, connection: psycopg.Connection, *arguments: str) -> None:
    """Run the example until PostgreSQL waits there, kill it with all its processes, and let PostgreSQL go on.

    Before that, nothing of its first batch may be seen.
    """
    connection.execute("SELECT pg_advisory_lock(%s, 0)", [hold])
    with closing(RunningExample(log, NAME, *arguments)) as running:
        until(lambda: rows(connection, waiting(hold)) or not running.runs, f"PostgreSQL waits: {log}", 300)
        running.kill()
    assert (count(connection, "readings"), count(connection, "latest"), count(connection, "lake_progress")) == (0, 0, 0)
    connection.execute("SELECT pg_advisory_unlock(%s, 0)", [hold])


def test_each_acknowledged_reading_is_in_postgres_once_though_the_driver_is_killed(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    database: str,
    connection: psycopg.Connection,
    upsert: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = tmp_path / "lake"
    upsert.make_tables(connection)
    connection.execute(HOLDS)
    broker.publish(messages(0, 600))
    archive(spark, broker, lake)

    # In the middle of staging: some rows are sent, no batch is there.
    killed_at(COPYING, tmp_path / "log-1", connection, str(lake), database)

    # PostgreSQL commits when the driver is dead, which has not learnt that the batch is there.
    killed_at(COMMITTING, tmp_path / "log-2", connection, str(lake), database)
    until(lambda: count(connection, "readings") == 6 * READINGS_OF_100, "PostgreSQL has committed")

    # A task that Spark repeated has left rows, and more messages come.
    copied = "SELECT gen_random_uuid(), shard, serial + 1000000, device, ts, celsius FROM readings LIMIT 50"
    connection.execute(f"INSERT INTO lake_staged {copied}")
    broker.publish(messages(600, 400))
    archive(spark, broker, lake)
    monkeypatch.setattr(upsert, "BATCH", 50)
    assert upsert.main(str(lake), database, spark) == 4 * READINGS_OF_100
    assert upsert.main(str(lake), database, spark) == 0

    assert lost_and_twice(broker, connection) == (0, 0)
    assert count(connection, "readings") == 10 * READINGS_OF_100
    latest = dict(acknowledged(broker))
    assert sorted(rows(connection, "SELECT device, celsius FROM latest")) == sorted(latest.items())
    assert count(connection, "lake_staged") == 0


def test_a_crash_of_postgres_within_a_copy_loses_and_repeats_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path, postgres: PostgresServer, database: str, upsert: ModuleType
) -> None:
    lake = str(tmp_path / "lake")
    broker.publish(messages(0, 200))
    archive(spark, broker, lake)
    with psycopg.connect(database, autocommit=True) as connection, ThreadPoolExecutor(1) as pool:
        upsert.make_tables(connection)
        connection.execute(HOLDS)
        connection.execute("SELECT pg_advisory_lock(%s, 0)", [COPYING])
        running = pool.submit(upsert.main, lake, database, spark)
        until(lambda: rows(connection, waiting(COPYING)) or running.done(), "PostgreSQL waits", 240)
        postgres.kill()
        with pytest.raises(PySparkException, match=r"psycopg\.OperationalError"):
            running.result()
    postgres.start()

    assert upsert.main(lake, database, spark) == 2 * READINGS_OF_100
    with psycopg.connect(database) as connection:
        assert lost_and_twice(broker, connection) == (0, 0)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(SystemExit) as ended:
        call()
    return str(ended.value)


def test_what_is_wrong_is_named_before_spark_is_started(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    database: str,
    connection: psycopg.Connection,
    upsert: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = str(tmp_path / "lake")
    monkeypatch.setattr(upsert, "session", lambda: pytest.fail("Spark is started"))
    monkeypatch.setattr(upsert, "PATIENCE", "10ms")

    assert "there is no folder" in refused(lambda: upsert.main(lake, database))
    assert "this makes one: holdfast spark archive" in refused(lambda: upsert.main(str(tmp_path), database))
    write_deltalake(str(tmp_path / "other"), pa.table({"serial": [1]}))
    assert "no lake of Holdfast" in refused(lambda: upsert.main(str(tmp_path / "other"), database))

    broker.publish(messages(0, 10))
    archive(spark, broker, tmp_path / "lake")
    closed = "postgresql://holdfast@127.0.0.1:1/plant"
    assert "port 1 failed" in refused(lambda: upsert.main(lake, closed))
    assert "postgresql://USER@HOST:PORT/NAME" in refused(lambda: upsert.main(lake, "plant on db.example.org"))
    stranger = database.replace("holdfast@", "stranger:secret@")
    said = refused(lambda: upsert.main(lake, stranger))
    assert 'role "stranger" does not exist' in said
    assert "secret" not in said

    connection.execute("CREATE ROLE stranger LOGIN")
    assert "permission denied for schema public" in refused(lambda: upsert.main(lake, stranger))
    upsert.make_tables(connection)
    granted = "SELECT, INSERT, UPDATE ON readings, latest, lake_progress, lake_staged TO stranger"
    connection.execute(f"GRANT {granted}")
    said = refused(lambda: upsert.main(lake, stranger))
    assert "permission denied for table lake_staged" in said
    assert "needs SELECT, INSERT, UPDATE and DELETE" in said

    with psycopg.connect(database, autocommit=True) as other:
        upsert.lock_tables(other)
        assert "another run" in refused(lambda: upsert.main(lake, database))
    connection.execute("INSERT INTO lake_progress VALUES ('another', '{}')")
    assert "filled from another lake" in refused(lambda: upsert.main(lake, database))
