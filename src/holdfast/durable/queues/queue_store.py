"""The contract of a queue backend: external queues of many clients, in files, in Redis, in PostgreSQL.

A queue belongs to one client. The node that serves the client is the only one that appends to it and reads it; other
programs may look. Every call may take as long as a disk or a network does, so all of them are awaited, and appending
takes what has gathered for many clients at once.

    client id of at least one character, without U+0000
    number    given by the node, increasing over all queues and over restarts: the same message has the same number
    serial    given by the queue, dense and increasing in it: a message's place

Numbers make appending idempotent: what a queue was given already is not stored again, so a node that does not know
whether an append arrived says it again.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.time import SECOND_US

#: What to do with a message that a queue has no room for.
DROP_OLDEST: Final = "drop_oldest"
REFUSE: Final = "refuse"
#: … whatever its limits: for copies of whole queues, and for the notice that a queue is full.
TAKE: Final = "take"


class QueueLimits:
    """How much a client's queue may hold. They concern what waits, and are looked at when something is appended."""

    def __init__(self, max_messages: int, max_bytes: int, ttl_s: int = 0, *, on_full: str = DROP_OLDEST) -> None:
        #: 0 stores nothing.
        self.max_messages: Final = max_messages
        self.max_bytes: Final = max_bytes
        #: How long messages are kept without an expiry, in seconds from when they came; 0 for ever.
        self.ttl_s: Final = ttl_s
        self.on_full: Final = on_full

    def expiry_us(self, message: Message, own_us: int) -> int:
        """When a message with its own expiry, or 0 for none, leaves the queue; 0 for never.

        It counts from when the message came: appended again after a crash, it is no younger.
        """
        if own_us or not self.ttl_s:
            return own_us
        return message.received_us + self.ttl_s * SECOND_US


#: For what is taken whatever a queue holds; it leaves a full queue full.
NO_LIMITS: Final = QueueLimits(1 << 40, 1 << 50, on_full=TAKE)


class QueueEntry:
    """A message in a client's queue.

    1. `owed.serial` is its place; 0 before it was appended.
    2. `expires_us` is the message's own expiry, or the queue's; 0 for never.
    """

    def __init__(self, number: int, owed: Owed, expires_us: int = 0, *, released: bool = False) -> None:
        self.number: Final = number
        self.owed: Final = owed
        self.expires_us: Final = expires_us
        #: PUBREC has come: what is owed is PUBREL alone.
        self.released: Final = released

    @property
    def message(self) -> Message:
        return self.owed.message

    def expired(self, now_us: int) -> bool:
        return 0 < self.expires_us <= now_us

    def __repr__(self) -> str:
        return f"Entry({self.number}, {self.owed!r})"


class AppendBatch:
    """What one client's queue is to be given, in order."""

    def __init__(self, client_id: str, entries: list[QueueEntry], limits: QueueLimits) -> None:
        self.client_id: Final = client_id
        self.entries: Final = entries
        self.limits: Final = limits


class Appended:
    """What became of a batch."""

    def __init__(self, serials: list[int], dropped: int, refused: int) -> None:
        #: The place of each entry, in the order of the batch; 0 if it was not stored, or is not there any more.
        self.serials: Final = serials
        #: How many older messages had to go.
        self.dropped: Final = dropped
        #: How many of the batch were not taken: the queue is full, and stays so until it has been read to its end.
        self.refused: Final = refused


class QueueSize:
    """What a queue holds, with what is in flight."""

    def __init__(self, messages: int, size_bytes: int) -> None:
        self.messages: Final = messages
        self.size_bytes: Final = size_bytes


class AppendableQueues(Protocol):
    """The queues of all clients that are kept in one place. Classes match it by shape.

    1. A batch is appended whole or not at all, and batches of one client in the order in which they are given.
    2. When `append` has returned for a batch, it survives what the store's settings say that it survives.
    3. Serials of a queue are increasing and never used again, also when it was emptied; only `drop` forgets them.
    4. An entry whose number is not above the last one that its queue was given is not stored again.
    5. What is expired is never read, and does not count toward limits.
    6. TransientError: the store is away or too slow; what was asked may have happened or not, and may be asked again.
       PermanentError: this queue cannot be read (and is set aside); others are not concerned.
    """

    async def append(self, batches: list[AppendBatch]) -> list[Appended | Exception]:
        """Give queues their messages: one answer for each batch, in order. No client has two batches in a call."""

    async def read(self, client_id: str, after: int, limit: int) -> list[QueueEntry]:
        """At most `limit` entries whose serial is above `after`, in order; fewer only at the end of the queue."""

    async def acknowledge(self, done: list[tuple[str, list[int]]]) -> None:
        """Forget entries of clients, by their serials; unknown ones are harmless."""

    async def release(self, client_id: str, serials: list[int]) -> None:
        """PUBREC came: keep the entries, with the expiry they have, as released. Unknown ones are harmless."""

    async def last(self, client_id: str) -> tuple[int, int]:
        """The last serial given out and the last number taken; 0 and 0 for a queue that is not there."""

    async def drop(self, client_ids: list[str]) -> None:
        """Sessions have ended: remove everything of them."""

    async def sweep(self, now_us: int) -> int:
        """Remove what has expired, a bounded part of it; how many messages went. Called now and then."""


class QueueStore(AppendableQueues, Protocol):
    """… and what a node and commands ask of them besides."""

    async def size(self, client_id: str) -> QueueSize:
        """What a queue holds now."""

    def clients(self) -> AsyncIterator[str]:
        """All clients that have a queue here, in no order; those that come and go meanwhile may be left out."""

    async def close(self) -> None:
        """Ensures: whatever was appended is as safe as the settings say."""
