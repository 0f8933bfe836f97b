"""The work of a relayout in the workers of Spark: count topics, encode messages by another layout."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.pipeline.shipment.pair_batches import Digest, PairEmitter, digest_of, record_batch_of
from holdfast.pipeline.spark.progress import TaskCounter
from holdfast.records.generations import Generation
from holdfast.records.messages import encode_message, stored_position, stored_topic
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure
from holdfast.storage.rocks.shipments.trial_database import read_trial

#: Columns of a lake that a message is made of, times as microseconds.
LAKE_COLUMNS = ("shard", "offset", "serial", "topic", "client_id", "qos", "retain", "payload", "properties")
LAKE_TIMES = ("received_at", "expires_at")
#: `last_us`: the position of its last message.
TOPICS: Final = pa.schema(
    [("slot", pa.int32()), ("topic", pa.binary()), ("messages", pa.int64()), ("last_us", pa.int64())]
)
_BATCH_ROWS: Final = 10_000


def count_topics(data: str, part: Part) -> list[tuple[tuple[int, bytes], tuple[int, int]]]:
    """Shard and topic, with how many messages it has in a part, and the position of the last one."""
    counted: Counter[bytes] = Counter()
    last: dict[bytes, int] = {}
    with HistoryReader.open(Path(data)) as reader:
        for value in reader.stored(part):
            topic = stored_topic(value)
            counted[topic] += 1
            last[topic] = stored_position(value)
    return [((part.shard, topic), (count, last[topic])) for topic, count in counted.items()]


def count_part_topics(data: str, parts: Sequence[Part], batches: Iterable[Any]) -> Iterator[Any]:
    """Rows of TOPICS, of the parts whose numbers come in the batches; a topic once for each part."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            counted = count_topics(data, parts[number])
            rows = [(shard, topic, count, last_us) for (shard, topic), (count, last_us) in counted]
            for begin in range(0, len(rows), _BATCH_ROWS):
                yield record_batch_of(rows[begin : begin + _BATCH_ROWS], TOPICS)


def lay_out_parts(
    data: str,
    parts: Sequence[Part],
    structures: Mapping[int, LayoutStructure],
    batches: Iterable[Any],
    counter: TaskCounter | None = None,
) -> Iterator[Any]:
    """The parts whose numbers come in the batches; their slots are their shards."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            part = parts[number]
            emitting = PairEmitter(structures)
            row = -1
            with HistoryReader.open(Path(data)) as reader:
                for row, value in enumerate(reader.stored(part)):
                    emitting.put(part.shard, stored_topic(value), stored_position(value), value)
                    if row % _BATCH_ROWS == _BATCH_ROWS - 1:
                        yield from emitting.take()
            if counter is not None:
                counter.add(row + 1)
            yield from emitting.finish()


def lay_out_rows(structures: Mapping[int, LayoutStructure], batches: Iterable[Any]) -> Iterator[Any]:
    """Rows of a lake, in the order of shard and offset."""
    emitting = PairEmitter(structures)
    for batch in batches:
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        topics = batch.column("topic").cast(pa.binary()).to_pylist()
        for row, shard in enumerate(columns["shard"]):
            position_us = columns["offset"][row]
            message = Message(
                topics[row],
                columns["payload"][row],
                columns["qos"][row],
                ClientId(columns["client_id"][row]),
                columns["received_at"][row],
                retain=columns["retain"][row],
                properties=columns["properties"][row],
                expires_us=columns["expires_at"][row] or 0,
            )
            value = encode_message(message, position_us, columns["serial"][row])
            emitting.put(shard, topics[row], position_us, value)
        yield from emitting.take()
    yield from emitting.finish()


def trial_digest(path: str, record: Generation, part: Part) -> Digest:
    return digest_of(read_trial(Path(path), record, part.shard, part.lo_us, part.hi_us))
