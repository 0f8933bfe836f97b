"""The log as an audit reads it: every stored message, in its order on disk.

    parts ──▶ tasks ──▶ rows: place, topic, publisher, flags │ what stood in front of it │ whether it is erased

1. Erased messages are shown and counts are not checked here: the checks prove them.
2. Payloads stay where they are: of them a row says whether it is empty, and its checksum, if that is wanted.
3. Serials may be what is wrong. They say where parts are best cut, and nothing else: every position is read once.
"""

import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from holdfast.durable.sessions.publish_numbers import PUBLISH_NUMBER
from holdfast.exchange.inbound import publish_number
from holdfast.history.arrow.message_batches import record_batch
from holdfast.history.reader.erasure_filter import erased_rows
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import UNKNOWN, Part
from holdfast.pipeline.source.partitions import tile_parts

_BATCH_ROWS: Final = 16_384
_NUMBERED: Final = PUBLISH_NUMBER.encode()
_READ: Final = ("offset", "serial", "topic", "client_id", "qos", "retain", "payload", "expires_at", "properties")

#: `before_*`: of the message that lies in front of it in its part, -1 for the first. `number`: by its publisher.
STORED: Final = (
    "generation int, shard int, serial bigint, offset bigint, topic string, client_id string, qos tinyint, "
    "retain boolean, empty boolean, expires_us bigint, checksum bigint, number bigint, before_serial bigint, "
    "before_offset bigint, lo bigint, hi bigint, erased boolean"
)


def stored_messages(spark: SparkSession, folder: Path, parts: list[Part], *, checksums: bool) -> DataFrame:
    """Every message of some parts, a row each."""
    with HistoryReader.open(folder) as reader:
        pieces = tile_parts(reader, parts)
    read = partial(read_stored, str(folder), tuple(pieces), checksums=checksums)
    return numbered_tasks(spark, len(pieces)).mapInArrow(read, STORED)


def first_positions(parts: Iterable[Part]) -> dict[int, int]:
    """Where parts begin, by shard."""
    found: dict[int, int] = {}
    for part in parts:
        found[part.shard] = min(found.get(part.shard, part.lo_us), part.lo_us)
    return found


def numbered_tasks(spark: SparkSession, count: int) -> DataFrame:
    """One row for each task, each in its own partition."""
    rows = spark.sparkContext.parallelize([(number,) for number in range(count)], max(1, count))
    return spark.createDataFrame(rows, "number int")


def read_stored(folder: str, pieces: tuple[Part, ...], batches: Iterator[Any], *, checksums: bool) -> Iterator[Any]:
    """In a worker: the rows of some parts."""
    with HistoryReader.open(Path(folder)) as reader:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                yield from _piece(reader, pieces[number], checksums=checksums)


def _piece(reader: HistoryReader, part: Part, *, checksums: bool) -> Iterator[Any]:
    values = reader.stored(part)
    erasures = reader.erasures()
    before_serial = before_offset = UNKNOWN
    while chunk := list(islice(values, _BATCH_ROWS)):
        batch = record_batch(chunk, part.shard, _READ)
        serials, offsets = batch.column("serial").to_numpy(), batch.column("offset").to_numpy()
        payloads = batch.column("payload")
        count = len(chunk)
        erased = erased_rows(batch, part.shard, erasures) if erasures.all else None
        columns = {
            "generation": pa.array(np.full(count, part.generation), pa.int32()),
            "shard": pa.array(np.full(count, part.shard), pa.int32()),
            **{name: batch.column(name) for name in ("serial", "offset", "topic", "client_id", "qos", "retain")},
            "empty": pc.equal(pc.binary_length(payloads), 0),
            "expires_us": batch.column("expires_at").cast(pa.int64()),
            "checksum": _checksums(payloads) if checksums else pa.nulls(count, pa.int64()),
            "number": _numbers(batch.column("properties")),
            "before_serial": pa.array(np.r_[before_serial, serials[:-1]], pa.int64()),
            "before_offset": pa.array(np.r_[before_offset, offsets[:-1]], pa.int64()),
            "lo": pa.array(np.full(count, part.lo_us), pa.int64()),
            "hi": pa.array(np.full(count, part.hi_us), pa.int64()),
            "erased": pa.array(np.zeros(count, bool)) if erased is None else erased,
        }
        yield pa.RecordBatch.from_pydict(columns)
        before_serial, before_offset = int(serials[-1]), int(offsets[-1])


def _checksums(payloads: Any) -> Any:
    """As Spark's `crc32` gives them."""
    return pa.array([zlib.crc32(payload) for payload in payloads.to_pylist()], pa.int64())


def _numbers(properties: Any) -> Any:
    if not pc.any(pc.match_substring(properties, PUBLISH_NUMBER)).as_py():
        return pa.nulls(len(properties), pa.int64())
    found = [publish_number(own) if _NUMBERED in own else -1 for own in properties.to_pylist()]
    return pa.array([None if number < 0 else number for number in found], pa.int64())
