"""When each message of a replay is due, by which number its broker knows it, and how history is cut into rounds.

    history     ●────────────●──●──────────────────────●        ts
    replay      ●──────●─●─────────●                            due = start + (ts - first) / speed

1. One start and one first message for all connections: the distance of any two messages is kept, divided by the speed,
   whichever connections they go through.
2. A message has the same number whenever it is replayed, and in the order of time numbers increase: a broker that takes
   each number once takes each message once (`durable/sessions/publish_numbers.py`).
3. Each message is in one round: rounds follow each other, with no gap, and cover everything that was counted.

This module knows neither a clock nor Spark.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from holdfast.durable.sessions.publish_numbers import MAX_NUMBER
from holdfast.model.errors import PermanentError

#: Never change: a replay that goes on with other numbers would lose or repeat messages. Positions fit until 2112.
SHARD_BITS: Final = 11


def number_of(offset_us: int, shard: int) -> int:
    """Unique, because positions are in a shard. PermanentError if there is no number for it."""
    if shard >> SHARD_BITS or offset_us > MAX_NUMBER >> SHARD_BITS:
        raise PermanentError(f"position {offset_us} of shard {shard}: there is no number for messages there")
    return offset_us << SHARD_BITS | shard


def last_number_before(offset_us: int) -> int:
    """Every message before this position has a number up to this one, and no other has."""
    return (offset_us << SHARD_BITS) - 1


def offset_of(number: int) -> int:
    """The position of a message with this number; the one behind, for a `last_number_before`, is one above it."""
    return number >> SHARD_BITS


class ReplayStart(NamedTuple):
    """What all connections have agreed on."""

    #: When the first message is due, by the clock on the wall.
    start_us: int
    #: The position of the first message.
    first_us: int


def agree_on_start(given: Iterable[tuple[int, int | None]]) -> ReplayStart:
    """From when each connection is ready, and its first message, if it has one: begin when all are ready."""
    ready, first = zip(*given, strict=True)
    return ReplayStart(max(ready), min((offset_us for offset_us in first if offset_us is not None), default=0))


class ReplaySchedule:
    def __init__(self, beginning: ReplayStart, speed: Fraction) -> None:
        self._beginning: Final = beginning
        # Whole numbers, because a fraction takes ten times as long.
        self._times: Final = speed.denominator
        self._over: Final = speed.numerator

    def due_us(self, offset_us: int) -> int:
        start_us, first_us = self._beginning
        return start_us + (offset_us - first_us) * self._times // self._over


class ReplayRound(NamedTuple):
    """Messages that are replayed by one job of Spark: those with lo <= position < hi."""

    lo_us: int
    hi_us: int
    messages: int


def bucket_width_us(first_us: int, last_us: int, messages: int, most: int) -> int:
    """How finely to count, so that rounds of `most` messages can be cut."""
    wanted = max(1, 20 * -(-messages // most))
    return max(1, -(-(last_us + 1 - first_us) // wanted))


def cut_rounds(counts: Mapping[int, int], width_us: int, most: int) -> list[ReplayRound]:
    """Rounds of `most` messages, unless one bucket has more; `counts` by position // width."""
    rounds: list[ReplayRound] = []
    for bucket in sorted(counts):
        messages = counts[bucket]
        hi_us = (bucket + 1) * width_us
        if rounds and rounds[-1].messages + messages <= most:
            rounds[-1] = ReplayRound(rounds[-1].lo_us, hi_us, rounds[-1].messages + messages)
        else:
            rounds.append(ReplayRound(rounds[-1].hi_us if rounds else bucket * width_us, hi_us, messages))
    return rounds
