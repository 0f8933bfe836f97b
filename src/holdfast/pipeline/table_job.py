"""Keys and values into tables, tables into the log, and what is there then against what went in. On Spark.

    (slot, key, value) ──▶ sorted by slot and key over all workers ──▶ a table or more each ──▶ a shipment ──▶ the log
         digests ─────────────────────────────────────── compared ◀── read back by the ordinary reader ◀─────────┘

1. Tables of a slot do not overlap, so RocksDB takes them as they are, at the lowest level.
2. Files of an attempt that failed are not in the list, and go with the folder.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import StorageLevel, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.history.reader import HistoryReader, Part
from holdfast.model.errors import HoldfastError, PermanentError, SettingsError, TransientError
from holdfast.pipeline.digests import Digest, digest_of, summed
from holdfast.pipeline.emitting import DIGEST_SLOT, PAIRS, batch_of_rows, read_digest
from holdfast.pipeline.spark_errors import translated
from holdfast.records.generations import Generation
from holdfast.storage.rocks.engine import Engine
from holdfast.storage.rocks.failures import FolderHeldError
from holdfast.storage.rocks.shipments import TABLES, Shipment, is_waiting, read_shipment, refusal, was_seen
from holdfast.storage.rocks.table_files import TableWriter
from holdfast.storage.rocks.taking_in import take_in

#: Keys of one task: a few tables, and not more memory than a worker has.
TASK_KEYS: Final = 1_000_000
#: A process that holds the folder and does not look at a shipment for this long will not.
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.1
_TABLES: Final = pa.schema([("slot", pa.int32()), ("name", pa.string()), ("keys", pa.int64()), ("bytes", pa.int64())])

Progress = Callable[[float | None, str], None]


@dataclass(frozen=True)
class Tables:
    """What was written."""

    #: By slot.
    names: Mapping[int, tuple[str, ...]]
    digests: Mapping[int, Digest]
    size_bytes: int


def spark_errors(work: Callable[[], Any]) -> Any:
    """Run something on Spark; what a worker said last, as one of our errors, if it fails."""
    try:
        return work()
    except (Py4JError, PySparkException) as error:
        raise translated(error, "Spark failed") from error


def write_tables(pairs: DataFrame, folder: Path, keys: int, more: Mapping[int, list[tuple[bytes, bytes]]]) -> Tables:
    """Sort pairs and write them; `keys` is about how many there are, `more` what each slot has besides."""
    spark = pairs.sparkSession
    held = pairs.persist(StorageLevel.DISK_ONLY)
    try:
        rows = spark_errors(lambda: held.where(held.slot == DIGEST_SLOT).collect())
        digests: dict[int, Digest] = {}
        for row in rows:
            slot, digest = read_digest(bytes(row.key), bytes(row.value))
            digests[slot] = digests.get(slot, Digest()).plus(digest)
        own = [(slot, key, value) for slot, given in more.items() for key, value in given]
        everything = held.where(held.slot != DIGEST_SLOT)
        if own:
            everything = everything.union(spark.createDataFrame(own, from_arrow_schema(PAIRS)))
        tasks = max(spark.sparkContext.defaultParallelism, keys // TASK_KEYS + 1)
        ordered = everything.repartitionByRange(tasks, "slot", "key").sortWithinPartitions("slot", "key")
        work = partial(_write, str(folder / TABLES))
        found = spark_errors(lambda: ordered.mapInArrow(work, from_arrow_schema(_TABLES)).collect())
    finally:
        held.unpersist()
    names: dict[int, list[str]] = {}
    for row in found:
        names.setdefault(row.slot, []).append(row.name)
    return Tables(
        {slot: tuple(sorted(listed)) for slot, listed in names.items()}, digests, sum(row.bytes for row in found)
    )


def _write(folder: str, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: rows in the order of slot and key."""
    task = TaskContext.get()
    assert task is not None
    writer: TableWriter | None = None
    at = -1
    rows: list[tuple[int, str, int, int]] = []

    def end() -> None:
        if writer is not None:
            rows.extend((at, table.name, table.keys, table.size_bytes) for table in writer.close())

    for batch in batches:
        slots = batch.column("slot").to_numpy()
        begin = 0
        while begin < len(slots):
            slot = int(slots[begin])
            count = int((slots[begin:] == slot).sum())
            if slot != at:
                end()
                at = slot
                writer = TableWriter(Path(folder), f"{slot:05d}-{task.partitionId():05d}-{task.taskAttemptId()}")
            piece = batch.slice(begin, count)
            assert writer is not None
            writer.write(zip(piece.column("key").to_pylist(), piece.column("value").to_pylist(), strict=True))
            begin += count
    end()
    yield batch_of_rows(rows, _TABLES)


# ---- into the log


def hand_over(data: Path, name: str, progress: Progress, now_s: Callable[[], float] = time.monotonic) -> str:
    """Have a shipment taken in by whoever holds the data folder, or do it; who it was, in words.

    Ensures: it is in the log, synced. PermanentError: it does not fit.
    """
    began_s = now_s()
    while True:
        why = refusal(data, name)
        if why is not None:
            raise PermanentError(why)
        if not is_waiting(data, name):
            return "the broker"
        try:
            return _take_in(data, read_shipment(data, name))
        except FolderHeldError as held:
            if not was_seen(data, name) and now_s() - began_s > _PATIENCE_S:
                raise TransientError(
                    f"{held}; it has not looked at incoming/{name} for {_PATIENCE_S:.0f} s, and takes it in at its "
                    "next start, if it is a broker of this version"
                ) from held
        progress(None, "the broker takes it in")
        time.sleep(_LOOK_S)


def _take_in(data: Path, shipment: Shipment) -> str:
    engine = Engine.open(data)
    try:
        take_in(engine, shipment)
    finally:
        engine.close()
    return "this command"


# ---- what is there


def read_back(spark: SparkSession, data: Path, records: list[Generation], progress: Progress) -> dict[str, Digest]:
    """The digest of each generation, by its zone and number: as the reader finds it, what is erased included."""
    tasks: list[tuple[str, list[Part]]] = []
    with HistoryReader.open(data) as reader:
        for record in records:
            parts = [part for part in reader.parts(zone=record.zone) if part.generation == record.number]
            for part in parts:
                count = max(1, (part.last_serial - part.after_serial) // TASK_KEYS + 1)
                tasks.extend((_name(record), [piece]) for piece in part.split(count))
    found: dict[str, Digest] = {_name(record): Digest() for record in records}
    if not tasks:
        return found
    progress(None, "reading back")
    work = partial(_read_back, str(data))
    count = len(tasks)
    results = spark_errors(lambda: spark.sparkContext.parallelize(tasks, count).map(work).collect())
    for name, digest in results:
        if isinstance(digest, HoldfastError):
            raise digest
        found[name] = found[name].plus(digest)
    return found


def _read_back(data: str, task: tuple[str, list[Part]]) -> tuple[str, Digest | HoldfastError]:
    name, parts = task
    try:
        with HistoryReader.open(Path(data)) as reader:
            return name, summed([digest_of(reader.stored(part)) for part in parts])
    except (PermanentError, SettingsError) as error:
        return name, error


def _name(record: Generation) -> str:
    return f"{record.zone}/{record.number}"


def compare(record: Generation, wanted: Digest, found: Mapping[str, Digest]) -> None:
    """PermanentError if a generation does not hold what went in."""
    there = found[_name(record)]
    if there != wanted:
        raise PermanentError(
            f"generation {record.number} of {record.zone} should hold {wanted.messages:,} messages with the sum "
            f"{wanted.total:016x}, and {there.messages:,} with the sum {there.total:016x} were read back; "
            "run: holdfast verify"
        )
