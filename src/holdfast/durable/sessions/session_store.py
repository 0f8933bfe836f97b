"""Sessions as they are stored: small records, so that a step rewrites one of them and not the session.

    session         expiry, connected or since when not, will
    subscription    one per filter
    in flight       one per outgoing QoS 2 packet id: stored before its PUBLISH is sent; and per message of a lake
    incoming        one per QoS 2 packet id that was taken and not released: stored with its message
    progress        how far it was sent its messages; soon, but no acknowledgement waits for it
    retained        one per subscription whose retained messages are being sent: stored with the subscription

A session is changed by steps. Steps go into the open batch, together with the messages that caused them, and
are stored when it is: there is no other way to write. Sessions that end with their connection leave no steps,
except for a will, which has to outlive the broker.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from holdfast.model.errors import MisuseError
from holdfast.model.message import ArchivedMessage, Message
from holdfast.model.owed import Owed
from holdfast.records.session.assignments import DoneAssignments
from holdfast.records.session.groups import GroupRecord
from holdfast.records.session.progress import Progress, decode_progress, encode_progress
from holdfast.records.session.retained_progress import RetainedProgress
from holdfast.records.session.session_record import SessionRecord
from holdfast.records.session.sessions import ReplayProgress
from holdfast.topics.subscription import SubscriptionRecord


class StoredSession:
    """A session as it was stored last."""

    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.subscriptions: Final[dict[bytes, SubscriptionRecord]] = {}
        #: Outgoing QoS 2 and what came from a lake, by packet id, in the order of sending; and the packet ids of those
        #: that PUBREC has come for.
        self.inflight: Final[dict[int, Owed]] = {}
        #: No one of them has a greater place in the order of sending.
        self.last_order = 0
        self.released: Final[set[int]] = set()
        self.incoming: Final[set[int]] = set()
        self.progress: Progress | None = None
        #: Replays that were begun, by filter.
        self.replays: Final[dict[bytes, ReplayProgress]] = {}
        #: Retained messages that are owed to subscriptions, by filter.
        self.retained: Final[dict[bytes, RetainedProgress]] = {}
        #: Of a group: what holds for all its members, None if it was stored by an earlier version.
        self.group: GroupRecord | None = None
        #: Of a group: members that have a stored session, or had one.
        self.members: Final[set[str]] = set()
        #: In a cluster, by the vnode of groups: which of their assignments are done.
        self.assignments: Final[dict[int, DoneAssignments]] = {}
        #: QoS 2 messages above the progress that are done, as (shard, position).
        self.done: Final[set[tuple[int, int]]] = set()
        #: Messages of the progress's QoS 1 entries, by packet id, as far as they are still there; of a retained one, as
        #: far as it is the one that was sent.
        self.unacknowledged: Final[dict[int, Message]] = {}
        #: What is to be written so that nothing is kept of messages in flight that were erased.
        self.erased: Final[list[SessionStep]] = []
        #: Reads at most so many more records into it. None if all are here: before, only the record itself is to be
        #: relied on.
        self.load_on: Callable[[int], None] | None = None


class StoredShares(NamedTuple):
    """What is stored of a session that groups of a cluster ask for. Nothing of it is looked up in the log."""

    record: SessionRecord
    #: Its subscriptions in groups.
    subscriptions: list[SubscriptionRecord]
    assignments: dict[int, DoneAssignments]


# ---- steps


class SessionStep:
    """One change of one session."""

    def __init__(self, client_id: str) -> None:
        self.client_id: Final = client_id


class KeepSession(SessionStep):
    """Store the session itself; what it has stays. `before` is the record that it replaces, if there is one."""

    def __init__(self, client_id: str, record: SessionRecord, before: SessionRecord | None) -> None:
        super().__init__(client_id)
        self.record: Final = record
        self.before: Final = before


class DropSession(SessionStep):
    """Everything of the session goes, with the record `before`."""

    def __init__(self, client_id: str, before: SessionRecord) -> None:
        super().__init__(client_id)
        self.before: Final = before


class KeepProgress(SessionStep):
    """Store how far the session has come: a progress in its stored form, and the positions in it."""

    def __init__(self, client_id: str, sent: dict[int, int], value: bytes) -> None:
        super().__init__(client_id)
        self.sent: Final = sent
        self.value: Final = value


def keep_progress(client_id: str, progress: Progress) -> KeepProgress:
    return KeepProgress(client_id, progress.sent, encode_progress(progress))


class KeepSubscription(SessionStep):
    """Add or replace a subscription."""

    def __init__(self, client_id: str, record: SubscriptionRecord) -> None:
        super().__init__(client_id)
        self.record: Final = record


class DropSubscription(SessionStep):
    """Remove a subscription."""

    def __init__(self, client_id: str, raw: bytes) -> None:
        super().__init__(client_id)
        self.raw: Final = raw


class KeepReplay(SessionStep):
    """Store how far the replay of a subscription is; it goes with the subscription."""

    def __init__(self, client_id: str, raw: bytes, progress: ReplayProgress) -> None:
        super().__init__(client_id)
        self.raw: Final = raw
        self.progress: Final = progress


class KeepRetainedProgress(SessionStep):
    """Store how far the retained messages of a subscription were sent; it goes with the subscription."""

    def __init__(self, client_id: str, raw: bytes, progress: RetainedProgress) -> None:
        super().__init__(client_id)
        self.raw: Final = raw
        self.progress: Final = progress


class DropRetainedProgress(SessionStep):
    """No retained message is owed to a subscription any more."""

    def __init__(self, client_id: str, raw: bytes) -> None:
        super().__init__(client_id)
        self.raw: Final = raw


class KeepGroup(SessionStep):
    """Store what holds for all members of a group, which is stored as a session is."""

    def __init__(self, client_id: str, record: GroupRecord) -> None:
        super().__init__(client_id)
        self.record: Final = record


class KeepMember(SessionStep):
    """A client whose session is stored is a member of a group."""

    def __init__(self, client_id: str, member: str) -> None:
        super().__init__(client_id)
        self.member: Final = member


class DropMember(SessionStep):
    """A client is no member of a group any more."""

    def __init__(self, client_id: str, member: str) -> None:
        super().__init__(client_id)
        self.member: Final = member


class KeepAssignments(SessionStep):
    """Store which assignments of the groups of one vnode are done, in a cluster."""

    def __init__(self, client_id: str, row: DoneAssignments) -> None:
        super().__init__(client_id)
        self.row: Final = row


class PacketStep(SessionStep):
    """A step that concerns one packet id."""

    def __init__(self, client_id: str, packet_id: int) -> None:
        super().__init__(client_id)
        self.packet_id: Final = packet_id


class KeepInflight(PacketStep):
    """A QoS 2 message, or one of a lake, is about to be sent. `order` is its place in the order of sending."""

    def __init__(self, client_id: str, packet_id: int, owed: Owed, order: int) -> None:
        super().__init__(client_id, packet_id)
        self.owed: Final = owed
        self.order: Final = order


class ReleaseInflight(PacketStep):
    """PUBREC came: from now on PUBREL is what is sent again."""


class DropInflight(PacketStep):
    """It is done, and so is its place in the log, if it has one: whatever the progress says, it is not sent again."""

    def __init__(self, client_id: str, packet_id: int, shard: int, position_us: int) -> None:
        super().__init__(client_id, packet_id)
        self.shard: Final = shard
        self.position_us: Final = position_us


class KeepIncoming(PacketStep):
    """A QoS 2 message was taken under this packet id."""


class DropIncoming(PacketStep):
    """PUBREL came: the packet id may be used again."""


class SessionStore(Protocol):
    """Sessions, as of the last batch that was written.

    1. A subscription, an entry in flight or an incoming id belongs to a session that is stored.
    """

    def record(self, client_id: str) -> SessionRecord | None:
        """The session alone, without what it has: what deciding about it needs."""

    def load(self, client_id: str, limit: int = 0) -> StoredSession | None:
        """The session of a client id; None if none is stored. The caller may keep and change what it gets.

        With a `limit` a store may stop after so many records: then `load_on` reads the next ones.
        Requires: no step of the session is written between.
        """

    def expiring(self, before_us: int, limit: int) -> list[str]:
        """Client ids of sessions without a connection that end before a moment, soonest first."""

    def connected(self, after: str, limit: int) -> list[str]:
        """Client ids above `after` of sessions that are stored as connected, in order: who was here at a crash."""

    def with_external_queue(self, after: str, limit: int) -> list[str]:
        """Client ids above `after` of sessions with an external queue, in order."""

    def waiting_wills(self, after_us: int, after: str, limit: int) -> list[tuple[int, str]]:
        """When wills of sessions without a connection are due, and whose; above (after_us, after), in order."""

    def count(self) -> int:
        """How many are stored."""


class MemorySessions(SessionStore):
    """Sessions in memory. Also the model that the other stores are tested against.

    Survives: the broker object, not the process.
    """

    def __init__(self) -> None:
        self._sessions: Final[dict[str, StoredSession]] = {}

    def apply(self, steps: Sequence[SessionStep]) -> None:
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
        elif isinstance(step, KeepAssignments):
            session.assignments[step.row.vnode] = step.row
        elif isinstance(step, KeepInflight):
            session.inflight[step.packet_id] = step.owed
            session.last_order = max(session.last_order, step.order)
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
            session.progress = decode_progress(step.value)
            sent = step.sent
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
        copy.last_order = stored.last_order
        copy.released.update(stored.released)
        copy.incoming.update(stored.incoming)
        copy.progress = stored.progress
        copy.done.update(stored.done)
        copy.replays.update(stored.replays)
        copy.retained.update(stored.retained)
        copy.group = stored.group
        copy.members.update(stored.members)
        copy.assignments.update(stored.assignments)
        return copy

    def shares(self, client_id: str) -> StoredShares | None:
        """What groups of a cluster ask for; None if no session is stored."""
        stored = self._sessions.get(client_id)
        if stored is None:
            return None
        subscriptions = [record for record in stored.subscriptions.values() if record.filter.group]
        return StoredShares(stored.record, subscriptions, dict(stored.assignments))

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
            kept = session.inflight.values()
            assert all(owed.qos == 2 or isinstance(owed.message, ArchivedMessage) for owed in kept)
            assert all(record.filter.raw == raw for raw, record in session.subscriptions.items())
