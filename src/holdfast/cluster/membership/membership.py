"""The life of a node in its cluster: it joins, beats, fences who is silent, and hears that it was closed itself.

    start ──▶ joining ──Join counts──▶ member ──own epoch is closed──▶ joining …
                 │                        │
              refused: later again        └─ by a Join of its own number, or by Leave ──▶ ended

What a record means is decided by `durable/state_machine/control`; here is when a node writes one.

1. One record of a node is on its way. It is settled when it was applied here, and by nothing else; without that the
   same bytes are sent again every two seconds. Pauses do not grow: a node that comes late after an outage would be
   fenced.
2. Once a second a member writes a `Beat`, unless another record is on its way.
3. A member fences a node when ten of its own beats were applied in a row, at their normal pace, and no beat of that
   node among them. A pause between two of them begins a new row: the log, or this node, stood still, and that says
   nothing of others. So an outage of the log fences no node.
4. The listener hears of closed epochs while this node is a member; when it joins it is given all that there are. So a
   member that has heard of each, in this life, has missed none.
5. Every 10,000 records the live member with the lowest number writes a snapshot in place of a beat, until one counts.
   Then the log is trimmed before the snapshot before that one: a member that is less far behind goes on by itself.
6. A node whose number another data folder has tries again until that one is fenced, and ends if it goes on beating.
7. Who is fenced joins again, with another life. Who was closed by a join under its own number ends: its data folder
   runs twice, and the later one stays.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from holdfast.cluster.membership.control_snapshot import ControlApplier
from holdfast.cluster.vnodes.applier import ApplierStop, OutcomeListener
from holdfast.cluster.vnodes.writer import TimerHandle, Timers
from holdfast.durable.ordered_log import LogEntry, OrderedLog
from holdfast.durable.state_machine.control import (
    ControlMachine,
    ControlOutcome,
    all_members,
    last_beat,
    last_sign,
    last_snapshot,
    member_row,
    state_rows,
)
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import StateStore, StateTables
from holdfast.durable.takeover.registry import NodeLife
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.control import (
    ID_BYTES,
    LINEAR,
    Beat,
    ControlItem,
    ControlRecord,
    Fence,
    Join,
    Leave,
    Snapshot,
    encode_control,
)
from holdfast.records.cluster.control_rows import MemberRow
from holdfast.records.cluster.job_records import ErasureItem, LeaseItem

_log = structlog.get_logger()

#: Between two beats.
BEAT_S: Final = 1.0
#: Beats of its own that a node sees without one of another before it fences that.
SILENT_BEATS: Final = 10
#: Two own beats further apart are not at their normal pace.
_PACE_US: Final = 3 * SECOND_US
#: Beats after which a record without an outcome is sent again.
_SEND_AGAIN: Final = 2
#: Records between two snapshots: with three nodes, nearly an hour.
SNAPSHOT_EVERY: Final = 10_000
#: Beats after which a join that was refused is tried again.
_JOIN_AGAIN: Final = 10
#: Of these, the last ones: a process with the same number that beats in them is alive.
_RIVAL_BEATS: Final = 4


@dataclass(frozen=True)
class NodeProfile:
    """What a node says of itself when it joins."""

    node: int
    name: str
    #: Of its data folder: 16 random bytes.
    folder_id: bytes
    mode: int = LINEAR
    #: What is served where: (`mqtt`, `host:port`).
    addresses: tuple[tuple[str, str], ...] = ()


#: A node whose epochs below a sequence of the control log are closed: `Closed(node, before)` belongs in every vnode.
Closing = tuple[int, int]


class MembershipListener(Protocol):
    """Who acts on membership. Called on the loop, behind the outcome that tells it; it may write to other logs."""

    def joined(self, life: NodeLife, closings: list[Closing]) -> None:
        """This node is a member, with this epoch. `closings` are those of all other nodes."""

    def refused(self, why: str) -> None:
        """The join was refused. It is tried again by itself."""

    def closed(self, closing: Closing) -> None:
        """Another node was fenced, has left, or has joined again."""

    def changed(self) -> None:
        """Another node lives now, or lives no longer: see `Membership.live`."""

    def fenced(self) -> None:
        """The epoch of this node is closed: nothing of it counts any more. It joins again by itself."""

    def ended(self, why: str) -> None:
        """This node is no member, and will not be one again."""


def control_applier(
    log: OrderedLog, cluster_id: bytes, store: StateStore, membership: OutcomeListener
) -> ControlApplier:
    """The applier of the control log, which tells a `Membership`."""
    return ControlApplier(log, cluster_id, store, membership, machine=ControlMachine(cluster_id, store))


class Membership:
    """An `OutcomeListener` by shape: the applier of the control log tells it every outcome. See the rules above."""

    def __init__(
        self,
        log: OrderedLog,
        cluster_id: bytes,
        tables: StateTables,
        profile: NodeProfile,
        listener: MembershipListener,
        beat: Callable[[], Beat],
        clock: Clock,
        timers: Timers,
        new_life: Callable[[], bytes] = lambda: secrets.token_bytes(ID_BYTES),
        trim: Callable[[int], None] | None = None,
    ) -> None:
        """`tables` are those that the applier of the log writes; `beat` tells how this node is.

        `trim` is asked to trim the log before a sequence; it may fail, since it is asked again later. Without it this
        node writes no snapshots.
        """
        self._target: Final = log
        self._cluster_id: Final = cluster_id
        self._tables: Final = tables
        self._profile: Final = profile
        self._listener: Final = listener
        self._beat: Final = beat
        self._clock: Final = clock
        self._timers: Final = timers
        self._new_life: Final = new_life
        self._trim: Final = trim
        self._timer: TimerHandle | None = None
        self._life_id = new_life()
        self._number = 0
        #: The record on its way, and the beats since it was sent first.
        self._sent: bytes | None = None
        self._sent_beats = 0
        #: Whether the last record was a snapshot: a beat follows, so that this node is not taken for dead.
        self._wrote_snapshot = False
        #: Beats until a join is tried again.
        self._join_in = 0
        #: The last sign of another process with this number, some beats before a join is tried again; 0 without one.
        self._rival_sign = 0
        #: What a job has told this node: one record between two beats, however many there are.
        self._jobs: Final[deque[LeaseItem | ErasureItem]] = deque()
        self._may_write_job = False
        #: Records to be written before the next beat.
        self._pending: Final[deque[Fence | Leave]] = deque()
        #: When the last own beat was applied, and how many were since the last beat of each other member.
        self._beat_us: int | None = None
        self._silent: Final[dict[int, int]] = {}
        #: This node's life in the cluster; None while it is not a member.
        self.life: NodeLife | None = None
        #: Why this node will not be a member again; empty if it may.
        self.over = ""

    # ---- for the node

    def start(self) -> None:
        """Join, and beat from then on. Requires: the applier of the log runs, or will."""
        self._tick()

    def leave(self) -> None:
        """Close this node's epoch, behind the record that is on its way; the listener hears when that has happened."""
        if self.life is None:
            self._end("this node has left before it was a member")
        else:
            self._pending.append(Leave())
            self._go_on()

    def propose(self, items: Iterable[LeaseItem | ErasureItem]) -> None:
        """Write what jobs have told this node; what was to be written before and is not on its way is forgotten."""
        self._jobs.clear()
        self._jobs.extend(items)
        if not self.over:
            self._go_on()

    def close(self, last: Beat | None = None) -> None:
        """Write nothing more than this, and leave the epoch open: for a node that will start again soon.

        `last` is sent once. It is lost if the log does not take it, or a record that is on its way.
        """
        if last is not None and self.life is not None and not self.over:
            self._write(last)
        self.over = self.over or "the membership was closed"
        self._stop()

    def live(self) -> dict[int, MemberRow]:
        """The members that live, as far as this node has applied the control log, by number."""
        return {node: member for node, member in all_members(self._tables).items() if member.lives}

    def have_applied(self, places: Mapping[int, int]) -> bool:
        """Whether all other members that live have applied these sequences, by vnode, as their last beats say."""
        for node in self.live():
            beat = last_beat(self._tables, node)
            applied = {} if beat is None else {progress.vnode: progress.applied for progress in beat.beat.vnodes}
            is_behind = any(applied.get(vnode, 0) < sequence for vnode, sequence in places.items())
            if is_behind and node != self._profile.node:
                return False
        return True

    # ---- writing

    def _tick(self) -> None:
        if self.over:
            return
        self._timer = self._timers.call_later(BEAT_S, self._tick)
        if self._sent is not None:
            self._sent_beats += 1
            if self._sent_beats % _SEND_AGAIN == 0:
                _log.info("a record of the control log is sent again", after_s=self._sent_beats * BEAT_S)
                self._append(self._sent)
        elif self.life is not None:
            self._write(self._next_pending() or self._next_snapshot() or self._beat())
        elif self._join_in > 0:
            self._join_in -= 1
            if self._join_in == _RIVAL_BEATS:
                member = member_row(self._tables, self._profile.node)
                self._rival_sign = 0 if member is None else last_sign(self._tables, self._profile.node, member)
        else:
            self._write(self._join())

    def _go_on(self) -> None:
        """Write what was put off, if nothing is on its way."""
        if self._sent is None and self.life is not None:
            item = self._next_pending() or self._next_job()
            if item is not None:
                self._write(item)

    def _next_job(self) -> LeaseItem | ErasureItem | None:
        if not self._jobs or not self._may_write_job:
            return None
        self._may_write_job = False
        return self._jobs.popleft()

    def _next_pending(self) -> Fence | Leave | None:
        while self._pending:
            item = self._pending.popleft()
            if isinstance(item, Leave) or self._is_silent(item):
                return item
        return None

    def _next_snapshot(self) -> Snapshot | None:
        self._wrote_snapshot = not self._wrote_snapshot and self._trim is not None and self._is_snapshot_due()
        if not self._wrote_snapshot:
            return None
        applied = applied_row(self._tables)
        return Snapshot(applied.sequence, applied.digest, state_rows(self._tables))

    def _is_snapshot_due(self) -> bool:
        since = applied_row(self._tables).sequence - last_snapshot(self._tables)
        return since >= SNAPSHOT_EVERY and min(self.live(), default=0) == self._profile.node

    def _is_silent(self, fence: Fence) -> bool:
        """Whether a fence would hold, by what was applied here."""
        member = member_row(self._tables, fence.node)
        if member is None or member.epoch != fence.epoch or not member.lives:
            return False
        return last_sign(self._tables, fence.node, member) <= fence.since

    def _join(self) -> Join:
        profile = self._profile
        after = applied_row(self._tables).sequence
        return Join(
            profile.name, profile.folder_id, self._life_id, after, mode=profile.mode, addresses=profile.addresses
        )

    def _write(self, item: ControlItem) -> None:
        epoch = 0
        if self.life is not None:
            epoch = self.life.epoch
            self._number += 1
        number = self._number if epoch else 0
        self._may_write_job = self._may_write_job or isinstance(item, Beat)
        record = ControlRecord(self._cluster_id, self._profile.node, epoch, number, self._clock.wall_us(), item)
        self._sent = encode_control(record)
        self._sent_beats = 0
        self._append(self._sent)

    def _append(self, record: bytes) -> None:
        # Only the outcome counts: an answer says nothing that is needed, and its absence nothing that is known.
        self._target.append(record, lambda _result: None)

    # ---- outcomes

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        """An entry of the control log was applied here, of any writer."""
        assert isinstance(outcome, ControlOutcome)
        mine = entry.record == self._sent
        if mine:
            self._sent = None
        if self.over or outcome.record is None:
            return
        if self.life is None:
            self._joining(outcome, mine=mine)
        elif outcome.closed is not None and outcome.closed[0] == self._profile.node:
            self._own_closing(outcome.record)
        elif outcome.counts:
            self._other(outcome, mine=mine)
        self._go_on()

    def stopped(self, stop: ApplierStop) -> None:
        """The control log is applied no further."""
        self._end(f"the control log is applied no further: {stop.why}")

    def _joining(self, outcome: ControlOutcome, *, mine: bool) -> None:
        node = self._profile.node
        member = member_row(self._tables, node)
        if member is not None and member.join.life == self._life_id and member.lives:
            self._number = 0
            self._sent = None
            self._beat_us = None
            self._silent.clear()
            self.life = NodeLife(node, member.epoch)
            _log.info("node joined", node=node, epoch=member.epoch)
            others = [(other, row.closed_before) for other, row in all_members(self._tables).items() if other != node]
            self._listener.joined(self.life, others)
        elif mine and outcome.refusal:
            _log.warning("join refused", node=node, why=outcome.refusal)
            # A newer life of this node that had not been applied here is known now.
            late = member is not None and member.join.folder_id == self._profile.folder_id
            self._join_in = 0 if late else _JOIN_AGAIN
            if not late and member is not None and self._is_rival_alive(member):
                self._end(outcome.refusal)
            else:
                self._listener.refused(outcome.refusal)

    def _is_rival_alive(self, member: MemberRow) -> bool:
        """Whether the process that has this number has beaten lately: then it is not one that has died."""
        return member.lives and 0 < self._rival_sign < last_sign(self._tables, self._profile.node, member)

    def _own_closing(self, record: ControlRecord) -> None:
        node = self._profile.node
        if isinstance(record.item, Join):
            self._end(f"another process has joined as node {node}: its data folder runs twice")
        elif isinstance(record.item, Leave):
            self._end("this node has left")
        else:
            self._lose_life(f"node {record.node} has fenced it")

    def _other(self, outcome: ControlOutcome, *, mine: bool) -> None:
        """A record that counts and does not concern this node's epoch."""
        assert outcome.record is not None
        record = outcome.record
        if outcome.closed is not None:
            node = outcome.closed[0]
            self._silent.pop(node, None)
            _log.warning("epoch closed", node=node, before=outcome.closed[1], by=type(record.item).__name__)
            self._listener.closed(outcome.closed)
        if outcome.closed is not None or isinstance(record.item, Join):
            self._listener.changed()
        if isinstance(record.item, (Beat, Join)):
            if mine:
                self._count_beat()
            else:
                self._silent[record.node] = 0
        if mine and outcome.trim_before and self._trim is not None:
            self._trim(outcome.trim_before)

    def _count_beat(self) -> None:
        """A beat of this node was applied: rule 3."""
        now_us = self._clock.monotonic_us()
        if self._beat_us is None or now_us - self._beat_us > _PACE_US:
            self._silent.clear()
        self._beat_us = now_us
        for node, member in self.live().items():
            if node == self._profile.node:
                continue
            silent = self._silent[node] = self._silent.get(node, 0) + 1
            if silent >= SILENT_BEATS:
                self._silent[node] = 0
                self._pending.append(Fence(node, member.epoch, last_sign(self._tables, node, member)))

    # ---- ends

    def _lose_life(self, why: str) -> None:
        _log.error("node fenced", node=self._profile.node, why=why)
        self.life = None
        self._life_id = self._new_life()
        self._sent = None
        self._pending.clear()
        self._join_in = 0
        self._listener.fenced()

    def _end(self, why: str) -> None:
        if self.over:
            return
        self.over = why
        _log.warning("node is no member any more", node=self._profile.node, why=why)
        self._stop()
        self._listener.ended(why)

    def _stop(self) -> None:
        self.life = None
        self._sent = None
        self._pending.clear()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
