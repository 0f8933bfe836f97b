"""Where the log of a vnode is trimmed: what a majority of disks has, and what late members may still need.

    first ──────────── lowest ─────────────── majority ─────────────── last
             synced by all members      synced by a majority
             ◀──────── kept, within `catch_up_bytes` ───────▶

1. Nothing is trimmed that fewer than a majority of all members has on disk. So what was acknowledged is on a majority's
   disks at every moment, in the log or in the tables.
2. Within `catch_up_bytes` the log is kept for every member, whether it lives or not: it reads on where it stopped.
   Beyond that it is installed from a checkpoint. So one that is away, or beats and applies nothing, fills no log.
3. A checkpoint that is being installed holds the log from its sequences on, within `install_bytes`.
4. The record at the place of a member stays: a reader that begins there compares it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from holdfast.durable.ordered_log import LogEnds, OrderedLog
from holdfast.durable.state_machine.control import all_members, last_beat
from holdfast.durable.state_machine.tables import StateTables
from holdfast.model.errors import TransientError
from holdfast.records.cluster.control_rows import LEFT

_log = structlog.get_logger()

#: Records of a log that are worth a trim, and the part of `catch_up_bytes` that is.
_RECORDS_AT_ONCE: Final = 1000
_PART_AT_ONCE: Final = 16
#: How long a hold counts without being announced again.
HOLD_S: Final = 15.0
_SECOND_US: Final = 1_000_000


@dataclass(frozen=True)
class TrimLimits:
    """Bytes of a log that are kept for others. Both are below the bytes that it may have."""

    catch_up_bytes: int
    install_bytes: int


def trim_before(ends: LogEnds, synced: Iterable[int], holds: Iterable[int], limits: TrimLimits) -> int:
    """The sequence before which a log may be trimmed; `ends.first` or less if nothing may go.

    `synced` is what each member has on disk, dead ones included, and `holds` where checkpoints under way begin.
    """
    places = sorted(synced, reverse=True)
    if not places:
        return ends.first
    majority = places[len(places) // 2]
    late = max(places[-1], _kept_from(ends, limits.catch_up_bytes))
    held = max(min(holds, default=majority), _kept_from(ends, limits.install_bytes))
    return min(majority, late, held)


def is_worth_a_trim(ends: LogEnds, before: int, limits: TrimLimits) -> bool:
    """Whether enough would go: a trim is a commit of the log's servers."""
    gone = before - ends.first
    gone_bytes = ends.size_bytes * gone // max(1, ends.last - ends.first + 1)
    return gone >= _RECORDS_AT_ONCE or (gone > 0 and gone_bytes >= limits.catch_up_bytes // _PART_AT_ONCE)


def _kept_from(ends: LogEnds, limit_bytes: int) -> int:
    """The sequence from which on the log has so many bytes, if its records are of one size; the first if it has less.

    They are not, so it may be trimmed again a second later, until its bytes are below the limit.
    """
    records = ends.last - ends.first + 1
    if ends.size_bytes <= limit_bytes or records <= 0:
        return ends.first
    return ends.last + 1 - limit_bytes * records // ends.size_bytes


class CheckpointHolds:
    """Checkpoints that nodes are installed from at the moment: which node serves one, and where it begins."""

    def __init__(self, monotonic_us: Callable[[], int]) -> None:
        self._monotonic_us: Final = monotonic_us
        #: By the node that serves it: when it was announced, and the sequence in each vnode.
        self._held: Final[dict[int, tuple[int, Sequence[int]]]] = {}

    def announced(self, node: int, sequences: Sequence[int]) -> None:
        """A node serves a checkpoint with these sequences, by vnode."""
        self._held[node] = self._monotonic_us(), sequences

    def of(self, vnode: int) -> list[int]:
        """The sequences that hold the log of a vnode."""
        since_us = self._monotonic_us() - HOLD_S * _SECOND_US
        for node in [node for node, (at_us, _sequences) in self._held.items() if at_us < since_us]:
            del self._held[node]
        return [sequences[vnode] for _at_us, sequences in self._held.values() if vnode < len(sequences)]


def describe_late(synced: Mapping[int, int], before: int) -> tuple[int, ...]:
    """The members that a trim leaves behind: they have to be installed."""
    return tuple(sorted(node for node, sequence in synced.items() if sequence < before - 1))


def synced_by_member(control: StateTables, vnode: int) -> dict[int, int]:
    """What each member has on its disk of a vnode, by its last beat; dead ones included."""
    found: dict[int, int] = {}
    for node, member in all_members(control).items():
        if member.reason != LEFT:
            beat = last_beat(control, node)
            vnodes = () if beat is None else beat.beat.vnodes
            found[node] = next((one.synced for one in vnodes if one.vnode == vnode), 0)
    return found


async def trim_log(
    log: OrderedLog, vnode: int, synced: Mapping[int, int], holds: Sequence[int], limits: TrimLimits
) -> None:
    """Forget what a majority of members has on its disks, as far as no member may still need it."""
    try:
        ends = await log.ends()
        before = trim_before(ends, synced.values(), holds, limits)
        if is_worth_a_trim(ends, before, limits):
            late = describe_late(synced, before)
            if late:
                _log.warning("members are left behind by a trim", vnode=vnode, nodes=late, before=before)
            await log.trim(before)
    except TransientError as error:
        _log.info("the log of a vnode is not trimmed now", vnode=vnode, why=str(error))
