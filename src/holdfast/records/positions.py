"""How far each shard has come: its ceiling, its head, and what it has applied.

    ceiling    0 version u8 = 1 | 1 ceiling i64 (µs)
    head       0 version u8 = 1 | 1 last position i64 (µs) | 9 last serial u64 | 17 commits u64
    applied    0 version u8 = 1 | 1 sequence u64 | 9 source text

A ceiling is synced before a position above it is given out (`durable/positions.py`). A head is written with every
commit of its shard: the serials tell how many messages there are, so that a short read is noticed. An applied mark is
written with the messages that another log handed over, so that none is applied twice or left out.
"""

from typing import Final

from holdfast.records.fields import RecordReader, i64, text, u8, u64

#: Never change.
VERSION: Final = 1


class ShardHead:
    """The end of a shard: 1. `serial` is the number of messages ever stored, 0 in an empty shard."""

    def __init__(self, position_us: int, serial: int, commits: int) -> None:
        self.position_us: Final = position_us
        self.serial: Final = serial
        self.commits: Final = commits


class AppliedMark:
    """The last entry of another log that is in this shard; `source` names that log."""

    def __init__(self, sequence: int, source: str) -> None:
        self.sequence: Final = sequence
        self.source: Final = source


def encode_ceiling(ceiling_us: int) -> bytes:
    return u8(VERSION) + i64(ceiling_us)


def decode_ceiling(value: bytes) -> int:
    fields = RecordReader(value, "the ceiling of a shard", VERSION)
    ceiling_us = fields.i64("the ceiling")
    fields.end()
    return ceiling_us


def encode_head(head: ShardHead) -> bytes:
    return b"".join((u8(VERSION), i64(head.position_us), u64(head.serial), u64(head.commits)))


def decode_head(value: bytes) -> ShardHead:
    fields = RecordReader(value, "the head of a shard", VERSION)
    head = ShardHead(fields.i64("the position"), fields.u64("the serial"), fields.u64("the commits"))
    fields.end()
    return head


def encode_applied(mark: AppliedMark) -> bytes:
    return b"".join((u8(VERSION), u64(mark.sequence), text(mark.source)))


def decode_applied(value: bytes) -> AppliedMark:
    fields = RecordReader(value, "the applied mark of a shard", VERSION)
    mark = AppliedMark(fields.u64("the sequence"), fields.text("the source"))
    fields.end()
    return mark
