"""Commits: many changes, one write, one sync, one receipt.

What must be durable before it is acknowledged or delivered goes into the open batch. When the batch is written and
synced, its receipt comes back; acknowledgements and deliveries that wait for it may leave then, and not before. The
order of events is the same without a disk.
"""

from collections.abc import Callable
from typing import Final, Protocol

from holdfast.control.metrics import DURATION_BOUNDS, MESSAGE_BOUNDS
from holdfast.durable.queues.outbox import OutboxChange
from holdfast.durable.sessions.session_store import KeepProgress, MemorySessions, SessionStep
from holdfast.model.histogram import HistogramCounts
from holdfast.model.message import Message

#: The sessions that a log of one node rejects.
NO_SESSIONS: Final[frozenset[str]] = frozenset()
#: The vnodes of a receipt whose number says all.
ONE_VNODE: Final[tuple[int, ...]] = ()


class Receipt:
    """Proof that every batch up to `number` has reached the medium. Only a commit log makes one.

    Where the log decides, each vnode is decided by itself: `by_vnode` has for each of them the batch up to which
    everything of its sessions is decided, and `number` is the lowest of these.

    Sessions that are `fenced` are owned by another channel: of the batches that this receipt covers and the one before
    it does not, nothing counts for them, messages that they published included.
    """

    def __init__(
        self, number: int, fenced: frozenset[str] = NO_SESSIONS, by_vnode: tuple[int, ...] = ONE_VNODE
    ) -> None:
        self.number: Final = number
        self.fenced: Final = fenced
        self.by_vnode: Final = by_vnode


class MessageIds:
    """What is decided together with a message where the log decides (`CommitLog`): apart, either could count alone."""

    def __init__(self, packet_id: int, number: int, user: str | None) -> None:
        #: Under which a stored session has taken it with QoS 2; 0 for none.
        self.packet_id: Final = packet_id
        #: That its client gave it, for itself or for its user; -1 for none.
        self.number: Final = number
        self.user: Final = user


class Batch:
    """Changes that are committed together, in the order in which they happened.

    1. Numbers of batches are dense and increasing.
    2. The contents stay until the receipt, so that a write that was refused can be tried again.
    """

    def __init__(self, number: int) -> None:
        self.number: Final = number
        #: Messages to be stored, and of them those that replace the retained one of their topic.
        self.messages: Final[list[Message]] = []
        self.retained: Final[list[Message]] = []
        #: By index in `messages`, if the log decides.
        self.ids: Final[dict[int, MessageIds]] = {}
        #: Changes of sessions.
        self.steps: Final[list[SessionStep]] = []
        #: The progress of sessions that the batch takes along, as of its end: it follows the steps. It counts for
        #: nothing, and nothing waits for it, so it needs no sync for its own sake.
        self.progress: Final[list[KeepProgress]] = []
        #: The last number of each client that numbers its messages.
        self.numbers: Final[dict[str, int]] = {}
        #: Messages on their way to queues outside the log, and what has become of earlier ones.
        self.outbox: Final[list[OutboxChange]] = []
        #: The time by which its messages get their positions; 0 for the time at which the log takes it.
        self.time_us = 0
        #: Whether its receipt needs a sync, whatever its messages need; the log's companions say so.
        self.strict = False
        #: Whether its sync may wait until the one that is under way has ended, and then for what is written by then.
        self.patient = False
        #: The last position that its messages got in each shard; the log fills it in.
        self.ends: Final[dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self.messages) + len(self.retained) + len(self.steps) + len(self.outbox)


class SyncCounts:
    """How often a log was synced on each thread, how long that took, and the longest that the loop stood still."""

    def __init__(self) -> None:
        self.on_loop = 0
        self.on_thread = 0
        self.longest_on_loop_us = 0
        self.seconds: Final = HistogramCounts(DURATION_BOUNDS)


class CommitCounts:
    """What commits took, from the write of a batch to its receipt, and how many messages they had."""

    def __init__(self) -> None:
        self.seconds: Final = HistogramCounts(DURATION_BOUNDS)
        self.messages: Final = HistogramCounts(MESSAGE_BOUNDS)


class SegmentCounts:
    """What becomes of commit pages, in a log that makes segments of them."""

    def __init__(self) -> None:
        #: Segments made since the start.
        self.made = 0
        #: Messages that are in no segment yet.
        self.waiting = 0
        #: The same by zone; None until they are counted.
        self.by_zone: dict[str, int] | None = None
        #: Stretches of commit pages that could not be read, and stay as they are.
        self.unreadable = 0


class CommitLog(Protocol):
    """Where batches go.

    In a cluster the log **decides**: whether a batch counts, the order of the messages of all nodes, when a session
    ends and when a will is published. A receipt then only acknowledges, vnode by vnode; messages are delivered when the
    log hands them out.
    """

    def write(self, batch: Batch) -> Receipt | None:
        """Take a batch.

        Requires: batches come in the order of their numbers.
        Ensures: a receipt that covers it is returned now, or handed to the owner later, in order.
        Survives: what the implementation says; of a batch all or nothing.
        """

    def busy(self) -> bool:
        """Whether a batch that is written now has to wait for a sync that cannot begin yet: it may as well grow."""


class DecidingLog(Protocol):
    """The log of a cluster, which decides, as the broker asks it."""

    def vnode_count(self) -> int:
        """How many vnodes its receipts tell apart."""

    def attach(
        self,
        write_open: Callable[[], None],
        deliver: Callable[[list[Message]], None],
        replaced: Callable[[str, tuple[int, int, int]], None],
        seen: Callable[[tuple[int, int, int]], None],
    ) -> None:
        """Say where decisions go, on the loop: messages to be delivered, channels that a claim has replaced, and the
        versions of channels of all nodes.

        A channel is named by its session id, and by node, epoch and connection. `write_open` writes the open batch:
        what is in it belongs to the channels that own their sessions now.
        """

    async def has_all_of(self, session_id: str) -> bool:
        """Wait until every message that a stored session names is applied here; False if that takes too long.

        Requires: the session is owned here, so that no other node goes on with it.
        """

    def revision_of(self, session_id: str) -> int:
        """The revision of the claim by which a session is owned here; 0 if it is not."""

    def has_replaced(self, session_id: str) -> bool:
        """Whether the claim by which a session is owned here ended a channel that was connected, at any node."""


class MemoryLog(CommitLog):
    """Keeps no message, hands steps on to the sessions, and gives its receipt at once. Survives: nothing."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions: Final = sessions

    def write(self, batch: Batch) -> Receipt | None:
        if batch.steps:
            self._sessions.apply(batch.steps)
        if batch.progress:
            self._sessions.apply(batch.progress)
        return Receipt(batch.number)

    def busy(self) -> bool:
        return False
