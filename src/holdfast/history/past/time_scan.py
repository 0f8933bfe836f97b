"""Messages of all shards in one order, that of time, from a place on: backwards or forwards, and within limits.

    place     (position, shard): no two messages have the same, so it also tells where an answer goes on
    older     from just below a place down; each layout reads backwards
    newer     from just above a place up, in windows of time that grow while little is found in them

    shard 0   ●────●──────●───────●──────●──┐
    shard 1   ───●──────────○─────●─────●───┤  merged by place; ○ stands for "nothing else down to here"
    shard 2   ─────────●──────●─────────────┘

1. A scan gives each message of its range that matches once, in the order of places.
2. It stops after so many messages or seconds as its `ScanLimits` say, or when its client has gone. `place` is then
   where the next scan goes on: it gives what this one has not given, and nothing twice.
3. A scan always advances: where nothing matches, it says so by places, too. Forwards the first window is finished,
   whatever time it takes; it is a second long.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple

from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import Part
from holdfast.model.errors import PermanentError
from holdfast.model.time import SECOND_US

#: A position and a shard.
Place = tuple[int, int]

#: Above every shard.
MAX_SHARD: Final = 0x10000
#: Messages that are looked at, and seconds, before an answer is given as it is.
LOOKED_AT: Final = 250_000
SECONDS: Final = 2.0
#: Steps between two looks whether the client has gone.
STEPS: Final = 64

# Windows of a scan forwards.
_WINDOW_US: Final = SECOND_US
_GROWTH: Final = 4
#: Seconds that a window should take at most.
_WINDOW_S: Final = 0.25

# Why a scan has ended. They are values in answers: never change them.
LIMIT: Final = "limit"
TIME: Final = "time"
END: Final = "end"


class ClientGoneError(PermanentError):
    """No client waits for the answer any more."""


class ScanLimits(NamedTuple):
    """When a scan stops, done or not."""

    messages: int = LOOKED_AT
    seconds: float = SECONDS
    #: Whether the client has left.
    gone: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic


class FoundMessage(NamedTuple):
    """An encoded message and its place. Inside a scan the value may be empty: all up to the place was passed."""

    position_us: int
    shard: int
    zone: str
    value: bytes

    @property
    def place(self) -> Place:
        return self.position_us, self.shard


class TimeScan:
    """Messages that match a filter, in the order of places. Iterate over it once."""

    def __init__(self, steps: Iterator[FoundMessage], start: Place, limits: ScanLimits, *, newest_first: bool) -> None:
        self._steps: Final = steps
        self._furthest: Final = min if newest_first else max
        self._limits: Final = limits
        self._start: Final = start
        #: All up to here was given.
        self.place = start
        #: Messages that were given.
        self.looked_at = 0
        #: Why it has ended; it is `LIMIT` as long as it has not.
        self.stopped = LIMIT

    def __iter__(self) -> Iterator[FoundMessage]:
        limits = self._limits
        deadline_s = limits.clock() + limits.seconds
        for count, step in enumerate(self._steps):
            if count % STEPS == 0 and limits.gone():
                raise ClientGoneError
            if self.place != self._start and (self.looked_at >= limits.messages or limits.clock() >= deadline_s):
                self.stopped = TIME
                return
            # The places of a window that begins are not behind those of the last one.
            self.place = self._furthest(self.place, step.place)
            if step.value:
                self.looked_at += 1
                yield step
        self.stopped = END


def older(
    reader: HistoryReader,
    before: Place,
    from_us: int,
    levels: tuple[bytes, ...],
    zone: str | None = None,
    limits: ScanLimits | None = None,
) -> TimeScan:
    """The messages below a place, the newest first, down to a position. PermanentError if there is no such zone."""
    before_us, before_shard = before
    by_shard: dict[int, list[Part]] = {}
    for part in reader.parts(from_us, before_us + 1, zone):
        if part.shard >= before_shard:
            part = part.cut(before_us)[0] if part.hi_us > before_us else part
        if part.lo_us < part.hi_us:
            by_shard.setdefault(part.shard, []).append(part)
    streams = [_back(reader, parts, levels) for parts in by_shard.values()]
    steps = merge(*streams, key=_place_of, reverse=True)
    return TimeScan(steps, before, limits or ScanLimits(), newest_first=True)


def newer(
    reader: HistoryReader,
    after: Place,
    before_us: int,
    levels: tuple[bytes, ...],
    zone: str | None = None,
    limits: ScanLimits | None = None,
) -> TimeScan:
    """The messages above a place and before a position, the oldest first. PermanentError if there is no such zone."""
    limits = limits or ScanLimits()
    steps = newer_steps(reader, after, before_us, levels, zone, limits.clock)
    return TimeScan(steps, after, limits, newest_first=False)


def newer_steps(
    reader: HistoryReader,
    after: Place,
    before_us: int,
    levels: tuple[bytes, ...],
    zone: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FoundMessage]:
    """The same without an end, for who reads all of it. An empty value says that all up to its place was passed."""
    after_us, after_shard = after
    parts = [
        part._replace(lo_us=max(part.lo_us, after_us + 1)) if part.shard <= after_shard else part
        for part in reader.parts(after_us, before_us, zone)
    ]
    return _windows(reader, [part for part in parts if part.lo_us < part.hi_us], levels, clock)


def _place_of(step: FoundMessage) -> Place:
    return step.position_us, step.shard


def _back(reader: HistoryReader, parts: Sequence[Part], levels: tuple[bytes, ...]) -> Iterator[FoundMessage]:
    """One shard."""
    for part in sorted(parts, key=lambda one: one.lo_us, reverse=True):
        for position_us, value in reader.read_back(part, levels):
            yield FoundMessage(position_us, part.shard, part.zone, value)
        yield FoundMessage(part.lo_us, part.shard, part.zone, b"")


def _windows(
    reader: HistoryReader, parts: Sequence[Part], levels: tuple[bytes, ...], clock: Callable[[], float]
) -> Iterator[FoundMessage]:
    if not parts:
        return
    lo_us, end_us = min(part.lo_us for part in parts), max(part.hi_us for part in parts)
    width_us = _WINDOW_US
    while lo_us < end_us:
        began_s = clock()
        hi_us = min(lo_us + width_us, end_us)
        by_shard: dict[int, list[Part]] = {}
        for part in parts:
            if part.lo_us < hi_us and part.hi_us > lo_us:
                inside = part._replace(lo_us=max(part.lo_us, lo_us), hi_us=min(part.hi_us, hi_us))
                by_shard.setdefault(part.shard, []).append(inside)
        yield from merge(*[_on(reader, own, levels) for own in by_shard.values()], key=_place_of)
        yield FoundMessage(hi_us - 1, MAX_SHARD, "", b"")
        lo_us = hi_us
        is_slow = clock() - began_s > _WINDOW_S
        width_us = max(_WINDOW_US, width_us // _GROWTH) if is_slow else width_us * _GROWTH
        # The next message may be years away.
        lo_us = max(lo_us, min([part.lo_us for part in parts if part.hi_us > lo_us], default=lo_us))


def _on(reader: HistoryReader, parts: Sequence[Part], levels: tuple[bytes, ...]) -> Iterator[FoundMessage]:
    """One shard in one window."""
    for part in sorted(parts, key=lambda one: one.lo_us):
        for position_us, value in reader.read_on(part, levels):
            yield FoundMessage(position_us, part.shard, part.zone, value)
