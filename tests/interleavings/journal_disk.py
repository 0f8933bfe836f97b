"""A disk in memory that forgets what was not synced: for stories that are told thousands of times.

What the broker writes is a journal of batches. A kill keeps a prefix of it: all that has a receipt, and as much of the
rest as the story chooses. The next life is built from what was kept, as a database would be from its WAL.

The real log stands behind the same stories in `test_on_rocksdb.py`.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Post, Stores
from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.positions import ShardClock
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.queues.owed_rule import OwedRule
from holdfast.durable.retained.memory_retained import MemoryRetained
from holdfast.durable.sessions.session_store import MemorySessions, StoredSession
from holdfast.durable.takeover.registry import MemoryRegistry
from holdfast.model.clock import Clock
from holdfast.model.message import Message
from holdfast.topics.filters import levels_match
from holdfast.topics.subscription import SubscriptionRecord
from tests.interleavings.orders import Choose

_SHARD: Final = 1
#: Messages that a walk looks at before it pauses: few, so that it does.
_STRETCH: Final = 2


class _Entry:
    """A batch in the journal, and the ceiling that it carries; 0 for none."""

    def __init__(self, batch: Batch, ceiling_us: int) -> None:
        self.batch: Final = batch
        self.ceiling_us: Final = ceiling_us
        #: Whether its receipt needs a sync: what changes nothing is not written.
        self.strict: Final = len(batch) > 0


class JournalDisk:
    """`patient`: the broker does not write while a sync is under way, as with the real log."""

    def __init__(self, *, patient: bool) -> None:
        self.patient: Final = patient
        #: Receipts come at once, or one by one when the story says so.
        self.held = False
        self._kept: list[_Entry] = []
        self._life = _Life(self)

    def open(self, policy: Policy, clock: Clock) -> Stores:
        """Begin a life with what is kept."""
        self._life = _Life(self)
        self._life.load(self._kept, clock)
        return self._life.stores(policy)

    def unsynced(self) -> int:
        """Batches that wait for their sync."""
        return sum(entry.strict for entry in self._life.awaiting)

    def sync(self) -> None:
        """Sync the oldest batch that waits: its receipt is on its way to the broker."""
        self._life.sync_one()

    def kill(self, choose: Choose) -> None:
        """The process is gone, and with it a part of what was not synced: none, some, all."""
        life = self._life
        synced = len(life.journal) - len(life.awaiting)
        self._kept = self._kept + life.journal[: synced + choose(len(life.awaiting) + 1)]

    def close(self) -> None:
        """Nothing to let go of."""


class _Life:
    """The stores of one run of the broker. A `CommitLog` and a `MessageLog` by shape."""

    def __init__(self, disk: JournalDisk) -> None:
        self._disk: Final = disk
        self._sessions: Final = _Sessions(self)
        self._delivered: Final[dict[int, int]] = {}
        #: What this life has written, and the end of it that has no receipt.
        self.journal: Final[list[_Entry]] = []
        self.awaiting: Final[deque[_Entry]] = deque()
        self.messages: Final[list[Message]] = []
        self.head_us = 0
        self._number = 0

    def load(self, kept: list[_Entry], clock: Clock) -> None:
        self._clock = clock
        ceiling_us = 0
        for entry in kept:
            self._sessions.apply([*entry.batch.steps, *entry.batch.progress])
            self.messages.extend(entry.batch.messages)
            ceiling_us = max(ceiling_us, entry.ceiling_us)
        self.head_us = self.messages[-1].position_us if self.messages else 0
        self._shard_clock = ShardClock(ceiling_us, self.head_us)
        self._delivered[_SHARD] = self.head_us

    def stores(self, policy: Policy) -> Stores:
        def queue(session_id: str, subscriptions: dict[bytes, SubscriptionRecord]) -> LogQueue:
            return self._queue(policy, session_id, subscriptions, NO_END, history=False)

        def replay(session_id: str, record: SubscriptionRecord, until_us: int) -> LogQueue:
            found = self._queue(policy, session_id, {record.filter.raw: record}, until_us, history=True)
            found.continue_from({}, set(), {})
            return found

        return Stores(
            log=self,
            retained=MemoryRetained(),
            sessions=self._sessions,
            registry=MemoryRegistry(),
            new_queue=queue,
            attach=self._attach,
            new_replay=replay,
            stores_all=True,
            delivered=self._delivered,
        )

    def _queue(
        self,
        policy: Policy,
        session_id: str,
        subscriptions: dict[bytes, SubscriptionRecord],
        until_us: int,
        *,
        history: bool,
    ) -> LogQueue:
        return LogQueue(
            self,
            self._delivered,
            OwedRule(session_id, subscriptions, upgrade_qos=False, with_qos0=history),
            lambda: MemoryQueue(policy.sessions.max_queued_messages, policy.sessions.max_queued_bytes),
            _nothing_is_lost,
            until_us,
        )

    # ---- writing

    def _attach(self, post: Post, on_receipt: Callable[[Receipt], None]) -> None:
        self._post = post
        self._on_receipt = on_receipt

    def write(self, batch: Batch) -> Receipt | None:
        self._number += 1
        assert batch.number == self._number
        ceiling_us = 0
        for message in batch.messages:
            message.shard = _SHARD
            message.position_us = self._shard_clock.next(self._clock.wall_us())
            batch.ends[_SHARD] = message.position_us
        if batch.messages:
            ceiling_us = self._shard_clock.wanted_ceiling(self._clock.wall_us())
        self._sessions.apply([*batch.steps, *batch.progress])
        self.messages.extend(batch.messages)
        entry = _Entry(batch, ceiling_us)
        self.journal.append(entry)
        self.awaiting.append(entry)
        if not self._disk.held:
            return self._receipt(len(self.awaiting))
        return None if self.awaiting[0].strict else self._receipt(1)

    def busy(self) -> bool:
        return self._disk.patient and bool(self.awaiting) and self.awaiting[-1].strict

    def sync_one(self) -> None:
        """Receipts go as far as the next batch that needs a sync of its own."""
        count = 1
        while count < len(self.awaiting) and not self.awaiting[count].strict:
            count += 1
        receipt = self._receipt(count)
        self._post(lambda: self._on_receipt(receipt))

    def _receipt(self, count: int) -> Receipt:
        for _entry in range(count):
            entry = self.awaiting.popleft()
            self.head_us = entry.batch.ends.get(_SHARD, self.head_us)
            self._shard_clock.raise_ceiling(entry.ceiling_us)
        return Receipt(entry.batch.number)

    # ---- reading

    def shards_for(self, _levels: tuple[bytes, ...]) -> list[int]:
        return [_SHARD]

    def heads(self) -> dict[int, int]:
        return {_SHARD: self.head_us}

    def boundary_after(self, _position_us: int) -> int:
        return NO_END

    def scan(self, _shard: int, levels: tuple[bytes, ...], from_us: int) -> "_Scan":
        return _Scan(self, levels, from_us)


class _Scan:
    """Through the messages of a life. A `ShardScan` by shape."""

    def __init__(self, life: _Life, levels: tuple[bytes, ...], from_us: int) -> None:
        self.from_us = from_us
        self.lost: list[LostRange] = []
        self._life: Final = life
        self._levels: Final = levels

    def next(self, limit: int, before_us: int) -> list[Message]:
        assert before_us - 1 <= self._life.head_us, "L20: nobody reads what is not durable"
        found: list[Message] = []
        looked_at = 0
        for message in self._life.messages:
            if not self.from_us <= message.position_us < before_us:
                continue
            if looked_at == _STRETCH or len(found) == limit:
                return found
            looked_at += 1
            self.from_us = message.position_us + 1
            if not self._levels or levels_match(self._levels, message.topic.split(b"/"), dollar=False):
                found.append(message)
        self.from_us = max(self.from_us, before_us)
        return found


class _Sessions(MemorySessions):
    """With the messages that were in flight with QoS 1, as a store beside the log finds them."""

    def __init__(self, life: _Life) -> None:
        super().__init__()
        self._life: Final = life

    def load(self, client_id: str, limit: int = 0) -> StoredSession | None:
        stored = super().load(client_id, limit)
        if stored is not None and stored.progress is not None:
            places = {message.position_us: message for message in self._life.messages}
            for entry in stored.progress.unacknowledged:
                if entry.qos == 1:
                    stored.unacknowledged[entry.packet_id] = places[entry.position_us]
        return stored


def _nothing_is_lost(_session_id: str, lost: LostRange) -> None:
    raise AssertionError(f"{lost}, though nothing was removed")
