"""Readers of everything that take turns, as sessions with a backlog do: 500 messages each time it is their turn.

Where a layout reopens cheaply a reader holds nothing between its turns and finds its place again, as in
`log/shard_scan.py`.
"""

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from rocksdict import Rdict

from holdfast.model.errors import MisuseError
from holdfast.model.message import Message
from holdfast.storage.rocks.layouts.layout import Layout

#: Messages of a turn.
_TURN: Final = 500
#: Readers that are compared with one.
READERS: Final = 4


class _TurnReader:
    """Reads all messages of [lo, hi)."""

    def __init__(self, layout: Layout, family: Rdict, lo_us: int, hi_us: int) -> None:
        self._layout: Final = layout
        self._family: Final = family
        self._lo_us = lo_us
        self._hi_us: Final = hi_us
        self._source: Iterator[list[Message]] | None = None
        self._ahead: list[Message] = []

    def next(self) -> int:
        """How many messages were read; 0 at the end."""
        if self._source is None:
            self._source = self._layout.read_messages(self._family, (), self._lo_us, self._hi_us, 0)
        found = self._ahead
        while len(found) < _TURN and (read := next(self._source, None)) is not None:
            found = found + read
        taken, self._ahead = found[:_TURN], found[_TURN:]
        if taken and self._layout.reopens_cheaply:
            self._lo_us = taken[-1].position_us + 1
            self._source, self._ahead = None, []
        return len(taken)


def turns_us(layout: Layout, family: Rdict, bounds_us: list[int], expected: int) -> float:
    """Processor time per message of readers that take turns: one between each bound and the next."""
    began_s = time.process_time()
    readers = [_TurnReader(layout, family, lo_us, hi_us) for lo_us, hi_us in pairwise(bounds_us)]
    found = 0
    while readers:
        counts = [reader.next() for reader in readers]
        found += sum(counts)
        readers = [reader for reader, count in zip(readers, counts, strict=True) if count]
    if found != expected:
        raise MisuseError(f"readers of layout {layout.name} found {found} messages; {expected} would be right")
    return (time.process_time() - began_s) / found * 1e6
