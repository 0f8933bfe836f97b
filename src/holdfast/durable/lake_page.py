"""What a broker asks for messages of a lake, and what it is answered: a page at a time.

    question    filter | by shard the range [from, before) of positions                     parameters of a URL
    answer      magic 8s | up to i64 | last u8 | ends u16, each u16, i64, i64 | records     little-endian
                record: shard u16 | its length u32 | a message as the log stores it         records/messages.py
    up to       everything of the ranges up to this position is in this page, or in one before it
    ends        by shard, only on the last page: the position and the serial of the last message that the lake has; 0
                for none, and for a serial that is not known

1. The messages of a page are in the order of (position, shard), and no page ends between two of the same position.
2. The next question begins behind `up_to_us`. So a page can be asked for again, of any process.
"""

from collections.abc import Mapping, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from holdfast.model.errors import PermanentError
from holdfast.model.message import ArchivedMessage, archived_message
from holdfast.records.messages import decode_message
from holdfast.topics.names import SEPARATOR

#: Under which path the history process answers.
LAKE_PATH: Final = "/lake"
FILTER: Final = "filter"
RANGES: Final = "ranges"
CONTENT_TYPE: Final = "application/vnd.holdfast.lake-page"
_MAGIC: Final = b"HFLAKE2\n"
_HEAD: Final = Struct("<8sqBH")
_END: Final = Struct("<Hqq")
_RECORD: Final = Struct("<HI")


class LakeQuestion:
    """Which messages are wanted."""

    def __init__(self, levels: tuple[bytes, ...], ranges: Mapping[int, tuple[int, int]]) -> None:
        """`ranges` are [from, before) by shard."""
        self.levels: Final = levels
        self.ranges: Final = dict(ranges)

    def parameters(self) -> list[tuple[str, str]]:
        ranges = ",".join([f"{shard}:{from_us}:{before_us}" for shard, (from_us, before_us) in self.ranges.items()])
        return [(FILTER, SEPARATOR.join(self.levels).decode()), (RANGES, ranges)]

    def behind(self, up_to_us: int) -> "LakeQuestion":
        """What is still to be asked when everything up to a position is answered."""
        left = {shard: (max(from_us, up_to_us + 1), end) for shard, (from_us, end) in self.ranges.items()}
        return LakeQuestion(self.levels, {shard: one for shard, one in left.items() if one[0] < one[1]})

    def key(self) -> tuple[object, ...]:
        """Two questions with the same key have the same answer."""
        return (self.levels, *sorted(self.ranges.items()))


def parse_ranges(text: str) -> dict[int, tuple[int, int]]:
    """What `parameters` wrote; ValueError if it is something else."""
    ranges: dict[int, tuple[int, int]] = {}
    for one in text.split(","):
        shard, from_us, before_us = map(int, one.split(":"))
        if shard < 0 or not 0 <= from_us < before_us:
            raise ValueError(f"invalid range: {one}")
        ranges[shard] = (from_us, before_us)
    return ranges


class LakeEnd(NamedTuple):
    """The last message of a shard that a lake has: it has all before it. Zeros for none."""

    position_us: int
    serial: int


class LakePage:
    """Some messages of a lake, the oldest of what was asked for."""

    def __init__(self, messages: list[ArchivedMessage], up_to_us: int, ends: dict[int, LakeEnd] | None = None) -> None:
        self.messages: Final = messages
        self.up_to_us: Final = up_to_us
        #: None unless it is the last page.
        self.ends: Final = ends


def encode_page(records: Sequence[tuple[int, bytes]], up_to_us: int, ends: Mapping[int, LakeEnd] | None) -> bytes:
    """`records` are shards with stored messages."""
    parts = [_HEAD.pack(_MAGIC, up_to_us, ends is not None, 0 if ends is None else len(ends))]
    parts += [_END.pack(shard, end.position_us, end.serial) for shard, end in (ends or {}).items()]
    for shard, record in records:
        parts += [_RECORD.pack(shard, len(record)), record]
    return b"".join(parts)


def decode_page(data: bytes) -> LakePage:
    """PermanentError if it is no whole page."""
    if not data.startswith(_MAGIC):
        raise PermanentError("the answer of the history process is no page of a lake")
    ends: dict[int, LakeEnd] = {}
    messages: list[ArchivedMessage] = []
    try:
        _magic, up_to_us, last, count = _HEAD.unpack_from(data, 0)
        at = _HEAD.size
        for _end in range(count):
            shard, position_us, serial = _END.unpack_from(data, at)
            ends[shard] = LakeEnd(position_us, serial)
            at += _END.size
        while at < len(data):
            shard, length = _RECORD.unpack_from(data, at)
            at += _RECORD.size
            stored = decode_message(data[at : at + length])
            messages.append(archived_message(stored.message, shard, stored.position_us))
            at += length
    except error:
        raise PermanentError("a page of a lake is cut off") from None
    return LakePage(messages, up_to_us, ends if last else None)
