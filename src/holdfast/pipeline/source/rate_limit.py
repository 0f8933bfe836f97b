"""Where a stream's batch ends if it may hold a limited number of messages.

Serials are dense, so the limit says which serial is the last. Its position is found by looking at the first message at
or after a guess, again and again: a handful of looks, however many messages lie between.

    ├─ left ──────────────┼──── target ────┼──────────── right ─┤
      position, serial      serial only        position, serial
"""

from collections.abc import Mapping

from holdfast.pipeline.source.history_source import HistorySource
from holdfast.pipeline.source.offsets import NOWHERE, Offset, Offsets
from holdfast.pipeline.source.partitions import first_at


def limit_batch(source: HistorySource, start: Offsets, end: Offsets, max_rows: int) -> Offsets:
    """An end at or before `end` with at most `max_rows` messages since `start`, shared fairly among shards.

    Requires: the serials of `start` are known.
    """
    begun = {shard: start.get(shard, NOWHERE) for shard in end}
    shares = share_limit({shard: end[shard].serial - begun[shard].serial for shard in end}, max_rows)
    return {
        shard: end[shard]
        if begun[shard].serial + shares[shard] >= end[shard].serial
        else locate_serial(source, shard, begun[shard], end[shard], begun[shard].serial + shares[shard])
        for shard in end
    }


def share_limit(wanted: Mapping[int, int], limit: int) -> dict[int, int]:
    """How much each gets of `limit`: all that it wants, or as much as any other that does not get all."""
    shares = {}
    left = limit
    order = sorted(wanted, key=lambda shard: (wanted[shard], shard))
    for index, shard in enumerate(order):
        waiting = len(order) - index
        # Rounded up for the first: a limit below the number of shards still moves on.
        shares[shard] = max(0, min(wanted[shard], -(-left // waiting), left))
        left -= shares[shard]
    return shares


def locate_serial(source: HistorySource, shard: int, left: Offset, right: Offset, serial: int) -> Offset:
    """The offset behind the message with this serial; if retention took it, behind all that were lost with it.

    Requires: left.serial <= serial < right.serial.
    """
    # Where to look: every message from there on, up to `right`, has been seen to be too late.
    last_us = right.position_us
    by_guess = True
    while left.serial < serial and left.position_us < last_us:
        at_us = _guess(left, right, serial) if by_guess else (left.position_us + last_us + 1) // 2
        by_guess = not by_guess
        at_us = min(max(at_us, left.position_us + 1), last_us)
        found = first_at(source, None, shard, at_us, right.position_us + 1)
        if found is not None and found.serial <= serial:
            left = found
            continue
        last_us = at_us - 1
        if found is not None:
            right = Offset(found.position_us - 1, found.serial - 1)
            if right.serial == serial:
                return right
    return left if left.serial == serial else right


def _guess(left: Offset, right: Offset, serial: int) -> int:
    span_us = right.position_us - left.position_us
    return left.position_us + 1 + span_us * (serial - left.serial) // (right.serial - left.serial)
