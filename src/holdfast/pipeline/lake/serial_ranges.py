"""Sets of serials as ranges, both ends included."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class SerialRanges(NamedTuple):
    """Serials of a shard, as ranges with both ends."""

    shard: int
    rows: int
    serials: tuple[tuple[int, int], ...]


def ranges_of(shard: int, serials: Any) -> SerialRanges:
    """As few ranges as there can be, of numbers in any order."""
    found: NDArray[np.int64] = np.unique(np.asarray(serials, np.int64))
    if not len(found):
        return SerialRanges(shard, 0, ())
    breaks = np.flatnonzero(np.diff(found) > 1)
    firsts, lasts = found[np.r_[0, breaks + 1]], found[np.r_[breaks, len(found) - 1]]
    return SerialRanges(shard, len(found), tuple(zip(firsts.tolist(), lasts.tolist(), strict=True)))


def merge_ranges(found: Iterable[SerialRanges]) -> list[SerialRanges]:
    """What several tasks found, by shard, each message once."""
    by_shard: dict[int, list[SerialRanges]] = {}
    for one in found:
        by_shard.setdefault(one.shard, []).append(one)
    return [
        SerialRanges(shard, sum(one.rows for one in own), _merged([pair for one in own for pair in one.serials]))
        for shard, own in sorted(by_shard.items())
    ]


def span_ranges(found: Iterable[SerialRanges]) -> list[SerialRanges]:
    """One range for each shard: for messages between which there are no others."""
    return [
        one._replace(serials=((one.serials[0][0], one.serials[-1][1]),)) for one in merge_ranges(found) if one.serials
    ]


def _merged(pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
