"""A commit log in memory."""

from typing import Final

from holdfast.durable.commit import Batch, CommitLog, Receipt
from holdfast.durable.sessions.memory_sessions import MemorySessions


class MemoryLog(CommitLog):
    """Keeps no message, hands steps on to the sessions, and gives its receipt at once. Survives: nothing."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions: Final = sessions

    def write(self, batch: Batch) -> Receipt | None:
        if batch.steps:
            self._sessions.apply(batch.steps)
        return Receipt(batch.number)

    def busy(self) -> bool:
        return False
