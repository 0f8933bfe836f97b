"""Sessions on RocksDB: steps become puts and deletes of the commit that they belong to.

No step reads: each knows what it replaces. The key formats are those of `records/sessions.py`.
"""

from collections.abc import Callable, Iterator
from typing import Final

import structlog

from holdfast.durable.changes import Changes, FamilyChanges
from holdfast.durable.commit import Batch
from holdfast.durable.sessions import (
    DropIncoming,
    DropInflight,
    DropSession,
    DropSubscription,
    DropWalk,
    KeepIncoming,
    KeepInflight,
    KeepProgress,
    KeepReplay,
    KeepSession,
    KeepSubscription,
    KeepWalk,
    ReleaseInflight,
    Step,
    StoredSession,
)
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued
from holdfast.records.session_record import SessionRecord, decode_session, encode_session
from holdfast.records.sessions import (
    CONNECTED,
    DONE,
    EXPIRY,
    INCOMING,
    INFLIGHT,
    PROGRESS,
    RELEASED,
    REPLAY,
    SESSION,
    SUBSCRIPTION,
    WAITING,
    WALK,
    InflightRecord,
    StoredInflight,
    client_prefix,
    connected_after,
    connected_key,
    decode_progress,
    decode_replay,
    decode_subscription,
    done_key,
    done_place,
    encode_inflight,
    encode_progress,
    encode_replay,
    encode_subscription,
    expired_before,
    expiry_key,
    listed_client,
    outside_after,
    outside_key,
    packet_key,
    progress_key,
    replay_key,
    session_key,
    session_range,
    subscription_key,
    waiting_key,
    walk_key,
)
from holdfast.records.walks import decode_walk, encode_walk
from holdfast.storage.rocks.contents import SESSIONS, Contents
from holdfast.storage.rocks.layouts.scan import get_one, scan_items
from holdfast.topics.names import SEPARATOR

_log = structlog.get_logger()

#: The message at a place in the log that a filter matches; None if it is gone.
Find = Callable[[int, tuple[bytes, ...], int], Message | None]

#: The message that is retained under a topic, if it is the one that a change, or one before it, has left there.
FindRetained = Callable[[bytes, int], Message | None]
#: Told of a message in flight that is gone: the client, and its place in the log.
Gone = Callable[[str, int, int], None]

#: Filters that are tried one by one to find a message, before everything is looked through.
_MAX_FILTERS: Final = 8
#: In place of a message that is gone, where only its packet id is needed.
_GONE: Final = Message(b"gone", b"", 2, ClientId(""), 0)
#: Where sessions that never end stand in the list of ends.
_NEVER_US: Final = 2**64 - 1


class RocksSessions:
    """A `SessionStore`, and the `Companion` that writes it. Survives: what the log survives.

    1. Every stored session is in one of the two lists: of those with a connection, or of those that end some time.
    """

    def __init__(self, contents: Contents, find: Find, find_retained: FindRetained, gone: Gone | None = None) -> None:
        self._contents: Final = contents
        self._find: Final = find
        self._find_retained: Final = find_retained
        self._gone: Final = gone
        self._count = sum(1 for tag in (EXPIRY, CONNECTED) for _item in self._list(bytes((tag,)), bytes((tag + 1,))))
        #: Messages in flight that retention had removed when they were needed again.
        self.missing = 0

    # ---- writing

    def add(self, batch: Batch, changes: Changes) -> None:
        if batch.steps:
            puts = changes.into(SESSIONS)
            for step in batch.steps:
                self._add(step, puts)

    def _add(self, step: Step, puts: FamilyChanges) -> None:
        client_id = step.client_id
        if isinstance(step, KeepSession):
            self._unlist(client_id, step.before, puts)
            self._enlist(client_id, step.record, puts)
            self._count += step.before is None
            puts.put(session_key(client_id), encode_session(step.record))
        elif isinstance(step, DropSession):
            self._unlist(client_id, step.before, puts)
            self._count -= 1
            puts.delete_range(*session_range(client_id))
        elif isinstance(step, KeepSubscription):
            puts.put(subscription_key(client_id, step.record.filter.raw), encode_subscription(step.record))
        elif isinstance(step, DropSubscription):
            puts.delete(subscription_key(client_id, step.raw))
            puts.delete(replay_key(client_id, step.raw))
            puts.delete(walk_key(client_id, step.raw))
        elif isinstance(step, KeepReplay):
            puts.put(replay_key(client_id, step.raw), encode_replay(step.progress))
        elif isinstance(step, KeepWalk):
            puts.put(walk_key(client_id, step.raw), encode_walk(step.progress))
        elif isinstance(step, DropWalk):
            puts.delete(walk_key(client_id, step.raw))
        elif isinstance(step, KeepInflight):
            record = InflightRecord(step.owed, step.order)
            puts.put(packet_key(client_id, INFLIGHT, step.packet_id), encode_inflight(record))
        elif isinstance(step, ReleaseInflight):
            puts.put(packet_key(client_id, RELEASED, step.packet_id), b"")
        elif isinstance(step, DropInflight):
            puts.delete(packet_key(client_id, INFLIGHT, step.packet_id))
            puts.delete(packet_key(client_id, RELEASED, step.packet_id))
            if step.position_us:
                puts.put(done_key(client_id, step.shard, step.position_us), b"")
        elif isinstance(step, KeepIncoming):
            puts.put(packet_key(client_id, INCOMING, step.packet_id), b"")
        elif isinstance(step, DropIncoming):
            puts.delete(packet_key(client_id, INCOMING, step.packet_id))
        elif isinstance(step, KeepProgress):
            puts.put(progress_key(client_id), encode_progress(step.progress))
            for shard, sent_us in step.progress.sent.items():
                puts.delete_range(done_key(client_id, shard, 0), done_key(client_id, shard, max(0, sent_us) + 1))
        else:
            raise MisuseError(f"{type(step).__name__} is no step that can be stored")

    def _enlist(self, client_id: str, record: SessionRecord, puts: FamilyChanges) -> None:
        for key in _listed(client_id, record):
            puts.put(key, b"")

    def _unlist(self, client_id: str, record: SessionRecord | None, puts: FamilyChanges) -> None:
        if record is not None:
            for key in _listed(client_id, record):
                puts.delete(key)

    # ---- reading

    def record(self, client_id: str) -> SessionRecord | None:
        value = get_one(self._contents.family(SESSIONS), session_key(client_id))
        return None if value is None else decode_session(value)

    def load(self, client_id: str) -> StoredSession | None:
        prefix = client_prefix(client_id)
        lo, hi = session_range(client_id)
        at = len(prefix)
        session: StoredSession | None = None
        inflight: list[tuple[int, StoredInflight, Owed | None]] = []
        for key, value in self._list(lo, hi):
            kind = key[at]
            if kind == SESSION:
                session = StoredSession(decode_session(value))
            elif session is None:
                raise PermanentError(f"client {client_id!r} has stored records and no session")
            elif kind == SUBSCRIPTION:
                raw = key[at + 1 :]
                session.subscriptions[raw] = decode_subscription(raw, value)
            elif kind == INFLIGHT:
                inflight.append(self._inflight(_packet_id(key), value))
            elif kind == RELEASED:
                session.released.add(_packet_id(key))
            elif kind == INCOMING:
                session.incoming.add(_packet_id(key))
            elif kind == PROGRESS:
                session.progress = decode_progress(value)
            elif kind == REPLAY:
                session.replays[key[at + 1 :]] = decode_replay(value)
            elif kind == WALK:
                session.walks[key[at + 1 :]] = decode_walk(value)
            elif kind == DONE:
                session.done.add(done_place(key))
            else:
                raise PermanentError(f"client {client_id!r} has a stored record of the unknown kind {kind}")
        if session is not None:
            self._put_in_order(client_id, session, inflight)
            self._find_unacknowledged(client_id, session)
        return session

    def _find_unacknowledged(self, client_id: str, session: StoredSession) -> None:
        """Messages of QoS 1 that were sent and not acknowledged, as far as retention has left them."""
        if session.progress is None:
            return
        # The subscription may be gone; then everything is looked through.
        filters = list({record.filter.levels: None for record in session.subscriptions.values()})
        for entry in session.progress.unacknowledged:
            if entry.qos == 2 or entry.shard == QUEUE_SHARD:
                continue  # what lies in a queue comes from there
            if entry.retained is not None:
                # Gone is as it should be: what has taken its place comes as a live message.
                retained = self._find_retained(entry.retained.topic, entry.retained.newest)
                if retained is not None:
                    session.unacknowledged[entry.packet_id] = retained
                continue
            for levels in [*filters[:_MAX_FILTERS], ()]:
                message = self._find(entry.shard, levels, entry.position_us)
                if message is not None:
                    session.unacknowledged[entry.packet_id] = message
                    break
            else:
                self._miss(client_id, entry.packet_id, entry.shard, entry.position_us)

    def _inflight(self, packet_id: int, value: bytes) -> tuple[int, StoredInflight, Owed | None]:
        stored = StoredInflight(value)
        if stored.shard == QUEUE_SHARD and stored.message is not None:
            return packet_id, stored, _queued(stored, stored.message)
        levels = tuple(stored.topic.split(SEPARATOR))
        message = stored.message or self._find(stored.shard, levels, stored.position_us)
        if message is None:
            return packet_id, stored, None
        owed = Owed(message, 2, retain=stored.retain, identifiers=stored.identifiers, group=stored.group)
        return packet_id, stored, owed

    def _put_in_order(
        self, client_id: str, session: StoredSession, inflight: list[tuple[int, StoredInflight, Owed | None]]
    ) -> None:
        """Entries in the order of sending. What retention removed cannot be sent again, unless PUBREL is due."""
        for packet_id, stored, owed in sorted(inflight, key=lambda entry: entry[1].order):
            if owed is not None:
                session.inflight[packet_id] = owed
            elif packet_id in session.released:
                session.inflight[packet_id] = Owed(_GONE, 2)
            else:
                self._miss(client_id, packet_id, stored.shard, stored.position_us)

    def _miss(self, client_id: str, packet_id: int, shard: int, position_us: int) -> None:
        self.missing += 1
        _log.warning("a message in flight is gone", client=client_id, packet_id=packet_id)
        if self._gone is not None:
            self._gone(client_id, shard, position_us)

    def expiring(self, before_us: int, limit: int) -> list[str]:
        return self._clients(*expired_before(before_us), limit)

    def connected(self, after: str, limit: int) -> list[str]:
        return self._clients(*connected_after(after), limit)

    def outside(self, after: str, limit: int) -> list[str]:
        return self._clients(*outside_after(after), limit)

    def waiting_wills(self, after_us: int, after: str, limit: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        lo = waiting_key(after_us, after) + b"\x00" if after else bytes((WAITING,))
        for key, _value in self._list(lo, bytes((WAITING + 1,))):
            if len(found) == limit:
                break
            found.append((int.from_bytes(key[1:9], "big"), listed_client(key)))
        return found

    def count(self) -> int:
        return self._count

    def _clients(self, lo: bytes, hi: bytes, limit: int) -> list[str]:
        found: list[str] = []
        for key, _value in self._list(lo, hi):
            if len(found) == limit:
                break
            found.append(listed_client(key))
        return found

    def _list(self, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
        return scan_items(self._contents.family(SESSIONS), lo, hi)


def _listed(client_id: str, record: SessionRecord) -> list[bytes]:
    """The lists that a session stands in."""
    keys = [outside_key(client_id)] if record.queue else []
    if not record.disconnected_us:
        return [*keys, connected_key(client_id)]
    ends_us = record.ends_us()
    keys.append(expiry_key(_NEVER_US if ends_us < 0 else ends_us, client_id))
    due_us = record.will_due_us()
    if due_us >= 0:
        keys.append(waiting_key(due_us, client_id))
    return keys


def _queued(stored: StoredInflight, message: Message) -> Owed:
    return OwedQueued(message, 2, retain=stored.retain, identifiers=stored.identifiers, serial=stored.position_us)


def _packet_id(key: bytes) -> int:
    return key[-2] << 8 | key[-1]
