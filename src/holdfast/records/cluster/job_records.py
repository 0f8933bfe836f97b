"""What jobs beside the nodes have told one of them, as items of the control log: leases and erasures.

    kind  item      fields behind the version, u8 = 1
    ────  ────────  ───────────────────────────────────────────────────────────────────────────────────────────────
    66    lease     name text │ renewed i64 (µs) │ places; none: the lease was removed
    67    erasure   client text │ topic filter blob; one of them is empty │ made i64 (µs) │ made by text │ places

    places   u16, each: shard u16 │ position i64, by shard

Shards and positions are the same on all nodes, so these mean the same on all of them. The rules are in
`durable/state_machine/job_records.py`.
"""

from typing import Final

from holdfast.records.fields import RecordReader, ValueRecord, blob, i64, text, u16

#: Never change.
LEASE: Final = 0x66
ERASURE: Final = 0x67

#: By shard, in its order: a position.
Places = tuple[tuple[int, int], ...]


class LeaseItem(ValueRecord):
    """How far a pipeline has come. Without places: it needs nothing any more."""

    def __init__(self, name: str, renewed_us: int, positions: Places) -> None:
        self.name: Final = name
        self.renewed_us: Final = renewed_us
        self.positions: Final = positions

    @property
    def is_removed(self) -> bool:
        return not self.positions

    def _fields(self) -> tuple[object, ...]:
        return (self.name, self.renewed_us, self.positions)


class ErasureItem(ValueRecord):
    """What a client has published, or what was published to the topics of a filter, is shown to no reader any more."""

    def __init__(self, client: str, topic: bytes, up_to: Places, made_us: int, made_by: str) -> None:
        self.client: Final = client
        self.topic: Final = topic
        self.up_to: Final = up_to
        self.made_us: Final = made_us
        self.made_by: Final = made_by

    def _fields(self) -> tuple[object, ...]:
        return (self.client, self.topic, self.up_to, self.made_us, self.made_by)


def encode_lease(item: LeaseItem) -> bytes:
    return text(item.name) + i64(item.renewed_us) + _encode_places(item.positions)


def read_lease(fields: RecordReader) -> LeaseItem:
    name = fields.text("the name")
    renewed_us = fields.i64("the time")
    return LeaseItem(name, renewed_us, _read_places(fields))


def encode_erasure(item: ErasureItem) -> bytes:
    who = text(item.client) + blob(item.topic)
    return who + i64(item.made_us) + text(item.made_by) + _encode_places(item.up_to)


def read_erasure(fields: RecordReader) -> ErasureItem:
    client = fields.text("the client")
    topic = fields.blob("the topic filter")
    made_us = fields.i64("the time")
    made_by = fields.text("who made it")
    return ErasureItem(client, topic, _read_places(fields), made_us, made_by)


def _encode_places(places: Places) -> bytes:
    return b"".join([u16(len(places)), *[u16(shard) + i64(position_us) for shard, position_us in places]])


def _read_places(fields: RecordReader) -> Places:
    count = fields.u16("the places")
    found: list[tuple[int, int]] = []
    for _place in range(count):
        shard = fields.u16("a shard")
        found.append((shard, fields.i64("a position")))
    return tuple(found)
