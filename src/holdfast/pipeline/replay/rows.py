"""Rows of history as messages that are published again.

    topic         the prefix, and the topic as it was
    payload       as it was
    properties    as they were, an expiry interval too, and behind them:
                  ts              when a broker took the original, in µs
                  offset          its place in the log, SHARD:POSITION
                  client-id       who published it
                  due             when the copy was to be sent, in µs; of a replay with a speed
                  publish-number  so that it is taken once

`ts` and `offset` are what a broker's own replay says. A copy is not retained: the present value of a topic is not one
of the past.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.client.message import OutgoingMessage
from holdfast.durable.sessions.publish_numbers import PUBLISH_NUMBER
from holdfast.model.errors import PermanentError
from holdfast.model.protocol import CLIENT, MAX_U16, PUBLISH
from holdfast.pipeline.replay.schedule import ReplaySchedule, number_of
from holdfast.wire.primitives import ByteReader, encode_binary, encode_text, encode_varint
from holdfast.wire.properties import decode_properties, encode_property_list

#: What has to be read.
COLUMNS: Final = ("offset", "shard", "topic", "client_id", "payload", "properties")
#: User properties, encoded up to their values.
_TS, _OFFSET, _CLIENT_ID, _DUE, _NUMBER = (
    b"\x26" + encode_text(name) for name in ("ts", "offset", "client-id", "due", PUBLISH_NUMBER)
)


class ReplayRow(NamedTuple):
    offset_us: int
    shard: int
    number: int
    topic: bytes
    client_id: bytes
    payload: bytes
    properties: bytes


def read_rows(batches: Iterator[Any], after: int) -> Iterator[ReplayRow]:
    """The rows of record batches with a number above this one, which come in the order of their numbers."""
    for batch in batches:
        offsets, shards = (batch.column(name).to_pylist() for name in COLUMNS[:2])
        texts = [batch.column(name).cast(pa.binary()).to_pylist() for name in COLUMNS[2:]]
        for offset_us, shard, topic, client_id, payload, properties in zip(offsets, shards, *texts, strict=True):
            number = number_of(offset_us, shard)
            if number > after:
                yield ReplayRow(offset_us, shard, number, topic, client_id, payload, properties)


class MessageCopier:
    def __init__(self, prefix: str, qos: int) -> None:
        self._prefix: Final = prefix.encode()
        self._first: Final = PUBLISH << 4 | qos << 1

    def message(self, row: ReplayRow, schedule: ReplaySchedule | None) -> OutgoingMessage:
        """PermanentError if the prefix makes its topic too long."""
        topic = self._prefix + row.topic
        if len(topic) > MAX_U16:
            raise PermanentError(f"with its prefix, a topic has {len(topic)} bytes: {row.topic[:60]!r}…; use a shorter")
        parts = [
            _without_number(row.properties),
            _TS + encode_binary(b"%d" % row.offset_us),
            _OFFSET + encode_binary(b"%d:%d" % (row.shard, row.offset_us)),
            _CLIENT_ID + encode_binary(row.client_id),
        ]
        if schedule is not None:
            parts.append(_DUE + encode_binary(b"%d" % schedule.due_us(row.offset_us)))
        parts.append(_NUMBER + encode_binary(b"%d" % row.number))
        return OutgoingMessage(self._first, topic, b"".join(parts), row.payload)


def _without_number(properties: bytes) -> bytes:
    """The number that another writer gave a message is not one of this replay's."""
    if PUBLISH_NUMBER.encode() not in properties:
        return properties
    listed = encode_varint(len(properties)) + properties
    found = decode_properties(ByteReader(listed, 0, len(listed)), PUBLISH, CLIENT)
    kept = tuple((name, text) for name, text in found.user_properties if name != PUBLISH_NUMBER)
    return encode_property_list(replace(found, user_properties=kept), PUBLISH)
