"""Marks of heads: how many messages a shard had at certain moments.

    mark      0 position i64 (µs) | 8 serial u64                                  16 bytes, little-endian, never change

A mark says: the messages of its shard at or below the position are those up to the serial, and no message that comes
later gets a position at or below it. So the difference of two serials is the number of messages between two positions.

1. Marks follow each other in time: positions increase, serials do not decrease. What breaks that was not written by us,
   and neither it nor anything behind it counts.
2. A mark has no checksum. Readers compare it with what the log knows (`storage/rocks/log/head_marks.py`).
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le, lt
from struct import Struct
from typing import Final, NamedTuple

#: Never change.
MARK_BYTES: Final = 16
_MARK: Final = Struct("<qQ")


class HeadMark(NamedTuple):
    """A position, and the last serial up to it."""

    position_us: int
    serial: int


def encode_mark(position_us: int, serial: int) -> bytes:
    return _MARK.pack(position_us, serial)


def decode_mark(mark: bytes) -> HeadMark:
    position_us, serial = _MARK.unpack(mark)
    return HeadMark(position_us, serial)


class HeadMarks:
    """The marks of a shard, oldest first: a year of them has half a million, so they lie in two columns."""

    def __init__(self, content: bytes) -> None:
        """Of a file, up to its torn end and to the first mark that breaks rule 1."""
        columns = array("q")
        columns.frombytes(content[: len(content) // MARK_BYTES * MARK_BYTES])
        if sys.byteorder == "big":
            columns.byteswap()
        self.positions: Final = columns[0::2]
        self.serials: Final = columns[1::2]
        self.cut(_sound(self.positions, self.serials))

    def __len__(self) -> int:
        return len(self.positions)

    def mark(self, number: int) -> HeadMark:
        return HeadMark(self.positions[number], self.serials[number])

    def cut(self, count: int) -> None:
        """Keep the first ones."""
        del self.positions[count:]
        del self.serials[count:]

    def count_until(self, position_us: int) -> int:
        """How many marks are at or below a position."""
        return bisect_right(self.positions, position_us)

    def count_covered(self, serial: int, before_us: int) -> int:
        """How many marks are below a position and name no serial above the one given."""
        return min(bisect_right(self.serials, serial), bisect_left(self.positions, before_us))


def _sound(positions: "array[int]", serials: "array[int]") -> int:
    """How many marks from the first on follow each other."""
    if not positions or positions[0] <= 0 or serials[0] < 0:
        return 0
    if all(map(lt, positions, islice(positions, 1, None))) and all(map(le, serials, islice(serials, 1, None))):
        return len(positions)
    count = 1
    while positions[count - 1] < positions[count] and serials[count - 1] <= serials[count]:
        count += 1
    return count
