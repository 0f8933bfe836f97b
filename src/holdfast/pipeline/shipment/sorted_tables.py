"""On Spark: keys and values into sorted tables, tables into the log, and a comparison of the log with what went in.

    (slot, key, value) ──▶ sorted by slot and key over all workers ──▶ a table or more each ──▶ a shipment ──▶ the log
         digests ─────────────────────────────────────── compared ◀── read back by the ordinary reader ◀─────────┘

1. Tables of a slot do not overlap, so RocksDB takes them as they are, at the lowest level.
2. Files of an attempt that failed are not in the list, and go with the folder.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.model.errors import HoldfastError, PermanentError, SettingsError, TransientError
from holdfast.pipeline.shipment.pair_batches import (
    DIGEST_SLOT,
    PAIRS,
    Digest,
    digest_of,
    read_digest,
    record_batch_of,
)
from holdfast.pipeline.source.partitions import task_count, tile_parts
from holdfast.pipeline.spark.errors import spark_errors
from holdfast.pipeline.spark.progress import JobProgress, TaskCounter
from holdfast.records.generations import Generation
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import FolderHeldError
from holdfast.storage.rocks.shipments.ingestion import ingest_shipment
from holdfast.storage.rocks.shipments.shipment import TABLES, is_waiting, read_shipment, refusal, was_seen
from holdfast.storage.rocks.shipments.sst_files import SstWriter

#: Seconds for the process that holds the folder to look at a shipment.
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.1
_TABLES: Final = pa.schema([("slot", pa.int32()), ("name", pa.string()), ("keys", pa.int64()), ("bytes", pa.int64())])


@dataclass(frozen=True)
class WrittenTables:
    """The tables of all slots, and a digest of the messages of each."""

    #: By slot.
    names: Mapping[int, tuple[str, ...]]
    digests: Mapping[int, Digest]
    size_bytes: int


def write_tables(
    pairs: DataFrame, folder: Path, keys: int, more: Mapping[int, list[tuple[bytes, bytes]]]
) -> WrittenTables:
    """Sort pairs and write them; `keys` is about how many there are, `more` what each slot has besides."""
    spark = pairs.sparkSession
    held = pairs.persist(StorageLevel.DISK_ONLY)
    try:
        with spark_errors():
            rows = held.where(held.slot == DIGEST_SLOT).collect()
        digests: dict[int, Digest] = {}
        for row in rows:
            slot, digest = read_digest(bytes(row.key), bytes(row.value))
            digests[slot] = digests.get(slot, Digest()).plus(digest)
        own = [(slot, key, value) for slot, given in more.items() for key, value in given]
        everything = held.where(held.slot != DIGEST_SLOT)
        if own:
            everything = everything.union(spark.createDataFrame(own, from_arrow_schema(PAIRS)))
        tasks = max(spark.sparkContext.defaultParallelism, task_count(keys))
        ordered = everything.repartitionByRange(tasks, "slot", "key").sortWithinPartitions("slot", "key")
        work = partial(_write, str(folder / TABLES))
        with spark_errors():
            found = ordered.mapInArrow(work, from_arrow_schema(_TABLES)).collect()
    finally:
        held.unpersist()
    names: dict[int, list[str]] = {}
    for row in found:
        names.setdefault(row.slot, []).append(row.name)
    return WrittenTables(
        {slot: tuple(sorted(listed)) for slot, listed in names.items()}, digests, sum(row.bytes for row in found)
    )


def _write(folder: str, batches: Iterable[Any]) -> Iterator[Any]:
    """In a worker: rows in the order of slot and key."""
    task = TaskContext.get()
    assert task is not None
    writer: SstWriter | None = None
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
                writer = SstWriter(Path(folder), f"{slot:05d}-{task.partitionId():05d}-{task.taskAttemptId()}")
            piece = batch.slice(begin, count)
            assert writer is not None
            writer.write(zip(piece.column("key").to_pylist(), piece.column("value").to_pylist(), strict=True))
            begin += count
    end()
    yield record_batch_of(rows, _TABLES)


# ---- into the log


def hand_over(data: Path, name: str, progress: JobProgress) -> str:
    """Have a shipment ingested by the process that holds the data folder, or ingest it; who did it.

    Ensures: it is in the log, synced. PermanentError: it does not fit.
    """
    began_s = time.monotonic()
    while True:
        why = refusal(data, name)
        if why is not None:
            raise PermanentError(why)
        if not is_waiting(data, name):
            return "the broker"
        try:
            with closing(Engine.open(data)) as engine:
                ingest_shipment(engine, read_shipment(data, name))
            return "this command"
        except FolderHeldError as held:
            if not was_seen(data, name) and time.monotonic() - began_s > _PATIENCE_S:
                raise TransientError(
                    f"{held}; it has not looked at incoming/{name} for {_PATIENCE_S:.0f} s, and ingests it at its "
                    "next start, if it is a broker of this version"
                ) from held
        progress.say("the broker ingests it")
        time.sleep(_LOOK_S)


# ---- what is there


def read_back(spark: SparkSession, data: Path, records: list[Generation], progress: JobProgress) -> dict[str, Digest]:
    """The digest of each generation, by its zone and number: as the reader finds it, what is erased included."""
    tasks: list[tuple[str, Part]] = []
    with HistoryReader.open(data) as reader:
        for record in records:
            parts = [part for part in reader.parts(zone=record.zone) if part.generation == record.number]
            tasks.extend((_name(record), piece) for piece in tile_parts(reader, parts))
    found: dict[str, Digest] = {_name(record): Digest() for record in records}
    if not tasks:
        return found
    progress(None, "reading back", rows=sum(max(0, part.last_serial - part.after_serial) for _name, part in tasks))
    work = partial(_read_back, str(data), progress.counter(spark))
    with spark_errors():
        results = spark.sparkContext.parallelize(tasks, len(tasks)).map(work).collect()
    for name, digest in results:
        if isinstance(digest, HoldfastError):
            raise digest
        found[name] = found[name].plus(digest)
    return found


def _read_back(data: str, counter: TaskCounter, task: tuple[str, Part]) -> tuple[str, Digest | HoldfastError]:
    name, part = task
    try:
        with HistoryReader.open(Path(data)) as reader:
            digest = digest_of(reader.stored(part))
        counter.add(digest.messages)
        return name, digest
    except (PermanentError, SettingsError) as error:
        return name, error


def _name(record: Generation) -> str:
    return f"{record.zone}/{record.number}"


def check_digest(record: Generation, wanted: Digest, found: Mapping[str, Digest]) -> None:
    """PermanentError if a generation does not hold what went in."""
    there = found[_name(record)]
    if there != wanted:
        raise PermanentError(
            f"generation {record.number} of {record.zone} should hold {wanted.messages:,} messages with the sum "
            f"{wanted.total:016x}, and {there.messages:,} with the sum {there.total:016x} were read back; "
            "run: holdfast verify"
        )
