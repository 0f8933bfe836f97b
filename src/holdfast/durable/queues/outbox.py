"""The outbox: messages on their way to external queues.

A message for such queues is stored with everything else that belongs to its commit, and removed when the queues have
it. So a crash in between loses nothing: what is left over is given to the queues again, under its old number, which
they know. The same way a queue that is to be removed is noted with the end of its session.

    commit: message, session steps, OutboxRecord ─▶ receipt ─▶ queues ─▶ PUBACK ─▶ … ─▶ OutboxDone, in a later commit
    commit: DropSession, QueueDrop               ─▶ receipt ─▶ store.drop       ─▶ … ─▶ OutboxDone, in a later commit
"""

from typing import Final, Protocol

from holdfast.model.message import Message
from holdfast.model.owed import Owed


class OutboxChange:
    """One change of the outbox. Its number is its place there: given out once, increasing, also over crashes."""

    def __init__(self, number: int) -> None:
        self.number: Final = number


class OutboxRecord(OutboxChange):
    """A message, and how each of its clients is to get it."""

    def __init__(self, number: int, message: Message, targets: list[tuple[str, Owed]]) -> None:
        super().__init__(number)
        self.message: Final = message
        self.targets: Final = targets


class QueueDrop(OutboxChange):
    """A session has ended: its queue goes."""

    def __init__(self, number: int, backend: str, client_id: str) -> None:
        super().__init__(number)
        self.backend: Final = backend
        self.client_id: Final = client_id


class OutboxDone(OutboxChange):
    """What this number stands for is done."""


class OutboxStore(Protocol):
    """What the last run of the broker has left."""

    def ceiling(self) -> int:
        """No number above it was given out."""

    def leftover(self) -> list[OutboxChange]:
        """What was not done, in the order of its numbers."""


class MemoryOutbox(OutboxStore):
    """Keeps nothing. Survives: nothing."""

    def ceiling(self) -> int:
        return 0

    def leftover(self) -> list[OutboxChange]:
        return []
