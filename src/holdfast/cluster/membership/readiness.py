"""Whether a node may serve clients, and why not: how far it is behind, its clock, its disk, logs that stand still.

    beats of all members, applied places, writers ──once a second──▶ Readiness ──▶ beats, status, leaders, clients

1. The lag of a vnode is the time for which the record behind the applied one has been in the log, as far as this node
   knows: from the beats of others, from answers to its own appends, and from what it has read. It is counted by the
   monotonic clock, so that no wrong clock makes a node late. What was in the log when the node started counts from the
   stamp of the record that it had applied last.
2. A clock is compared with the middle one of the last beats of all members that live. Two of them have to agree with
   that one within the bound: of two clocks that differ, neither is known to be wrong.
3. A node does not serve that is no member, has stopped applying a vnode, is `max_lag_s` behind in one, has a clock that
   is `max_skew_s` away, or a full disk. It sends its clients away, and resigns, if another node is ready: else they
   are better off here. It serves again at half of a bound.
4. In a vnode that accepts nothing of this node for `patience_s`, no client is served. Others are.
5. A node is ready that serves, and serves all vnodes.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final, NamedTuple

from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError
from holdfast.model.reasons import SERVER_UNAVAILABLE, USE_ANOTHER_SERVER
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.control_rows import BeatRow, MemberRow

#: The address of a member, in its join, at which MQTT clients reach it.
MQTT: Final = "mqtt"
#: A node whose last beat is older does not count as ready.
_FRESH_US: Final = 5 * SECOND_US
#: Own beats in a row with a wrong clock: one may have been on its way for a long time.
_SKEWED_BEATS: Final = 3
#: Places of a log that a meter remembers: the newest, and as many of all before them.
_MARKS: Final = 256


@dataclass(frozen=True)
class NodeBounds:
    """What a node may be off by. In seconds."""

    max_lag_s: float = 10.0
    max_skew_s: float = 30.0
    patience_s: float = 10.0
    #: Whether MQTT 5 clients are told where to go.
    redirect: bool = False


class VnodeState(NamedTuple):
    """A vnode as this node has it now."""

    applied: int
    #: The last sequence of the log that this node has heard of, by an answer or by reading.
    known: int
    #: When the record that was applied last was stamped, by the clock of its server; 0 if there is none.
    stamp_us: int
    #: For how long nothing of this node was accepted, though something waits.
    waits_us: int
    #: Why it is applied no further; empty if it is.
    stopped: str


class LagMeter:
    """How far a node is behind in one vnode (rule 1). Times are monotonic."""

    def __init__(self) -> None:
        #: Ends of the log, and since when they are known; increasing.
        self._marks: deque[tuple[int, int]] = deque()

    def note(self, last: int, since_us: int) -> None:
        """The log has a record with this sequence since then."""
        if not self._marks or last > self._marks[-1][0]:
            self._marks.append((last, since_us))
        if len(self._marks) > 3 * _MARKS:
            self._thin()

    def _thin(self) -> None:
        """Keep the newest marks, and of the others so many, evenly apart."""
        marks = list(self._marks)
        kept = [marks[0]]
        step_us = (marks[-_MARKS][1] - marks[0][1]) // _MARKS
        for mark in marks[1:-_MARKS]:
            if mark[1] - kept[-1][1] >= step_us:
                kept.append(mark)
        self._marks = deque([*kept, *marks[-_MARKS:]])

    def lag_us(self, applied: int, now_us: int) -> int:
        """For how long a record above `applied` has been known; 0 if there is none."""
        while self._marks and self._marks[0][0] <= applied:
            self._marks.popleft()
        return max(0, now_us - self._marks[0][1]) if self._marks else 0


class BeatClocks:
    """The clocks of members, by their last beats (rule 2): how far each was ahead of the stamp of the control log."""

    def __init__(self, beats: Mapping[int, BeatRow], bound_us: int) -> None:
        self._ahead: Final = {node: row.time_us - row.stamp_us for node, row in beats.items()}
        middle_us = median_low(self._ahead.values()) if self._ahead else 0
        near = [us for us in self._ahead.values() if abs(us - middle_us) < bound_us]
        #: How far the middle clock is ahead of the stamps; None if no two clocks agree.
        self.middle_us: Final = middle_us if len(near) > 1 else None

    def skew_us(self, node: int) -> int:
        """How far the clock of a node is ahead of the middle one; 0 if that is not known."""
        own = self._ahead.get(node)
        return 0 if own is None or self.middle_us is None else own - self.middle_us


class _Bound:
    """Exceeded from its limit on, until half of it."""

    def __init__(self, limit_s: float) -> None:
        self._limit_us: Final = int(limit_s * SECOND_US)
        self.exceeded = False

    def look(self, value_us: int) -> bool:
        self.exceeded = value_us >= (self._limit_us // 2 if self.exceeded else self._limit_us)
        return self.exceeded


class Readiness:
    """One node. Requires: `look` once a second."""

    def __init__(self, node: int, vnodes: int, bounds: NodeBounds, clock: Clock) -> None:
        self._node: Final = node
        self._bounds: Final = bounds
        self._clock: Final = clock
        self._meters: Final = [LagMeter() for _vnode in range(vnodes)]
        self._lags: Final = [_Bound(bounds.max_lag_s) for _vnode in range(vnodes)]
        self._skew: Final = _Bound(bounds.max_skew_s)
        self._skewed_beats = 0
        #: By node: the sequence of its last beat, and when this node has seen it.
        self._seen: Final[dict[int, tuple[int, int]]] = {}
        self._looked = False
        self._behind: frozenset[int] = frozenset()
        self._still: dict[int, str] = {}
        #: Why the node does not serve (rule 3); empty if it does.
        self._hindrances: list[str] = []
        self._addresses: list[str] = []
        self.clocks = BeatClocks({}, 0)
        #: Whether another node is ready.
        self.has_ready_peer = False
        #: What is set by those who know: whether this node is a member that has caught up, and its disk.
        self.is_member = False
        self.disk_full = False

    # ---- what is found

    @property
    def serves(self) -> bool:
        return not self._hindrances

    @property
    def is_ready(self) -> bool:
        return not self._hindrances and not self._still

    def reasons(self) -> list[str]:
        """Why the node is not ready; for people."""
        return [*self._hindrances, *self._still.values()]

    def is_behind(self, vnode: int) -> bool:
        return vnode in self._behind

    def lag_us(self, vnode: int, applied: int) -> int:
        return self._meters[vnode].lag_us(applied, self._clock.monotonic_us())

    def skew_us(self) -> int:
        return self.clocks.skew_us(self._node)

    @property
    def may_lead(self) -> bool:
        """False if another node should lead (rule 3)."""
        return self.serves or not self.has_ready_peer

    @property
    def sends_away(self) -> bool:
        """Whether `refusal` refuses any client."""
        return bool(self._still) or not self.is_member or not self.may_lead

    def refusal(self, vnode: int) -> PeerError | None:
        """Why no client of a vnode is served here; None if they are."""
        reason = USE_ANOTHER_SERVER if self.server_reference() else SERVER_UNAVAILABLE
        if not self.is_member:
            return PeerError(reason, "this node is no member of its cluster at the moment")
        if not self.may_lead:
            return PeerError(reason, "this node is not ready; use another one of this cluster")
        if vnode in self._still:
            return PeerError(SERVER_UNAVAILABLE, self._still[vnode])
        return None

    def server_reference(self) -> str:
        """Where other nodes serve MQTT, with spaces between them, the one with the fewest connections first."""
        return " ".join(self._addresses) if self._bounds.redirect else ""

    # ---- looking

    def look(
        self, vnodes: Sequence[VnodeState], members: Mapping[int, MemberRow], beats: Mapping[int, BeatRow]
    ) -> None:
        """A second has passed. `members` are those that live, `beats` their last ones."""
        now_us = self._clock.monotonic_us()
        self._note_ends(vnodes, beats, now_us)
        self.clocks = BeatClocks(beats, int(self._bounds.max_skew_s * SECOND_US))
        self._look_at_peers(members, beats, now_us)
        hindrances = [] if self.is_member else ["it is no member of the cluster at the moment"]
        behind: list[int] = []
        self._still = {}
        for vnode, state in enumerate(vnodes):
            lag_us = self._meters[vnode].lag_us(state.applied, now_us)
            if state.stopped:
                hindrances.append(f"vnode {vnode} is applied no further: {state.stopped}")
                self._still[vnode] = f"vnode {vnode} is applied no further on this node"
            if self._lags[vnode].look(lag_us):
                behind.append(vnode)
                hindrances.append(f"it is {lag_us / SECOND_US:.0f} s behind in vnode {vnode}")
            if state.waits_us >= self._bounds.patience_s * SECOND_US:
                waited_s = state.waits_us / SECOND_US
                self._still[vnode] = f"the log of vnode {vnode} has accepted nothing for {waited_s:.0f} s"
        self._behind = frozenset(behind)
        self._look_at_clock(now_us, hindrances)
        if self.disk_full:
            hindrances.append("its disk is full")
        self._hindrances = hindrances

    def _note_ends(self, vnodes: Sequence[VnodeState], beats: Mapping[int, BeatRow], now_us: int) -> None:
        ends = [state.known for state in vnodes]
        for row in beats.values():
            for progress in row.beat.vnodes:
                if progress.vnode < len(ends):
                    ends[progress.vnode] = max(ends[progress.vnode], progress.applied)
        for meter, state, last in zip(self._meters, vnodes, ends, strict=True):
            since_us = now_us
            if not self._looked and state.stamp_us and last > state.applied:
                since_us -= max(0, self._clock.wall_us() - state.stamp_us)
            if last > state.applied:
                meter.note(last, since_us)
        self._looked = True

    def _look_at_peers(self, members: Mapping[int, MemberRow], beats: Mapping[int, BeatRow], now_us: int) -> None:
        ready: list[tuple[int, int]] = []
        for node, row in beats.items():
            if self._seen.get(node, (0, 0))[0] != row.sequence:
                self._seen[node] = (row.sequence, now_us)
            if node != self._node and row.beat.ready and now_us - self._seen[node][1] <= _FRESH_US:
                ready.append((row.beat.connections, node))
        self.has_ready_peer = bool(ready)
        addresses = [dict(members[node].join.addresses).get(MQTT, "") for _count, node in sorted(ready)]
        self._addresses = [address for address in addresses if address]

    def _look_at_clock(self, now_us: int, hindrances: list[str]) -> None:
        skew_us = self.skew_us()
        if abs(skew_us) < self._bounds.max_skew_s * SECOND_US:
            self._skewed_beats = 0
        elif self._seen[self._node][1] == now_us:  # a beat that was not there with the last look
            self._skewed_beats += 1
        if self._skewed_beats == 0 or self._skewed_beats >= _SKEWED_BEATS:
            self._skew.look(abs(skew_us))
        if self._skew.exceeded:
            side = "ahead of" if skew_us > 0 else "behind"
            hindrances.append(f"its clock is {abs(skew_us) / SECOND_US:.0f} s {side} those of other members")
