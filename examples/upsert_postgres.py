"""The lake into PostgreSQL: all readings, and the latest one of each device, exactly once.

    python examples/upsert_postgres.py /srv/lake postgresql://spark@localhost/plant

Takes what `holdfast spark archive` has added to the lake since last time. Kill it, or PostgreSQL, whenever you like,
and run it again: how far it has come is in PostgreSQL, and moves in the transaction that brings the rows. It needs
psycopg (pip install "psycopg[binary]"); passwords are in PGPASSWORD or ~/.pgpass, on Spark's workers too.
"""

import sys
from collections.abc import Callable, Iterator
from functools import reduce
from io import BytesIO
from operator import or_
from pathlib import Path
from urllib.parse import unquote
from uuid import uuid4

import psycopg
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv as pc  # type: ignore[import-untyped]
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from psycopg.types.json import Jsonb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.pipeline import session

#: Messages of each shard that a transaction takes, at most.
BATCH = 1_000_000
#: How long to wait for another run to end; of one that was killed, PostgreSQL may be ending the last statement.
PATIENCE = "30s"

TABLES = {
    "readings": "TABLE {} (shard int, serial bigint, device text NOT NULL, ts timestamptz NOT NULL, "
    "celsius float8 NOT NULL, PRIMARY KEY (shard, serial))",
    "latest": "TABLE {} (device text PRIMARY KEY, ts timestamptz, celsius float8, shard int, serial bigint)",
    "lake_progress": "TABLE {} (lake text PRIMARY KEY, serials jsonb NOT NULL)",
    # A crash of PostgreSQL empties it, and ends the run; the next one stages its rows again.
    "lake_staged": "UNLOGGED TABLE {} "
    "(stage uuid, shard int, serial bigint, device text, ts timestamptz, celsius float8)",
}

COPY = "COPY lake_staged (shard, serial, device, ts, celsius, stage) FROM STDIN (FORMAT csv)"
ADD_READINGS = """
INSERT INTO readings (shard, serial, device, ts, celsius)
SELECT shard, serial, device, ts, celsius FROM lake_staged WHERE stage = ANY(%(stages)s::uuid[])
"""
UPSERT_LATEST = """
INSERT INTO latest AS old (device, ts, celsius, shard, serial)
SELECT DISTINCT ON (device) device, ts, celsius, shard, serial
FROM lake_staged WHERE stage = ANY(%(stages)s::uuid[]) ORDER BY device, ts DESC, shard DESC, serial DESC
ON CONFLICT (device) DO UPDATE
SET ts = excluded.ts, celsius = excluded.celsius, shard = excluded.shard, serial = excluded.serial
WHERE (old.ts, old.shard, old.serial) < (excluded.ts, excluded.shard, excluded.serial)
"""
MOVE_PROGRESS = """
INSERT INTO lake_progress AS old (lake, serials) VALUES (%(lake)s, %(serials)s)
ON CONFLICT (lake) DO UPDATE SET serials = old.serials || excluded.serials
"""
#: Also what tasks have left that were repeated or killed.
EMPTY_STAGED = "DELETE FROM lake_staged"

#: The last message of each shard, by its serial: 1, 2, 3, …
Serials = dict[int, int]


# ---- the lake


def open_lake(place: str) -> DeltaTable:
    """One version of it, which stays readable for a week."""
    archive = f"holdfast spark archive --data /var/lib/holdfast --lake {place}"
    if not Path(place).is_dir():
        sys.exit(f"there is no folder {place}; name a lake, which this makes: {archive}")
    try:
        table = DeltaTable(place)
    except (DeltaError, OSError) as wrong:
        sys.exit(f"{place} is no lake that can be read ({wrong}); this makes one: {archive}")
    if not {"shard", "serial", "topic"} <= {field.name for field in table.schema().fields}:
        sys.exit(f"{place} is a Delta table, but no lake of Holdfast; this makes one: {archive}")
    return table


def archived(lake: DeltaTable) -> Serials:
    """How far the lake has come. The archive writes that in the transaction of Delta that adds the messages."""
    mark = f"holdfast/{lake.metadata().name}"
    shards = range(lake.transaction_version(f"{mark}/shards") or 0)
    return {shard: lake.transaction_version(f"{mark}/{shard}/serial") or 0 for shard in shards}


def messages(spark: SparkSession, lake: DeltaTable, after: Serials, until: Serials) -> DataFrame | None:
    """Those of each shard behind one serial and up to another: the same ones whenever it is asked."""

    def may_hold(file: dict[str, int]) -> bool:
        return any(
            file["min.shard"] <= shard <= file["max.shard"]
            and file["min.serial"] <= last
            and file["max.serial"] > after.get(shard, 0)
            for shard, last in until.items()
        )

    files = pa.table(lake.get_add_actions(flatten=True)).to_pylist()
    paths = [str(Path(lake.table_uri, unquote(file["path"]))) for file in files if may_hold(file)]
    if not paths:
        return None
    wanted = [
        (f.col("shard") == s) & (f.col("serial") > after.get(s, 0)) & (f.col("serial") <= until[s]) for s in until
    ]
    return spark.read.parquet(*paths).where(reduce(or_, wanted))


def readings(found: DataFrame) -> DataFrame:
    """What is to be in PostgreSQL; payloads that are no readings are left out."""
    celsius = f.get_json_object(f.col("payload").cast("string"), "$.celsius").cast("double")
    named = found.where(f.col("topic").rlike("^plant/[^/]+/[^/]+/temperature$")).withColumn("celsius", celsius)
    return named.where("celsius IS NOT NULL").select(
        "shard", "serial", f.split("topic", "/")[2].alias("device"), "ts", "celsius"
    )


# ---- PostgreSQL


def connect(address: str) -> psycopg.Connection:
    try:
        return psycopg.connect(address, autocommit=True, connect_timeout=10)
    except psycopg.Error as wrong:
        sys.exit(f"{wrong}\nName the database as postgresql://USER@HOST:PORT/NAME, with its password in PGPASSWORD")


def make_tables(connection: psycopg.Connection) -> None:
    """Those that are missing; and have PostgreSQL plan all statements, so that it says which right is missing."""
    given = {"stages": [], "lake": "", "serials": Jsonb({})}
    try:
        for table, definition in TABLES.items():
            if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
                connection.execute("CREATE " + definition.format(table))
        for statement in (ADD_READINGS, UPSERT_LATEST, MOVE_PROGRESS, EMPTY_STAGED):
            connection.execute("EXPLAIN " + statement, given)
        connection.execute("EXPLAIN INSERT INTO lake_staged SELECT * FROM lake_staged")
    except psycopg.Error as wrong:
        sys.exit(
            f"{wrong}\nThe role needs SELECT, INSERT, UPDATE and DELETE on {', '.join(TABLES)} as this script makes "
            "them, or CREATE on a schema where these names are free"
        )


def lock_tables(connection: psycopg.Connection) -> None:
    """Until the connection ends: a run that has lost the lock has also lost what it writes with."""
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'")
            connection.execute("SELECT pg_advisory_lock('lake_progress'::regclass::oid::bigint)")
    except psycopg.errors.LockNotAvailable:
        sys.exit("another run writes into these tables; wait until it has ended")


def progress(connection: psycopg.Connection, lake: str) -> Serials:
    """How far PostgreSQL has come."""
    rows: dict[str, dict[str, int]] = dict(connection.execute("SELECT lake, serials FROM lake_progress").fetchall())
    if rows and lake not in rows:
        sys.exit(
            f"these tables were filled from another lake, {next(iter(rows))}, and this is {lake}; use other tables"
        )
    return {int(shard): serial for shard, serial in rows.get(lake, {}).items()}


def stage_into(database: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task of Spark does: it copies its rows into a table that only the driver reads."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Another one whenever the task is repeated: rows of an attempt that Spark gave up are never looked at.
        own, rows = str(uuid4()), 0
        with psycopg.connect(database) as connection, connection.cursor() as cursor, cursor.copy(COPY) as copy:
            for batch in batches:
                lines = BytesIO()
                stages = pa.repeat(own, batch.num_rows)
                pc.write_csv(batch.append_column("stage", stages), lines, pc.WriteOptions(include_header=False))
                copy.write(lines.getvalue())
                rows += batch.num_rows
        yield pa.RecordBatch.from_pydict({"stage": [own], "rows": [rows]})

    return stage


def merge(connection: psycopg.Connection, stages: dict[str, int], lake: str, until: Serials) -> None:
    """One transaction: the rows that are staged, and how far they reach."""
    given = {"stages": list(stages), "lake": lake, "serials": Jsonb(until)}
    with connection.transaction():
        if connection.execute(ADD_READINGS, given).rowcount != sum(stages.values()):
            raise RuntimeError("something else has removed rows from lake_staged; run it again")
        for statement in (UPSERT_LATEST, EMPTY_STAGED, MOVE_PROGRESS):
            connection.execute(statement, given)


def main(place: str, database: str, spark: SparkSession | None = None) -> int:
    """Take what is new; how many readings that was. Spark is started when all else is known to be right."""
    lake = open_lake(place)
    identity, target, total = str(lake.metadata().id), archived(lake), 0
    with connect(database) as connection:
        make_tables(connection)
        lock_tables(connection)
        done = progress(connection, identity)
        while behind := {shard: last for shard, last in target.items() if last > done.get(shard, 0)}:
            spark = spark or session()
            until = {shard: min(last, done.get(shard, 0) + BATCH) for shard, last in behind.items()}
            found = messages(spark, lake, done, until)
            tasks = (
                readings(found).mapInArrow(stage_into(database), "stage string, rows long").collect() if found else []
            )
            merge(connection, {task.stage: task.rows for task in tasks}, identity, until)
            done |= until
            total += sum(task.rows for task in tasks)
    return total


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(main(sys.argv[1], sys.argv[2]), "new readings")
