"""The progress of sessions and groups on its way to the store: soon after each acknowledgement, at a bounded cost.

    PUBACK ──▶ changed, each once ──┬─▶ every batch takes some of them along, in turn
                                    ├─▶ nothing committed for a while: the open batch, or one of their own, is written
                                    │   at once, also while a sync is under way
                                    └─▶ once a second: the rest

A record costs about 3 µs beside the batch that it is written with, and some more for each message in flight. So a batch
takes as many as its messages pay for: with a hundred sessions that acknowledge all the time, each of them is stored
within a few commits, with ten thousand of them within about a second. That is what a crash makes come again.

1. A client or group whose progress is to be stored is `unsaved`, and in one of the three queues. One that is there and
   is not `unsaved` has ended, or was stored otherwise.
2. A record is made when its batch is sealed: it knows everything that the batch holds, and nothing that comes later.
3. Only what is acknowledged, or was sent and is noted as in flight, counts as done. What is sent before its commit does
   not, until that commit.
4. Nothing waits for these records, so they need no sync. Packet ids are reserved by a `save` alone, which is synced.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.durable.commit import Batch
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.sessions.session_store import DropRetainedProgress, KeepProgress, KeepRetainedProgress
from holdfast.exchange.client import BrokerClient, Group
from holdfast.exchange.control import Timer
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import Reservation
from holdfast.records.session.progress import (
    HEAD_BYTES,
    SHARD_BYTES,
    GroupProgressWriter,
    ProgressWriter,
)
from holdfast.session.inflight import RESERVE

#: A batch takes along one record, and one more for each of so many messages and other changes in it: a record costs
#: about as much as a message.
CHANGES_PER_RECORD: Final = 16
#: … of so many bytes together, and so many more for each change. An entry in flight costs about 25 ns, and counts as so
#: many bytes: most take 2 or 3, none more than 13.
ENTRY_BYTES: Final = 4
LEAST_BYTES: Final = 1024
BYTES_PER_CHANGE: Final = 8
MOST_BYTES: Final = 16 * 1024
#: So long after an acknowledgement that no batch took along, the next one takes more, and one is written for progress
#: alone if there is nothing to commit. That costs about 30 µs, 3 µs for each record and 25 ns for each entry in flight.
#: The next one is thirty times as far away.
OWN_BATCH_AFTER_US: Final = 1000
OWN_BATCH_RECORDS: Final = 64
_PAUSE_PER_RECORD_US: Final = 100
_BYTES_PER_PAUSE_US: Final = 5
#: Once a second: 10,000 records take 30 ms of the loop.
TICK_RECORDS: Final = 10_000
TICK_BYTES: Final = 1024 * 1024


class ProgressQueue:
    """Which sessions and groups have come further than is stored, those that wait longest first."""

    def __init__(self, state: LoopState, timer: Timer, delivered: dict[int, int]) -> None:
        self._state: Final = state
        self._timer: Final = timer
        #: The shards of the log.
        self._delivered: Final = delivered
        self._waiting: Final[deque[BrokerClient | Group]] = deque()
        #: Those with more in flight than a batch had room for: a batch of their own takes them, or that of a tick.
        self._large: Final[deque[BrokerClient | Group]] = deque()
        #: Whether nothing more is to be written for a session at the moment; None if that never is. And who waits for
        #: that, until a tick asks again.
        self.holds_back: Callable[[str], bool] | None = None
        self._held: Final[list[BrokerClient]] = []
        #: How many were ever put into the first queue, and taken from it.
        self._put = 0
        self._taken = 0
        #: Whether a look is timed at those that had been put by then, to see if they still wait.
        self._timed = False
        self._timed_put = 0
        self._delay_us = OWN_BATCH_AFTER_US
        #: Whether the next batch is wanted soon and is to take along more; and all.
        self._wanted = False
        self._ticked = False

    # ---- what has changed

    def client_changed(self, client: BrokerClient) -> None:
        """Have the progress of a session stored some time soon."""
        if not client.unsaved:
            client.unsaved = True
            self._wait(client)

    def group_changed(self, group: Group) -> None:
        """The same for a group, if it is stored."""
        if not group.unsaved and group.stored_as:
            group.unsaved = True
            self._wait(group)

    def _wait(self, changed: BrokerClient | Group) -> None:
        self._waiting.append(changed)
        self._put += 1
        if not self._timed:
            self._time()

    def _time(self) -> None:
        self._timed = True
        self._timed_put = self._put
        self._timer.call_after(self._delay_us, self._look)

    def _look(self) -> None:
        """Ask for a batch if some have waited all the time. Under traffic every commit takes some along."""
        self._timed = False
        self._delay_us = OWN_BATCH_AFTER_US
        if self._taken < self._timed_put or (self._large and self._size_bytes(self._large[0]) <= MOST_BYTES):
            self._wanted = True
            self._state.schedule()
        elif self._waiting:
            self._time()

    def tick(self) -> None:
        """Once a second: store what has not been, with the next batch."""
        if self._held:
            self._waiting.extend(self._held)
            self._put += len(self._held)
            self._held.clear()
        if self._waiting or self._large:
            self._ticked = True
            self._state.schedule()

    def wants_batch(self, *, busy: bool = False) -> bool:
        """Whether a batch is to be written even if there is nothing else in it; or although a sync is under way."""
        return self._wanted or (self._ticked and not busy)

    # ---- batches

    def join(self, batch: Batch) -> None:
        """Add records to a batch. Requires: it is sealed next.

        A batch that is `patient` leaves what a tick asks for to the next one.
        """
        if not self._waiting and not self._large:
            self._wanted = self._ticked = False
            return
        changes = len(batch)
        records = 1 + changes // CHANGES_PER_RECORD
        limit_bytes = min(LEAST_BYTES + BYTES_PER_CHANGE * changes, MOST_BYTES)
        # Those who have waited go with the next batch, whatever it holds: the pause behind it bounds what that costs.
        own = self._wanted
        ticked = self._ticked and not batch.patient
        if ticked:
            records, limit_bytes = TICK_RECORDS, TICK_BYTES
        elif own:
            records, limit_bytes = max(records, OWN_BATCH_RECORDS), MOST_BYTES
        size_bytes = 0
        if ticked or own:
            size_bytes = self._take(batch, self._large, records, limit_bytes)
            records -= len(batch.progress)
        self._wanted = False
        self._ticked = self._ticked and not ticked
        if size_bytes < limit_bytes:
            size_bytes += self._take(batch, self._waiting, records, limit_bytes - size_bytes)
        if own:
            pause_us = _PAUSE_PER_RECORD_US * len(batch.progress) + size_bytes // _BYTES_PER_PAUSE_US
            self._delay_us = OWN_BATCH_AFTER_US + pause_us
        if (self._waiting or self._large) and not self._timed:
            self._time()

    def _take(self, batch: Batch, queue: deque[BrokerClient | Group], records: int, limit_bytes: int) -> int:
        """Add records of those at the front of a queue; how many bytes they were counted as."""
        size_bytes = 0
        from_large = queue is self._large
        while queue and records > 0:
            changed = queue[0]
            record_bytes = self._size_bytes(changed)
            fits = size_bytes + record_bytes <= limit_bytes
            # Nothing may be too large for a tick.
            if not fits and (size_bytes or (from_large and limit_bytes < TICK_BYTES)):
                break
            queue.popleft()
            if not from_large:
                self._taken += 1
                if not fits:
                    self._large.append(changed)
                    continue
            if changed.unsaved:
                if self._is_held_back(changed):
                    continue
                changed.unsaved = False
                step = self._record_of(changed)
                if step is not None:
                    batch.progress.append(step)
                    records -= 1
                    size_bytes += max(record_bytes, len(step.value))
        return size_bytes

    def _is_held_back(self, changed: BrokerClient | Group) -> bool:
        """Whether it has to wait for a tick that finds it free to be written."""
        if self.holds_back is None or isinstance(changed, Group) or not self.holds_back(changed.session.client_id):
            return False
        self._held.append(changed)
        return True

    def _size_bytes(self, changed: BrokerClient | Group) -> int:
        """About how many bytes its record has, unless retained messages are in it; of a group, what making it costs."""
        entries = 0
        if isinstance(changed, BrokerClient):
            entries = len(changed.session.window)
        else:
            for member in changed.members.values():
                entries += len(member.client.session.window)
        return HEAD_BYTES + SHARD_BYTES * len(self._delivered) + ENTRY_BYTES * entries

    def _record_of(self, changed: BrokerClient | Group) -> KeepProgress | None:
        if isinstance(changed, Group):
            return _group_step(changed)
        # Of a session that has left, everything is stored.
        return self._client_step(changed) if changed.stored() and changed.owner is not None else None

    # ---- one session or group

    def save(self, client: BrokerClient) -> None:
        """Store how far a session has come with the open batch.

        With it goes a reservation of packet ids, which holds when that is committed.
        """
        step = self._client_step(client)
        if step is not None:
            self._state.step(step)
            self._state.effects.append(Reservation(client, client.session.window.given + RESERVE))

    def save_group(self, group: Group) -> None:
        """Store how far a group has come with the open batch."""
        step = _group_step(group)
        if step is not None:
            self._state.step(step)

    def _client_step(self, client: BrokerClient) -> KeepProgress | None:
        """None if its queue does not outlive the broker."""
        sent = client.queue.sent()
        if sent is None:
            return None
        window = client.session.window
        writer = ProgressWriter()
        window.write_entries(writer, client.stored_groups())
        for entry in client.queue.sent_before():
            writer.add(entry.packet_id, entry.qos, entry.shard, entry.position_us)
        self._save_retained(client)
        return KeepProgress(client.session.client_id, sent, writer.record(sent, window.reservation()))

    def _save_retained(self, client: BrokerClient) -> None:
        """How far the retained messages of a client were sent goes with the progress of its session."""
        client_id = client.session.client_id
        # One at a time moves. One that had to wait in between has its place stored already, or is the first.
        delivery = client.next_retained()
        if delivery is not None and delivery.stored and delivery.moved():
            self._state.step(KeepRetainedProgress(client_id, delivery.record.filter.raw, delivery.whole_progress()))
        if client.ended_retained is not None:
            for raw in client.ended_retained:
                self._state.step(DropRetainedProgress(client_id, raw))
            client.ended_retained = None


def _group_step(group: Group) -> KeepProgress | None:
    """How far it has given out its messages, and what of that is open: in flight to a member, or waits for one."""
    backlog = group.backlog
    sent = backlog.sent()
    if sent is None:
        return None
    before = backlog.given_out() if isinstance(backlog, LogQueue) else None
    if before is None:
        writer = GroupProgressWriter(sent)
    else:
        # After a restart, until it has read again what it had given out: what lies ahead is still known.
        up_to = {shard: max(sent.get(shard, 0), before.up_to.get(shard, 0)) for shard in {**sent, **before.up_to}}
        writer = GroupProgressWriter(up_to)
        for shard, position_us in before.unacknowledged:
            if position_us > sent.get(shard, 0):
                writer.add(shard, position_us)
    for owed in group.held:
        writer.add(owed.message.shard, owed.message.position_us)
    for member in group.members.values():
        member.client.session.window.write_unacknowledged(group.key, writer)
    return KeepProgress(group.stored_as, writer.sent, writer.record())
