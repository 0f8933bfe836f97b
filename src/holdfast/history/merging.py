"""Streams of record batches, each in the order of positions, as one stream in the order of positions.

    stream A   ▂▂▂▂▂▂▂▂│        the earliest of the last positions in hand is the frontier: nothing below it can
    stream B   ▂▂▂▂│            still come, so everything up to it is sorted and passed on
               frontier ↑

Memory is a batch for each stream.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

#: Messages of different shards may have one position: then the shard decides, so that every run gives the same.
_ORDER: Final = [("offset", "ascending"), ("shard", "ascending")]


def merged_by_time(streams: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """Record batches with the columns `offset` and `shard`, merged. Requires: no batch is empty."""
    waiting = list(streams)
    hands: list[Any] = [next(stream, None) for stream in waiting]
    while True:
        there = [index for index, hand in enumerate(hands) if hand is not None]
        if not there:
            return
        frontier_us = min(_last_us(hands[index]) for index in there)
        taken: list[Any] = []
        for index in there:
            hand = hands[index]
            count = int(np.searchsorted(hand.column("offset").to_numpy(), frontier_us, side="right"))
            if count:
                taken.append(hand.slice(0, count))
            hands[index] = hand.slice(count) if count < hand.num_rows else next(waiting[index], None)
        yield from pa.Table.from_batches(taken).sort_by(_ORDER).combine_chunks().to_batches()


def _last_us(hand: Any) -> int:
    return int(hand.column("offset")[-1].as_py())
