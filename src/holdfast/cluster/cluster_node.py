"""A node at work in its cluster: membership, and for each vnode an applier, a writer and perhaps its leadership.

    control log ──▶ Membership ──joined──▶ first records ──▶ ClusterLog may write
                        │      ──closed──▶ `Closed` into every vnode
                        └────── fenced ──▶ all sessions of this node are fenced; it joins again by itself

    once a second   whether this node may serve, and lead (`membership/readiness.py`); leaders propose what is due; a
                    leader trims its log (`vnodes/trim_rules.py`)

The broker takes `log`, `registry` and `life`. It is opened when `start` has returned: the node has joined, and has
applied what was in the logs by then, or has waited long enough for it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final, NamedTuple

import structlog

from holdfast.cluster import failpoints
from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.groups.node_groups import NodeGroups
from holdfast.cluster.membership.cluster_status import ClusterStatus, member_status
from holdfast.cluster.membership.membership import Closing, Membership, NodeProfile, control_applier
from holdfast.cluster.membership.readiness import NodeBounds, Readiness, VnodeState
from holdfast.cluster.membership.record_clock import RecordClock
from holdfast.cluster.nats.stamp_watch import StampWatches
from holdfast.cluster.node_requests import NodeRequests
from holdfast.cluster.registry.claim_history import ClaimHistory
from holdfast.cluster.registry.gossip_registry import NodeRegistries
from holdfast.cluster.registry.log_registry import LogRegistry, load_newest_version
from holdfast.cluster.registry.takeover_begin import TakeoverBegin
from holdfast.cluster.vnodes.applier import OutcomeListener, VnodeApplier
from holdfast.cluster.vnodes.digest_watch import DigestWatch
from holdfast.cluster.vnodes.outcome_watch import WatchedLog, WatchedVnode
from holdfast.cluster.vnodes.record_counts import RecordCounts
from holdfast.cluster.vnodes.retained_compaction import NOTHING_ERASED, RetainedCompaction
from holdfast.cluster.vnodes.trim_rules import CheckpointHolds, TrimLimits, synced_by_member, trim_log
from holdfast.cluster.vnodes.vnode_leader import VnodeLeader, leader_of, registration_of
from holdfast.cluster.vnodes.writer import Timers, VnodeWriter
from holdfast.durable.erasures import Erasures
from holdfast.durable.ordered_log import INSTALL, OrderedLog
from holdfast.durable.sessions.session_store import SessionStore
from holdfast.durable.state_machine.control import all_members, last_beat, member_row
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.tables import CLUSTER, StateStore
from holdfast.durable.takeover.registry import NodeLife
from holdfast.durable.takeover.takeover import TakeoverCounts
from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError, PermanentError, TransientError
from holdfast.model.reasons import SERVER_UNAVAILABLE
from holdfast.records.cluster.control import Beat, VnodeProgress
from holdfast.records.cluster.control_rows import BeatRow, FoundedRow
from holdfast.records.cluster.items import ChangeSettings, Closed, Item, Tick
from holdfast.records.cluster.rows import CLOCK_KEY, RegistrationRow, decode_clock
from holdfast.records.cluster.vnode_keys import vnode_of

_log = structlog.get_logger()

#: How long a start waits for a vnode that stands still: its clients are refused until it goes on.
CATCH_UP_S: Final = 10.0
_LOOK_S: Final = 0.05
_SECOND_S: Final = 1.0
_LOOKS_A_SECOND: Final = int(_SECOND_S / _LOOK_S)
_IDLE_LOOKS: Final = int(CATCH_UP_S / _LOOK_S)

Spawn = Callable[[Coroutine[Any, Any, object]], object]
_BOUNDS: Final = NodeBounds()
_TRIM_LIMITS: Final = TrimLimits(256 << 20, 512 << 20)
_ADVICE: Final = "see docs/runbook.md, a vnode is applied no further"


class NodeVnode(NamedTuple):
    """A vnode as this node has it: its log, its tables, and the sessions in them."""

    log: OrderedLog
    store: StateStore
    sessions: SessionStore
    #: What its shards need at a time: borders and drops of generations.
    due_generations: Callable[[int], list[Item]] = lambda _now_us: []


class NodeStores(NamedTuple):
    """What this node's tables tell about all vnodes."""

    #: The places that a stored session names, by shard the last one.
    positions_of: Callable[[str], Mapping[int, int]]
    #: The last position of each shard that is applied, and that live clients were sent: kept up by the log.
    heads: dict[int, int]
    delivered: dict[int, int]
    #: The greatest version of a retained message in any vnode.
    seen_version: Callable[[], int]
    #: Has everything synced that was applied up to now, and says then.
    sync: Callable[[Callable[[], None]], None]
    #: What is shown to no reader any more.
    erasures: Callable[[], Erasures] = lambda: NOTHING_ERASED


class ClusterNode:
    """A `MembershipListener`, and the broker's `Admission`, by shape."""

    def __init__(
        self,
        founded: FoundedRow,
        control: OrderedLog,
        control_store: StateStore,
        vnodes: Sequence[NodeVnode],
        stores: NodeStores,
        profile: NodeProfile,
        clock: Clock,
        timers: Timers,
        ended: Callable[[str], None],
        requests: NodeRequests,
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
        bounds: NodeBounds = _BOUNDS,
        step_down: Callable[[int | None, str], None] = lambda _vnode, _why: None,
        trim_limits: TrimLimits = _TRIM_LIMITS,
        install: Callable[[str, bool], None] = lambda _why, _differs: None,
    ) -> None:
        """`ended` is told why this node will not be a member again.

        `step_down` asks the leader of a vnode's stream to step down, for None that of the control log. `install` is
        told why this node has to be installed from another one, and whether its tables differ from those of others.
        """
        self._founded: Final = founded
        cluster_id = founded.cluster_id
        self._vnodes: Final = [vnode._replace(log=failpoints.watch_log(vnode.log, cluster_id)) for vnode in vnodes]
        self._stores: Final = stores
        self._clock: Final = clock
        self._timers: Final = timers
        self._ended: Final = ended
        self._wait: Final = wait
        self._trim_limits: Final = trim_limits
        self._install: Final = install
        #: Checkpoints that nodes are installed from: they hold the logs.
        self.holds: Final = CheckpointHolds(clock.monotonic_us)
        self._control_store: Final = control_store
        self.life: Final = NodeLife(profile.node)
        self._control: Final = control
        self.membership: Final = Membership(
            control, cluster_id, control_store, profile, self, self._beat, clock, timers, trim=self._trim_control
        )
        self.counts: Final = RecordCounts()
        #: For the broker.
        self.clock: Final = RecordClock(clock, profile.node)
        self._digests: Final = DigestWatch(profile.node, len(vnodes))
        self._control_applier: Final = control_applier(
            control, cluster_id, control_store, WatchedLog(self.membership, self.counts, "control")
        )
        newest_version = max([load_newest_version(vnode.store) for vnode in vnodes], default=(0, 0, 0))
        self.log: Final = ClusterLog(
            len(vnodes), stores.positions_of, stores.heads, stores.delivered, timers, newest_version
        )
        self.takeover_counts: Final = TakeoverCounts()
        self.begin: Final = TakeoverBegin(
            self.life, requests, self.log.held_revision, self._lives, self.takeover_counts
        )
        self.claims: Final = ClaimHistory(clock)
        self.requests: Final = requests
        linear = LogRegistry(self.log, self.registration, timers)
        self.registries: Final = NodeRegistries(
            profile.mode, linear, self.life, requests, self._lives, self._leader_of, clock, timers
        )
        self.appliers: Final = [
            VnodeApplier(vnode.log, cluster_id, vnode.store, self._listener(number), wait)
            for number, vnode in enumerate(self._vnodes)
        ]
        self.readiness: Final = Readiness(profile.node, len(vnodes), bounds, clock)
        #: The ends of the logs when this node started.
        self._ends: Final = [0] * len(vnodes)
        self._stamps: Final = StampWatches(len(vnodes), bounds.max_skew_s)
        self._step_down: Final = step_down
        self._writers: list[VnodeWriter] = []
        self._spawn: Spawn | None = None
        self._leaders: list[VnodeLeader] = []
        self._joined: Final = asyncio.Event()
        #: Why this node is no member, nor will be.
        self._end_reason = ""
        #: The sequences of the vnodes that were applied when the last sync began, and that are synced.
        self._syncing = False
        self._synced: list[int] = [0] * len(vnodes)
        #: How many connections this node has, for its beats.
        self.connections: Callable[[], int] = lambda: 0
        self._has_started = False
        #: The groups of shared subscriptions; None if this node serves none.
        self.groups: NodeGroups | None = None

    def _listener(self, vnode: int) -> OutcomeListener:
        told = failpoints.watch_outcomes(self.log.listener(vnode), self._founded.cluster_id)
        return WatchedVnode(told, self.counts, self._digests, self.clock, self.claims, self.registries.replaced, vnode)

    async def start(self, spawn: Spawn) -> None:
        """Join, and apply what there is. `spawn` runs what this node does from then on, until it is cancelled."""
        self._spawn = spawn
        spawn(self._control_applier.run())
        self.membership.start()
        await self._joined.wait()
        if self._end_reason:
            raise PermanentError(f"this node is no member of its cluster: {self._end_reason}")
        for number in range(len(self.appliers)):
            spawn(self._apply(number))
        await self._catch_up()
        self.readiness.is_member = self.membership.life is not None
        self._look()
        self._has_started = True
        spawn(self._work())
        spawn(self._trim_logs())

    async def _apply(self, number: int) -> None:
        stop = await self.appliers[number].run()
        if stop.reason == INSTALL:
            self._install(f"the log of vnode {number} was trimmed: {stop.why}", False)

    def close(self, why: str = "") -> None:
        """Write nothing more; `why` goes into a last beat. Other nodes fence the epoch, or the next start closes it."""
        self.readiness.is_member = False
        self.membership.close(replace(self._beat(), ready=False, reasons=(why,)) if why else None)
        self.log.end()

    def registration(self, session_id: str) -> RegistrationRow | None:
        """Who is registered, as of what is applied here. One of a closed epoch was released."""
        tables = self._vnodes[vnode_of(session_id, len(self._vnodes))].store
        row = registration_of(tables, session_id)
        return None if row is None or closed_at(tables, row.node, row.epoch) != OPEN else row

    @property
    def is_ready(self) -> bool:
        return self.readiness.is_ready

    def refusal(self, session_id: str) -> PeerError | None:
        """Why this node does not serve a session now; None if it does."""
        vnode = vnode_of(session_id, len(self._vnodes))
        refusal = self.readiness.refusal(vnode)
        if refusal is None and self.appliers[vnode].stop is not None:
            # Known at once, not with the next second: its sessions are fenced now.
            return PeerError(SERVER_UNAVAILABLE, f"vnode {vnode} is applied no further on this node")
        return refusal

    def server_reference(self) -> str:
        return self.readiness.server_reference()

    def _lives(self, node: int, epoch: int) -> bool:
        """Whether an epoch of a node is its last one, and is not closed, as of what is applied here."""
        member = member_row(self._control_store, node)
        return member is not None and member.lives and member.epoch == epoch

    def _leader_of(self, session_id: str) -> int:
        """The node that leads the vnode of a session."""
        return self.leader_of(vnode_of(session_id, len(self._vnodes)))

    def leads(self, vnode: int) -> bool:
        return vnode < len(self._leaders) and self._leaders[vnode].leads()

    def leader_of(self, vnode: int) -> int:
        """The node that leads a vnode, as of what is applied here; 0 if none does."""
        tables = self._vnodes[vnode].store
        row = leader_of(tables)
        return 0 if row is None or closed_at(tables, row.node, row.epoch) != OPEN else row.node

    # ---- membership

    def joined(self, life: NodeLife, closings: list[Closing]) -> None:
        self.life.epoch = life.epoch
        founded = self._founded
        writers = [
            VnodeWriter(
                vnode.log,
                founded.cluster_id,
                life.node,
                life.epoch,
                self._clock,
                self._timers,
                self._stores.seen_version,
            )
            for vnode in self._vnodes
        ]
        self._leaders = [
            VnodeLeader(
                life,
                vnode.store,
                vnode.sessions,
                writer,
                self._clock,
                self._timers,
                vnode.due_generations,
                RetainedCompaction(
                    number, [one.store for one in self._vnodes], self.membership.have_applied, self._stores.erasures
                ),
            )
            for number, (vnode, writer) in enumerate(zip(self._vnodes, writers, strict=True))
        ]
        self._writers = writers
        self.log.begin(writers)
        self.readiness.is_member = self._has_started
        for number, writer in enumerate(writers):
            # The first record of an epoch closes this node's earlier ones. What others have written counts once.
            writer.add(Tick())
            writer.add(ChangeSettings(founded.sequence, founded.found.settings[number]))
            for closing in closings:
                writer.add(Closed(*closing))
            writer.flush()
        self._joined.set()

    def refused(self, why: str) -> None:
        _log.warning("node waits to join", why=why)

    def closed(self, closing: Closing) -> None:
        self.log.propose(Closed(*closing))

    def changed(self) -> None:
        """Ranks are looked up when they are needed."""

    def fenced(self) -> None:
        self.readiness.is_member = False
        self._leaders = []
        if self.groups is not None:
            self.groups.end()
        self.log.end()

    def ended(self, why: str) -> None:
        self.fenced()
        self._end_reason = why
        if self._joined.is_set():
            self._ended(why)
        else:
            self._joined.set()

    # ---- once a second

    async def _work(self) -> None:
        while True:
            await self._wait(_SECOND_S)
            beats = self._look()
            live = sorted(self.membership.live())
            rank = live.index(self.life.node) if self.life.node in live else len(live)
            for leader in self._leaders:
                leader.tick(rank)
            if self.groups is not None:
                self.groups.tick()
            self._sync()
            if self._must_stop({node: row.beat for node, row in beats.items()}):
                self._look()
                return
            self.claims.forget_old()

    async def _trim_logs(self) -> None:
        """Beside the rest: a log that does not answer must not hold that up."""
        while True:
            await self._wait(_SECOND_S)
            for number in range(len(self._vnodes)):
                if self.leads(number):
                    synced = synced_by_member(self._control_store, number) | {self.life.node: self._synced[number]}
                    log, holds = self._vnodes[number].log, self.holds.of(number)
                    await trim_log(log, number, synced, holds, self._trim_limits)

    def _look(self) -> dict[int, BeatRow]:
        """See whether this node may serve and lead; the last beats of all members that live."""
        members = self.membership.live()
        beats = {node: row for node in members if (row := last_beat(self._control_store, node)) is not None}
        readiness, before = self.readiness, self.readiness.reasons()
        states = [self._state(number) for number in range(len(self._vnodes))]
        readiness.look(states, members, beats)
        after = readiness.reasons()
        if self._has_started and bool(before) != bool(after):
            _log.warning("node is not ready" if after else "node is ready again", why=after or before)
        for number, leader in enumerate(self._leaders):
            leader.is_ready = readiness.may_lead and not readiness.is_behind(number)
            if not readiness.may_lead:
                leader.resign()
        for log in self._stamps.look(states, readiness, self._clock):
            if self.leads(log or 0):  # the leader of vnode 0 looks after the control log
                self._step_down(log, "its stamps are wrong")
        return beats

    def _state(self, number: int) -> VnodeState:
        applier, writer = self.appliers[number], self._writers[number]
        value = self._vnodes[number].store.get(CLUSTER, CLOCK_KEY)
        return VnodeState(
            applier.place.sequence,
            max(applier.last_read, writer.acknowledged, self._ends[number]),
            0 if value is None else decode_clock(value).stamp_us,
            writer.waits_us(),
            "" if applier.stop is None else f"{applier.stop.why} ({_ADVICE})",
        )

    def _sync(self) -> None:
        """Note what of each vnode is on this node's disk."""
        if self._syncing:
            return
        self._syncing = True
        applied = [applier.place.sequence for applier in self.appliers]

        def synced() -> None:
            self._synced = applied
            self._syncing = False

        self._stores.sync(synced)

    def _must_stop(self, beats: dict[int, Beat]) -> bool:
        """Whether this node has come to something else than the others, and has stopped."""
        for found in self._digests.compare(beats):
            if found.must_stop:
                self.close(found.describe())
                if found.is_outvoted:
                    self._install(found.describe(), True)
                else:
                    self._ended(found.describe())
                return True
            _log.error("a node has other tables", vnode=found.vnode, nodes=found.nodes, at=found.sequence)
        return False

    def _trim_control(self, before: int) -> None:
        async def trim() -> None:
            try:
                await self._control.trim(before)
            except TransientError as error:
                _log.info("the control log is not trimmed now", why=str(error))

        if self._spawn is not None:
            self._spawn(trim())

    def caught_up(self) -> list[int] | None:
        """What is applied here in each vnode; None while this node is not ready."""
        if not self.is_ready or any(applier.stop for applier in self.appliers):
            return None
        return [applier.place.sequence for applier in self.appliers]

    def _beat(self) -> Beat:
        vnodes: list[VnodeProgress] = []
        for number, applier in enumerate(self.appliers):
            place = applier.place.sequence
            lag_ms = self.readiness.lag_us(number, place) // 1000
            digest = self._digests.last(number)
            synced = self._synced[number]
            vnodes.append(VnodeProgress(number, place, synced, *digest, lag_ms, leads=self.leads(number)))
        reasons = self.readiness.reasons() if self._has_started else ["it has not caught up yet"]
        counts = tuple((name, count) for name, count in self.all_counts().items() if count)
        lag_ms = max([one.lag_ms for one in vnodes], default=0)
        return Beat(tuple(vnodes), lag_ms, self.connections(), not reasons, tuple(reasons), counts)

    def all_counts(self) -> dict[str, int]:
        """What this node has counted since its start, by name."""
        digests = {"digests/compared": self._digests.compared, "digests/different": self._digests.different}
        takeovers = {f"registry/{name}": count for name, count in self.takeover_counts.all().items()}
        return self.counts.counts() | digests | takeovers

    def describe_members(self) -> ClusterStatus:
        """The cluster as this node knows it: what it has applied of the control log, and of the logs of vnodes."""
        now_us, rows = self._clock.wall_us(), all_members(self._control_store)
        members = [member_status(node, row, last_beat(self._control_store, node), now_us) for node, row in rows.items()]
        last = {
            vnode: max([applier.last_read, applier.place.sequence, *(one.applied.get(vnode, 0) for one in members)])
            for vnode, applier in enumerate(self.appliers)
        }
        return ClusterStatus(self._founded.found.name, self._founded.cluster_id.hex(), members, last, [])

    def digest_verdicts(self, vnode: int) -> dict[int, tuple[int, bool]]:
        return self._digests.verdicts(vnode)

    # ---- start

    async def _catch_up(self) -> None:
        """Wait until what is in the logs now is applied here. A vnode that stands still is waited for no longer."""
        for number, vnode in enumerate(self._vnodes):
            try:
                self._ends[number] = (await vnode.log.ends()).last
            except TransientError as error:
                _log.warning("a start does not wait for a vnode", vnode=number, why=str(error))
        # Looks without progress, by vnode. One that goes on is waited for, however far behind it is.
        idle = [0] * len(self._vnodes)
        before = [-1] * len(self._vnodes)
        for look in count():
            places = [applier.place.sequence for applier in self.appliers]
            idle = [0 if one != was else looks + 1 for one, was, looks in zip(places, before, idle, strict=True)]
            before = places
            if not any(self._is_catching_up(number, idle[number]) for number in range(len(places))):
                break
            if look % _LOOKS_A_SECOND == 0:
                self._look()
            await self._wait(_LOOK_S)
        if any(place < last for place, last in zip(places, self._ends, strict=True)):
            _log.warning("node starts behind the logs", applied=places, last=self._ends)

    def _is_catching_up(self, number: int, idle: int) -> bool:
        applier = self.appliers[number]
        return applier.place.sequence < self._ends[number] and applier.stop is None and idle < _IDLE_LOOKS
