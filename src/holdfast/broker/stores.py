"""What a broker keeps its state in. `node.assembly` picks the implementations; the broker knows none of them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.broker.subscriptions.shared_subscriptions import SharedSubscriptions
from holdfast.durable.commit import CommitLog, DecidingLog, Receipt, SegmentCounts, SyncCounts
from holdfast.durable.lake_log import LakeHistory
from holdfast.durable.queues.client_queue import SessionQueue
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.durable.queues.outbox import MemoryOutbox, OutboxStore
from holdfast.durable.queues.queue_store import QueueStore
from holdfast.durable.retained.retained_store import RetainedStore, VersionedRetained
from holdfast.durable.sessions.publish_numbers import MemoryNumbers, NumberStore
from holdfast.durable.sessions.session_store import SessionStore
from holdfast.durable.takeover.registry import NodeLife, Registration, Registry
from holdfast.durable.takeover.takeover import TakeoverCounts
from holdfast.exchange.drops import Drops
from holdfast.exchange.exchange import Exchange
from holdfast.topics.subscription import SubscriptionRecord

#: Brings a call to the loop, from any thread.
Post = Callable[[Callable[[], None]], object]
#: Tells a store how to reach the loop, and where receipts go that come later than the write.
Attach = Callable[[Post, Callable[[Receipt], None]], None]
#: A new queue for a session, or for a group, with the subscriptions that it has and will have.
NewQueue = Callable[[str, dict[bytes, SubscriptionRecord]], SessionQueue]
#: The old channel, the taker.
BeginElsewhere = Callable[[Registration, Registration], Awaitable[None]]
#: History for one subscription of a session, from its start up to a moment.
NewReplay = Callable[[str, SubscriptionRecord, int], LogQueue]


class ClusterLock(Protocol):
    """A lock for each client id, anywhere in the cluster."""

    async def acquire(self, taker: Registration, patience_s: float) -> bool:
        """Whether the lock is granted within the patience. After True, `release` has to be called."""

    async def release(self, taker: Registration) -> None:
        """Give the lock back. Nothing waits for it."""


@dataclass(frozen=True)
class Stores:
    """One implementation of each contract."""

    log: CommitLog
    retained: RetainedStore
    sessions: SessionStore
    registry: Registry
    new_queue: NewQueue
    #: The same store of retained messages, if its parts are changed each by itself.
    versioned_retained: VersionedRetained | None = None
    #: The same log, if it decides (`CommitLog`).
    deciding_log: DecidingLog | None = None
    #: Stops a channel of another node for a taker; ends within a second or so. None if there are no other nodes.
    begin_elsewhere: BeginElsewhere | None = None
    #: Stands around a takeover; None if the registry needs none.
    cluster_lock: ClusterLock | None = None
    takeover_counts: TakeoverCounts = field(default_factory=TakeoverCounts)
    #: Whose channels are registered.
    life: NodeLife = field(default_factory=NodeLife)
    #: The shared subscriptions of a cluster; None if the groups of this node have their members here.
    shared: Callable[[Exchange], SharedSubscriptions] | None = None
    numbers: NumberStore = field(default_factory=MemoryNumbers)
    #: The backends of external queues, by name.
    queue_backends: Mapping[str, QueueStore] = field(default_factory=dict)
    outbox: OutboxStore = field(default_factory=MemoryOutbox)
    #: None if every receipt comes at once.
    attach: Attach | None = None
    #: None if there is no history to replay.
    new_replay: NewReplay | None = None
    #: The same log with a lake behind it, for replays; None if no lake is read.
    lake: LakeHistory | None = None
    #: Whether every message that a session may be owed is in the log.
    stores_all: bool = False
    #: Whether the log wants QoS 0 messages too.
    keeps_qos0: bool = False
    #: Whether QoS 1 messages of a topic are delivered before their commit; None if none are.
    goes_early: Callable[[bytes], bool] | None = None
    #: Where each shard of the log stood at the start; from then on, what was delivered to live clients.
    delivered: dict[int, int] = field(default_factory=dict)
    #: What the stores have lost is noted there as well.
    drops: Drops = field(default_factory=Drops)
    #: None if the log has nothing to sync.
    sync_counts: SyncCounts | None = None
    #: The segments of the log, if it has such.
    segment_counts: SegmentCounts | None = None
