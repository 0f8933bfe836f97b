"""The log of a node in a cluster: batches go to the logs of vnodes, and what is decided there comes back.

    batch ──▶ items, by the vnode of their session ──▶ writers ──▶ ordered logs
                                                                      │ applied on this node
    exchange ◀── receipts: acknowledged, or fenced ◀── ClusterLog ◀───┘
             ◀── messages of all nodes, in the order in which they are applied

1. A receipt says for each vnode up to which batch every item there was applied here. Nothing is acknowledged before;
   a vnode that stands still holds up its own sessions only.
2. An item belongs to a session that a channel of this node has claimed, at the revision of that claim (`hold`). What
   belongs to any other session is fenced, and not written.
3. A session that was fenced is held no longer. The next receipt names it; nothing of it that came before the receipt
   was acknowledged after it was fenced.
4. Within a batch the steps of a session come before its messages, and its progress last: every beginning of them is a
   state that can be loaded.
5. Messages that no session has published, those of the broker itself, stay on this node.
6. What one record decides is told by one receipt: also which sessions it has fenced.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from holdfast.cluster import failpoints
from holdfast.cluster.vnodes.applier import ApplierStop
from holdfast.cluster.vnodes.writer import ItemOutcome, Settled, TimerHandle, Timers, VnodeWriter
from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.step_items import step_item
from holdfast.model.message import Message
from holdfast.records.cluster.items import Claim, Item, ReadRegistration, VersionParts
from holdfast.records.cluster.record import SessionEntry
from holdfast.records.cluster.vnode_keys import vnode_of

#: How long the opening of a session waits for what it was sent elsewhere.
PATIENCE_S: Final = 5.0
#: Of a vnode that stands still, before no session is registered there any more.
MAX_UNSETTLED_BYTES: Final = 16 * 1024 * 1024


class _HeldSession:
    """A session that a channel of this node has claimed."""

    def __init__(self, session_id: str, revision: int, vnode: int, *, has_replaced: bool) -> None:
        self.entry: Final = SessionEntry(session_id, revision)
        self.vnode: Final = vnode
        #: Whether the claim ended another channel.
        self.has_replaced: Final = has_replaced


class _Waiter:
    """A session that is opened when positions are applied."""

    def __init__(self, positions: dict[int, int], done: "asyncio.Future[bool]", timer: TimerHandle) -> None:
        self.positions: Final = positions
        self.done: Final = done
        self.timer: Final = timer


class AppliedGroups(Protocol):
    """Groups of shared subscriptions, as far as the log tells them what is applied."""

    def offer(self, messages: list[Message]) -> None:
        """Messages that are applied, before they count as delivered."""

    def applied(self, vnode: int, outcome: Outcome) -> None:
        """A record of a vnode was applied, and its messages are delivered."""


class ClusterLog:
    """A `CommitLog` and a `DecidingLog` by shape.

    Requires: `begin` when the node has joined; one listener per vnode (`listener`); `attach_receipts` and `attach`.

    Survives: what the ordered logs survive. Of a session every prefix of its items.
    """

    def __init__(
        self,
        vnodes: int,
        positions_of: Callable[[str], Mapping[int, int]],
        heads: dict[int, int],
        delivered: dict[int, int],
        timers: Timers,
        newest_version: VersionParts = (0, 0, 0),
    ) -> None:
        """`positions_of` gives the places that a stored session names, by shard the last one; `heads` the last position
        of each shard that is applied, and `delivered` the last one that live clients were sent, at the start the same;
        `newest_version` is the greatest version of a channel in the tables.
        """
        self._vnodes: Final = vnodes
        #: None while this node is no member of its cluster.
        self._writers: list[VnodeWriter] | None = None
        self._positions_of: Final = positions_of
        self._heads: Final = heads
        self._delivered: Final = delivered
        self._timers: Final = timers
        #: Sessions of this node's channels, with the revisions of their claims, and their vnodes.
        self._held: Final[dict[str, _HeldSession]] = {}
        self._fenced: Final[set[str]] = set()
        #: By vnode: the numbers of the batches with items there that are not settled; and the last batch.
        self._open: Final[list[deque[int]]] = [deque() for _vnode in range(vnodes)]
        self._last_batch = 0
        #: What the last receipt said.
        self._told = (0,) * vnodes
        self._waiters: list[_Waiter] = []
        self._writing = False
        self._on_receipt: Callable[[Receipt], None] | None = None
        self._write_open: Callable[[], None] | None = None
        self._deliver: Callable[[list[Message]], None] | None = None
        self._replaced: Callable[[str, tuple[int, int, int]], None] | None = None
        self._seen: Callable[[tuple[int, int, int]], None] | None = None
        #: The greatest version of a channel that was applied here.
        self._newest_version = newest_version
        #: None if this node serves no shared subscriptions.
        self.groups: AppliedGroups | None = None

    def vnode_count(self) -> int:
        return self._vnodes

    # ---- the ends

    def attach_receipts(self, post: object, on_receipt: Callable[[Receipt], None]) -> None:  # noqa: ARG002 - it is on the loop
        self._on_receipt = on_receipt

    def attach(
        self,
        write_open: Callable[[], None],
        deliver: Callable[[list[Message]], None],
        replaced: Callable[[str, tuple[int, int, int]], None],
        seen: Callable[[tuple[int, int, int]], None],
    ) -> None:
        self._write_open = write_open
        self._deliver = deliver
        self._replaced = replaced
        self._seen = seen
        seen(self._newest_version)

    def begin(self, writers: Sequence[VnodeWriter]) -> None:
        """This node has joined its cluster, with a new epoch: it may write."""
        self._writers = list(writers)

    def end(self) -> None:
        """The epoch of this node is closed: nothing that it wrote and has not seen applied counts, nor will."""
        writers, self._writers = self._writers, None
        for vnode, writer in enumerate(writers or ()):
            self._fence_all(vnode)
            writer.close()
        self._hand_over()

    def listener(self, vnode: int) -> "VnodeListener":
        """What the applier of a vnode tells its outcomes."""
        return VnodeListener(self, vnode)

    def propose(self, item: Item) -> None:
        """Write an item of no session into every vnode. Nothing happens while this node is no member."""
        for writer in self._writers or ():
            writer.add(item)
            writer.flush()

    def add(self, session_id: str, item: Item, settled: Settled) -> None:
        """Propose an item that is no part of a batch, such as a claim.

        Without an outcome if this node is no member. Nor is there one for a claim or a read if too much waits for its
        vnode: clients that come again and again would fill the memory while it stands still.
        """
        writer = None if self._writers is None else self._writers[vnode_of(session_id, self._vnodes)]
        asks = isinstance(item, (Claim, ReadRegistration))
        if writer is None or (asks and writer.unsettled_bytes > MAX_UNSETTLED_BYTES):
            settled(ItemOutcome(None, 0))
            return
        writer.add(item, settled)
        writer.flush()

    def propose_in(
        self, vnode: int, item: Item, settled: Settled | None = None, session: SessionEntry | None = None
    ) -> None:
        """Propose an item of a leader in its vnode. Without an outcome if this node is no member."""
        if self._writers is None:
            if settled is not None:
                settled(ItemOutcome(None, 0))
            return
        self._writers[vnode].add(item, settled, session)
        self._writers[vnode].flush()

    # ---- sessions of this node

    def revision_of(self, session_id: str) -> int:
        return self.held_revision(session_id) or 0

    def has_replaced(self, session_id: str) -> bool:
        held = self._held.get(session_id)
        return held is not None and held.has_replaced

    def hold(self, session_id: str, revision: int, *, has_replaced: bool) -> None:
        """A claim of this node was accepted: items of the session count at its revision."""
        vnode = vnode_of(session_id, self._vnodes)
        self._held[session_id] = _HeldSession(session_id, revision, vnode, has_replaced=has_replaced)
        self._fenced.discard(session_id)

    def held_revision(self, session_id: str) -> int | None:
        """The revision of the claim by which this node holds a session; None if it does not."""
        held = self._held.get(session_id)
        return None if held is None else held.entry.revision

    def let_go(self, session_id: str) -> None:
        """The channel of a session has ended."""
        self._held.pop(session_id, None)

    # ---- batches

    def write(self, batch: Batch) -> Receipt | None:
        before, self._writing = self._writing, True
        try:
            self._add_all(batch)
        finally:
            self._writing = before
        return self._receipt()

    def _add_all(self, batch: Batch) -> None:
        """Add the items of a batch to the records of their vnodes, in their order, and send them."""
        writers = self._writers or []
        touched: dict[int, None] = {}
        for step in batch.steps:
            self._add_step(writers, step, touched)
        ids = batch.ids
        publisher = ""
        held: _HeldSession | None = None
        for index, message in enumerate(batch.messages):
            if message.publisher != publisher:  # else it is held, or not, as for the one before
                publisher = message.publisher
                held = self._held_or_fenced(publisher) if publisher else None
            if held is not None:
                found = ids.get(index) if ids else None
                touched[held.vnode] = None
                if found is None:
                    writers[held.vnode].add_message(held.entry, message, 0, -1, None)
                else:
                    writers[held.vnode].add_message(held.entry, message, found.packet_id, found.number, found.user)
        if batch.retained:
            stored = {id(message) for message in batch.messages}
            for message in batch.retained:
                held = self._held_or_fenced(message.publisher) if message.publisher else None
                if held is not None and id(message) not in stored:
                    touched[held.vnode] = None
                    writers[held.vnode].add_message(held.entry, message, 0, -1, None)
        for progress in batch.progress:
            self._add_step(writers, progress, touched)
        self._last_batch = batch.number
        for vnode in touched:
            self._open[vnode].append(batch.number)
            # Items of a writer are settled in their order, so the last one speaks for all.
            writers[vnode].notify(partial(self._settled, vnode))
        for vnode in touched:
            writers[vnode].flush()

    def _add_step(self, writers: Sequence[VnodeWriter], step: SessionStep, touched: dict[int, None]) -> None:
        held = self._held_or_fenced(step.client_id)
        if held is not None:
            touched[held.vnode] = None
            writers[held.vnode].add(step_item(step, 0), None, held.entry)

    def _held_or_fenced(self, session_id: str) -> _HeldSession | None:
        """A session that counts; any other one is fenced. So all are while this node is no member."""
        held = self._held.get(session_id)
        if held is None:
            self._fenced.add(session_id)
        return held

    def busy(self) -> bool:
        """Never: what is written while a record is on its way fills the next one."""
        return False

    def _settled(self, vnode: int, outcome: ItemOutcome) -> None:
        """The last item of the first open batch of a vnode is settled. Whoever tells so hands the receipt over."""
        if outcome.outcome is None:
            self._fence_all(vnode)
        self._open[vnode].popleft()

    def _hand_over(self) -> None:
        """Hand a receipt over, unless a batch is being written: its own comes when all of it is."""
        receipt = None if self._writing else self._receipt()
        if receipt is not None and self._on_receipt is not None:
            self._on_receipt(receipt)

    def _receipt(self) -> Receipt | None:
        """A receipt if a vnode has come further than the last one says, or sessions were fenced."""
        by_vnode = tuple([numbers[0] - 1 if numbers else self._last_batch for numbers in self._open])
        if by_vnode == self._told and not self._fenced:
            return None
        self._told = by_vnode
        fenced = frozenset(self._fenced)
        self._fenced.clear()
        return Receipt(min(by_vnode), fenced, by_vnode)

    # ---- decisions

    def applied(self, vnode: int, entry: LogEntry, outcome: Outcome) -> None:
        """A record of a vnode was applied here, of any node."""
        if outcome.published:
            messages = [published.message for published in outcome.published]
            stored: dict[int, int] = {}
            for message in messages:
                if message.position_us:
                    stored[message.shard] = message.position_us
            self._heads.update(stored)
            if self.groups is not None:
                self.groups.offer(messages)
            if self._deliver is not None:
                self._deliver(messages)
            else:
                # No client is live yet. A session that is opened later reads what lies above its own place up to here.
                self._delivered.update(stored)
        self._note_lost(outcome)
        self._note_claimed(outcome)
        for session_id, row in outcome.replaced.items():
            if self._replaced is not None:
                self._replaced(session_id, (row.node, row.epoch, row.connection_id))
        if self._writers is not None:
            self._writers[vnode].applied(entry, outcome)
        self._hand_over()
        if outcome.published and self._waiters:
            self._wake()
        if self.groups is not None:
            self.groups.applied(vnode, outcome)

    def _note_claimed(self, outcome: Outcome) -> None:
        """Give no version to a channel of this node that is below one which was decided before it connected."""
        if outcome.claimed:
            self._newest_version = max(self._newest_version, *outcome.claimed)
            if self._seen is not None:
                self._seen(self._newest_version)

    def _note_lost(self, outcome: Outcome) -> None:
        """Hold the sessions no longer that other channels own from this record on."""
        fenced = [one.session_id for one in outcome.fenced if self._holds(one.session_id, one.revision)]
        lost = [session_id for session_id, row in outcome.replaced.items() if self._holds(session_id, row.revision)]
        if (fenced or lost) and self._write_open is not None:
            # What their channels did so far is theirs: under the revision of a later channel it would count.
            self._write_open()
        for session_id in (*fenced, *lost):
            self._held.pop(session_id, None)
        self._fenced.update(fenced)

    def _holds(self, session_id: str, revision: int) -> bool:
        held = self._held.get(session_id)
        return held is not None and held.entry.revision == revision

    def stopped(self, vnode: int, stop: ApplierStop) -> None:
        """Nothing more of a vnode is applied here: none of its sessions may go on."""
        if self._writers is not None:
            self._writers[vnode].stopped(stop)
        self._fence_all(vnode)
        self._hand_over()

    def _fence_all(self, vnode: int) -> None:
        """Nothing that this node writes into a vnode counts any more."""
        gone = [session_id for session_id, held in self._held.items() if held.vnode == vnode]
        for session_id in gone:
            del self._held[session_id]
        self._fenced.update(gone)

    # ---- positions

    async def has_all_of(self, session_id: str) -> bool:
        failpoints.reach("open.claimed")
        covered = await self._covers(session_id)
        if covered:
            failpoints.reach("open.covered")
        return covered

    async def _covers(self, session_id: str) -> bool:
        positions = {
            shard: position_us
            for shard, position_us in self._positions_of(session_id).items()
            if position_us > self._heads.get(shard, 0)
        }
        if not positions:
            return True
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        timer = self._timers.call_later(PATIENCE_S, lambda: None if done.done() else done.set_result(False))
        self._waiters.append(_Waiter(positions, done, timer))
        try:
            return await done
        finally:
            timer.cancel()
            self._waiters = [waiter for waiter in self._waiters if waiter.done is not done]

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done.done() and all(
                self._heads.get(shard, 0) >= position_us for shard, position_us in waiter.positions.items()
            ):
                waiter.done.set_result(True)


class VnodeListener:
    """An `OutcomeListener` by shape: tells the log of the node which vnode an outcome is of."""

    def __init__(self, log: ClusterLog, vnode: int) -> None:
        self._log: Final = log
        self._vnode: Final = vnode

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        self._log.applied(self._vnode, entry, outcome)

    def stopped(self, stop: ApplierStop) -> None:
        self._log.stopped(self._vnode, stop)
