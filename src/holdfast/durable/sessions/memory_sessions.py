"""Sessions in memory, and the commit log that changes them. Also the model that the other stores are tested against."""

import heapq
from typing import Final

from holdfast.durable.commit import Batch, CommitLog, Receipt
from holdfast.durable.sessions.session_store import (
    DropIncoming,
    DropInflight,
    DropMember,
    DropRetainedProgress,
    DropSession,
    DropSubscription,
    KeepGroup,
    KeepIncoming,
    KeepInflight,
    KeepMember,
    KeepProgress,
    KeepReplay,
    KeepRetainedProgress,
    KeepSession,
    KeepSubscription,
    ReleaseInflight,
    SessionStep,
    SessionStore,
    StoredSession,
)
from holdfast.model.errors import MisuseError
from holdfast.records.session_record import SessionRecord


class MemorySessions(SessionStore):
    """Survives: the broker object, not the process."""

    def __init__(self) -> None:
        self._sessions: Final[dict[str, StoredSession]] = {}

    def apply(self, steps: list[SessionStep]) -> None:
        """Carry out steps in order. Steps of a session that is not stored are harmless: it has ended."""
        for step in steps:
            self._apply(step)

    def _apply(self, step: SessionStep) -> None:
        session = self._sessions.get(step.client_id)
        if isinstance(step, KeepSession):
            if session is None:
                self._sessions[step.client_id] = StoredSession(step.record)
            else:
                session.record = step.record
        elif session is None:
            return
        elif isinstance(step, DropSession):
            del self._sessions[step.client_id]
        elif isinstance(step, KeepSubscription):
            session.subscriptions[step.record.filter.raw] = step.record
        elif isinstance(step, DropSubscription):
            session.subscriptions.pop(step.raw, None)
            session.replays.pop(step.raw, None)
            session.retained.pop(step.raw, None)
        elif isinstance(step, KeepReplay):
            session.replays[step.raw] = step.progress
        elif isinstance(step, KeepRetainedProgress):
            session.retained[step.raw] = step.progress
        elif isinstance(step, DropRetainedProgress):
            session.retained.pop(step.raw, None)
        elif isinstance(step, KeepGroup):
            session.group = step.record
        elif isinstance(step, KeepMember):
            session.members.add(step.member)
        elif isinstance(step, DropMember):
            session.members.discard(step.member)
        elif isinstance(step, KeepInflight):
            session.inflight[step.packet_id] = step.owed
        elif isinstance(step, ReleaseInflight):
            session.released.add(step.packet_id)
        elif isinstance(step, DropInflight):
            session.inflight.pop(step.packet_id, None)
            session.released.discard(step.packet_id)
            if step.position_us:
                session.done.add((step.shard, step.position_us))
        elif isinstance(step, KeepIncoming):
            session.incoming.add(step.packet_id)
        elif isinstance(step, DropIncoming):
            session.incoming.discard(step.packet_id)
        elif isinstance(step, KeepProgress):
            session.progress = step.progress
            sent = step.progress.sent
            session.done.difference_update([place for place in session.done if place[1] <= sent.get(place[0], 0)])
        else:
            raise MisuseError(f"{type(step).__name__} is no step that can be stored")

    def record(self, client_id: str) -> SessionRecord | None:
        stored = self._sessions.get(client_id)
        return None if stored is None else stored.record

    def load(self, client_id: str, limit: int = 0) -> StoredSession | None:  # noqa: ARG002 - all of it is at hand
        stored = self._sessions.get(client_id)
        if stored is None:
            return None
        copy = StoredSession(stored.record)
        copy.subscriptions.update(stored.subscriptions)
        copy.inflight.update(stored.inflight)
        copy.released.update(stored.released)
        copy.incoming.update(stored.incoming)
        copy.progress = stored.progress
        copy.done.update(stored.done)
        copy.replays.update(stored.replays)
        copy.retained.update(stored.retained)
        copy.group = stored.group
        copy.members.update(stored.members)
        return copy

    def expiring(self, before_us: int, limit: int) -> list[str]:
        found: list[tuple[int, str]] = []
        for client_id, session in self._sessions.items():
            ends_us = session.record.ends_us()
            if 0 <= ends_us < before_us:
                found.append((ends_us, client_id))
        return [client_id for _ends_us, client_id in heapq.nsmallest(limit, found)]

    def connected(self, after: str, limit: int) -> list[str]:
        here = [
            client_id
            for client_id, session in self._sessions.items()
            if client_id > after and not session.record.disconnected_us
        ]
        return heapq.nsmallest(limit, here)

    def with_external_queue(self, after: str, limit: int) -> list[str]:
        found = [client_id for client_id, session in self._sessions.items() if session.record.queue]
        return heapq.nsmallest(limit, [client_id for client_id in found if client_id > after])

    def waiting_wills(self, after_us: int, after: str, limit: int) -> list[tuple[int, str]]:
        found = [(session.record.will_due_us(), client_id) for client_id, session in self._sessions.items()]
        return heapq.nsmallest(limit, [entry for entry in found if entry[0] >= 0 and entry > (after_us, after)])

    def count(self) -> int:
        return len(self._sessions)

    def check_invariants(self) -> None:
        for session in self._sessions.values():
            assert session.released <= session.inflight.keys()
            assert all(owed.qos == 2 for owed in session.inflight.values())
            assert all(record.filter.raw == raw for raw, record in session.subscriptions.items())


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
