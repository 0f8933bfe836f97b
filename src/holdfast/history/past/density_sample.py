"""Estimates: a few messages of each cell are looked at, and their share says how many are wanted, about.

    cell of 20,000 messages ──▶ 4, 16, 64, 256 of them, chosen by chance ──▶ 5,100, at most 900 off

1. Messages are chosen by their serials, all with the same chance, and none twice.
2. The bounds of a share are those of Clopper and Pearson: whatever the true share is, they miss it in at most 5 of 100
   cases. They are wide where little was looked at, and that is said.
3. What was looked at is certain: a cell of which every message was looked at is exact.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Final

from holdfast.history.past.density_parts import Cell, CountedPart

#: Messages of a cell that are looked at, round by round.
ROUNDS: Final = (4, 16, 64, 256)
#: Half of what an estimate may miss: below and above.
_TAIL: Final = 0.025
#: The share of all cells counts as much as so many messages of a cell.
_BELIEF: Final = 4
#: Halvings of [0, 1]: closer than any count needs.
_HALVINGS: Final = 30


@lru_cache(maxsize=4_096)
def share_bounds(hits: int, looked_at: int) -> tuple[float, float]:
    """The shares between which the true one is, in at least 95 of 100 cases. Requires: something was looked at."""
    return 1.0 - _most(looked_at - hits, looked_at), _most(hits, looked_at)


def _most(hits: int, looked_at: int) -> float:
    """The share above which so few hits have a chance below _TAIL."""
    if hits == looked_at:
        return 1.0
    missed = looked_at - hits
    if hits > missed:  # the same with the other messages: powers of small numbers would vanish
        return 1.0 - _solve(lambda share: 1.0 - _at_most(missed - 1, looked_at, share) < _TAIL)
    return _solve(lambda share: _at_most(hits, looked_at, share) > _TAIL)


def _solve(is_below: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _halving in range(_HALVINGS):
        middle = (low + high) / 2
        if is_below(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _at_most(hits: int, looked_at: int, share: float) -> float:
    """The chance of at most so many hits."""
    chance = found = (1.0 - share) ** looked_at
    odds = share / (1.0 - share)
    for hit in range(hits):
        chance *= odds * (looked_at - hit) / (hit + 1)
        found += chance
    return found


def cell_bounds(cell: Cell, messages: int) -> tuple[int, int]:
    """How many messages of a cell are wanted, at least and at most, as far as the sample tells."""
    if not cell.looked_at:
        return 0, messages
    low, high = share_bounds(cell.hits, cell.looked_at)
    missed = cell.looked_at - cell.hits
    return max(cell.hits, int(low * messages)), min(messages - missed, -int(-high * messages // 1))


class Sampler:
    """Looks at messages of cells. `looked_at` is how many it was in all."""

    def __init__(self, seed: int) -> None:
        self._random: Final = Random(seed)
        self.looked_at = 0
        self._hits = 0

    def share(self, cell: Cell) -> float:
        """The share of a cell, about: its own, and as long as little of it was looked at, that of all cells."""
        of_all = self._hits / self.looked_at if self.looked_at else 0.5
        return (cell.hits + _BELIEF * of_all) / (cell.looked_at + _BELIEF)

    def look(self, parts: Sequence[CountedPart]) -> Iterator[None]:
        """Look at every cell that is not counted, the newest first, once more in every round; with pauses."""
        for limit in ROUNDS:
            for part in parts:
                for number in reversed(range(len(part.cells))):
                    if part.cells[number].waiting and part.low[number + 1] > part.low[number]:
                        yield from self._look_at(part, number, limit)

    def _look_at(self, part: CountedPart, number: int, limit: int) -> Iterator[None]:
        least, most = part.total(number)
        if least != most or not part.counter.knows_serials:
            return
        cell = part.cells[number]
        first, last = part.ends(number)
        if cell.sample is None:
            serials = range(first.serial + 1, last.serial + 1)
            cell.sample = self._random.sample(serials, min(len(serials), ROUNDS[-1]))
        check = part.wanted.topic_check
        for serial in cell.sample[cell.looked_at : limit]:
            position_us = part.counter.position_of(serial, first, last)
            # A message that was left out when its edition was made has no topic any more.
            topic = None if position_us < 0 else part.counter.topic_at(position_us)
            hit = topic is not None and check(topic)
            cell.looked_at += 1
            cell.hits += hit
            self.looked_at += 1
            self._hits += hit
            yield None
