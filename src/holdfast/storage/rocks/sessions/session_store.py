"""Sessions on RocksDB: steps become puts and deletes of the commit that they belong to.

Steps write point deletes, not range tombstones. RocksDB splits overlapping range tombstones into fragments when it
flushes or reads them, at a cost that is quadratic in their number: 10,000 nested ones take 7 GB and a minute. So QoS 2
records lie in slots that are used again (`packet_slots.py`), and the end of a session reads its keys. Only a session
with very many keys ends with one range tombstone. The key formats are those of `records/session/sessions.py`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Final

import structlog

from holdfast.durable.changes import Changes, FamilyChanges
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import (
    DropIncoming,
    DropInflight,
    DropMember,
    DropRetainedProgress,
    DropSession,
    DropSubscription,
    KeepAssignments,
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
    StoredSession,
    StoredShares,
)
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.owed import QUEUE_SHARD
from holdfast.records.session.assignments import assignments_key, decode_assignments, encode_assignments
from holdfast.records.session.groups import GROUP_PREFIX, decode_group, encode_group, group_key, member_key
from holdfast.records.session.progress import decode_progress
from holdfast.records.session.retained_progress import decode_retained_progress, encode_retained_progress
from holdfast.records.session.session_keys import (
    ASSIGNMENTS,
    CONNECTED,
    EXPIRY,
    GROUP,
    INCOMING,
    INFLIGHT,
    MEMBER,
    PACKET_KINDS,
    PROGRESS,
    RELEASED,
    REPLAY,
    RETAINED,
    SESSION,
    SUBSCRIPTION,
    WAITING,
    client_prefix,
    connected_after,
    connected_key,
    expired_before,
    expiry_key,
    external_queue_key,
    external_queues_after,
    listed_client,
    packet_range,
    progress_key,
    replay_key,
    retained_progress_key,
    session_key,
    session_range,
    subscription_key,
    waiting_key,
)
from holdfast.records.session.session_record import SessionRecord, decode_session, encode_session
from holdfast.records.session.sessions import (
    InflightRecord,
    StoredInflight,
    decode_replay,
    decode_subscription,
    encode_replay,
    encode_subscription,
    slot_of,
)
from holdfast.storage.rocks.engine.column_families import SESSIONS, ColumnFamilies
from holdfast.storage.rocks.engine.due_keys import DueKeys
from holdfast.storage.rocks.engine.family_slice import FamilySlice
from holdfast.storage.rocks.sessions.inflight_finder import Find, FindRetained, Gone, Hides, InflightFinder
from holdfast.storage.rocks.sessions.packet_slots import PacketSlots
from holdfast.storage.rocks.sessions.stored_shares import read_shares

_log = structlog.get_logger()

#: Where sessions that never end stand in the list of ends.
_NEVER_US: Final = 2**64 - 1
#: A session with more keys than this ends with a range tombstone: that many deletes take about a millisecond.
MAX_POINT_DELETES: Final = 1000
#: Range tombstones in the memtable before it is flushed, so that their number per file is bounded.
MAX_RANGE_TOMBSTONES: Final = 64


class RocksSessions:
    """A `SessionStore`, and the `Companion` that writes it. Survives: what the log survives.

    1. Every stored session is in one of the two lists: of those with a connection, or of those that end some time.
    2. `_slots` has the slots of every session with a connection that has used one, and of every group, as the changes
       made so far leave them. Those of a session that is not there are as the database has them.
    """

    def __init__(
        self,
        contents: ColumnFamilies | FamilySlice,
        find: Find,
        find_retained: FindRetained,
        gone: Gone | None = None,
        *,
        hides: Hides | None = None,
        is_written: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_written` tells whether all changes made so far are in the database, so that it can be read for them.

        Sessions in a slice of a family are read there; the writer of the changes puts them there (`FamilySlice.add`).
        """
        self._rows: Final = contents if isinstance(contents, FamilySlice) else FamilySlice(contents, SESSIONS)
        self._is_written: Final = is_written
        self._slots: Final[dict[str, PacketSlots]] = {}
        #: Sessions without a connection, and those that have ended: their slots are forgotten when all changes are
        #: written.
        self._left: Final[set[str]] = set()
        self._ends: Final = DueKeys(bytes((EXPIRY,)))
        #: Range tombstones since the last flush.
        self._range_tombstones = 0
        self._finder: Final = InflightFinder(find, find_retained, gone, hides)
        self._count = sum(1 for tag in (EXPIRY, CONNECTED) for _item in self._list(bytes((tag,)), bytes((tag + 1,))))

    @property
    def missing(self) -> int:
        """Messages in flight that were gone when they were needed again."""
        return self._finder.missing

    # ---- writing

    def add(self, batch: Batch, changes: Changes) -> None:
        if not batch.steps and not batch.progress:
            return
        if self._left and self._is_written():
            self._forget_slots()
        puts = changes.into(SESSIONS)
        ended = {step.client_id for step in batch.steps if isinstance(step, DropSession)}
        #: Keys that this batch itself has put for sessions that it ends: they cannot be read yet.
        put_here: dict[str, list[bytes]] = {client_id: [] for client_id in ended}
        for step in batch.steps:
            if isinstance(step, DropSession):
                self._drop(step, puts, put_here)
                continue
            before = len(puts.operations)
            self._add(step, puts)
            if step.client_id in put_here:
                put_here[step.client_id] += [key for key, value in puts.operations[before:] if value is not None]
        for progress in batch.progress:
            self._add_progress(progress, puts)

    def _add(self, step: SessionStep, puts: FamilyChanges) -> None:
        client_id = step.client_id
        if isinstance(step, KeepSession):
            self._unlist(client_id, step.before, puts)
            self._enlist(client_id, step.record, puts)
            self._count += step.before is None
            puts.put(session_key(client_id), encode_session(step.record))
            if _is_away(client_id, step.record):
                self._left.add(client_id)
            else:
                self._left.discard(client_id)
        elif isinstance(step, KeepSubscription):
            puts.put(subscription_key(client_id, step.record.filter.raw), encode_subscription(step.record))
        elif isinstance(step, DropSubscription):
            puts.delete(subscription_key(client_id, step.raw))
            puts.delete(replay_key(client_id, step.raw))
            puts.delete(retained_progress_key(client_id, step.raw))
        elif isinstance(step, KeepReplay):
            puts.put(replay_key(client_id, step.raw), encode_replay(step.progress))
        elif isinstance(step, KeepRetainedProgress):
            puts.put(retained_progress_key(client_id, step.raw), encode_retained_progress(step.progress))
        elif isinstance(step, DropRetainedProgress):
            puts.delete(retained_progress_key(client_id, step.raw))
        elif isinstance(step, KeepGroup):
            puts.put(group_key(client_id), encode_group(step.record))
        elif isinstance(step, KeepMember):
            puts.put(member_key(client_id, step.member), b"")
        elif isinstance(step, DropMember):
            puts.delete(member_key(client_id, step.member))
        elif isinstance(step, KeepAssignments):
            puts.put(assignments_key(client_id, step.row.vnode), encode_assignments(step.row))
        elif isinstance(step, KeepInflight):
            self._slots_of(client_id).send(step.packet_id, InflightRecord(step.owed, step.order), puts)
        elif isinstance(step, ReleaseInflight):
            self._slots_of(client_id).release(step.packet_id, puts)
        elif isinstance(step, DropInflight):
            self._slots_of(client_id).finish(step.packet_id, step.shard, step.position_us, puts)
        elif isinstance(step, KeepIncoming):
            self._slots_of(client_id).receive(step.packet_id, puts)
        elif isinstance(step, DropIncoming):
            self._slots_of(client_id).received(step.packet_id, puts)
        elif isinstance(step, KeepProgress):
            self._add_progress(step, puts)
        else:
            raise MisuseError(f"{type(step).__name__} is no step that can be stored")

    def _add_progress(self, step: KeepProgress, puts: FamilyChanges) -> None:
        """One put, and a delete for each done marker that it passes."""
        client_id = step.client_id
        puts.put(progress_key(client_id), step.value)
        if QUEUE_SHARD in step.sent:
            # Serials begin again when a store has lost its queue: a marker that stays would hide a new message.
            self._slots_of(client_id).advance(step.sent, puts)
        elif client_id in self._slots:
            self._slots[client_id].advance(step.sent, puts)

    def _slots_of(self, client_id: str) -> PacketSlots:
        slots = self._slots.get(client_id)
        if slots is None:
            slots = self._slots[client_id] = PacketSlots(client_id)
            at = len(client_prefix(client_id))
            for key, value in self._list(*packet_range(client_id)):
                if key[at] in PACKET_KINDS:
                    slots.found(key, slot_of(key[at], key, value))
            record = self.record(client_id)
            if record is not None and _is_away(client_id, record):
                self._left.add(client_id)
        return slots

    def _forget_slots(self) -> None:
        """An offline session has nothing in memory."""
        for client_id in self._left:
            self._slots.pop(client_id, None)
        self._left.clear()

    def _drop(self, step: DropSession, puts: FamilyChanges, put_here: dict[str, list[bytes]]) -> None:
        """Delete every key of a session: those in the database, and those that its commit has put before this step."""
        client_id = step.client_id
        self._unlist(client_id, step.before, puts)
        self._count -= 1
        lo, hi = session_range(client_id)
        keys = [key for key in put_here[client_id] if lo <= key < hi]
        put_here[client_id] = []
        known = self._is_written()
        try:
            if known:
                keys += [key for key, _value in islice(self._list(lo, hi), MAX_POINT_DELETES + 1)]
        except PermanentError as error:
            known = False
            _log.warning("keys of a session that ends cannot be read", client=client_id, why=str(error))
        if known and len(keys) <= MAX_POINT_DELETES:
            for key in keys:
                puts.delete(key)
        else:
            puts.delete_range(lo, hi)
            self._bound_range_tombstones()
        # Whatever this session has from now on begins with nothing stored, though the database still has it.
        self._slots[client_id] = PacketSlots(client_id)
        self._left.add(client_id)

    def _bound_range_tombstones(self) -> None:
        self._range_tombstones += 1
        if self._range_tombstones < MAX_RANGE_TOMBSTONES:
            return
        try:
            self._rows.flush()
            self._range_tombstones = 0
        except Exception as error:
            # As on a full disk. The commit goes on without, and the next range tombstone tries again.
            _log.warning("a memtable with range tombstones cannot be flushed", why=str(error))

    def _enlist(self, client_id: str, record: SessionRecord, puts: FamilyChanges) -> None:
        for key in _listed(client_id, record):
            puts.put(key, b"")
            if key[0] == EXPIRY:
                self._ends.put(key)

    def _unlist(self, client_id: str, record: SessionRecord | None, puts: FamilyChanges) -> None:
        if record is not None:
            for key in _listed(client_id, record):
                puts.delete(key)

    # ---- reading

    def record(self, client_id: str) -> SessionRecord | None:
        value = self._rows.get(session_key(client_id))
        return None if value is None else decode_session(value)

    def shares(self, client_id: str) -> StoredShares | None:
        """What groups of a cluster ask for; None if no session is stored."""
        return read_shares(self._rows, client_id)

    def load(self, client_id: str, limit: int = 0) -> StoredSession | None:
        loading = _Loading(client_id)
        self._load_on(loading, limit)
        return loading.session

    def _load_on(self, loading: "_Loading", limit: int) -> None:
        """Read the next records of a session, at most `limit` of them; 0 for all."""
        client_id = loading.client_id
        at = len(client_prefix(client_id))
        session = loading.session
        for count, (key, value) in enumerate(self._list(loading.next_key, loading.end_key)):
            if count == limit > 0:
                loading.next_key = key
                if session is not None:
                    session.load_on = partial(self._load_on, loading)
                return
            kind = key[at]
            if kind == SESSION:
                session = loading.session = StoredSession(decode_session(value))
            elif session is None:
                raise PermanentError(f"client {client_id!r} has stored records and no session")
            elif kind == SUBSCRIPTION:
                raw = key[at + 1 :]
                session.subscriptions[raw] = decode_subscription(raw, value)
            elif kind == PROGRESS:
                session.progress = decode_progress(value)
            elif kind == REPLAY:
                session.replays[key[at + 1 :]] = decode_replay(value)
            elif kind == RETAINED:
                session.retained[key[at + 1 :]] = decode_retained_progress(value)
            elif kind in PACKET_KINDS:
                slot = slot_of(kind, key, value)
                loading.slots.found(key, slot)
                if slot.kind == INFLIGHT and slot.stored is not None:
                    loading.inflight.append((slot.packet_id, slot.stored))
                elif slot.kind == RELEASED:
                    session.released.add(slot.packet_id)
                elif slot.kind == INCOMING:
                    session.incoming.add(slot.packet_id)
                else:
                    session.done.add(slot.place)
            elif kind == GROUP:
                session.group = decode_group(value)
            elif kind == MEMBER:
                session.members.add(key[at + 1 :].decode())
            elif kind == ASSIGNMENTS:
                row = decode_assignments(value)
                session.assignments[row.vnode] = row
            else:
                raise PermanentError(f"client {client_id!r} has a stored record of the unknown kind {kind}")
        if session is not None:
            session.load_on = None
            if loading.slots.used() and client_id not in self._slots:
                self._slots[client_id] = loading.slots
                if _is_away(client_id, session.record):
                    self._left.add(client_id)
            self._finder.find(client_id, session, loading.inflight)

    def expiring(self, before_us: int, limit: int) -> list[str]:
        return [client_id for _ends_us, client_id in self.ends(before_us, limit)]

    def ends(self, before_us: int, limit: int) -> list[tuple[int, str]]:
        """When sessions without a connection end, and which; those that end before a moment, soonest first."""
        _lo, hi = expired_before(before_us)
        keys = self._ends.below(self._list, hi, is_written=self._is_written())
        return [(_listed_us(key), listed_client(key)) for key in islice(keys, limit)]

    def connected(self, after: str, limit: int) -> list[str]:
        return self._clients(*connected_after(after), limit)

    def with_external_queue(self, after: str, limit: int) -> list[str]:
        return self._clients(*external_queues_after(after), limit)

    def waiting_wills(self, after_us: int, after: str, limit: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        lo = waiting_key(after_us, after) + b"\x00" if after else bytes((WAITING,))
        for key, _value in self._list(lo, bytes((WAITING + 1,))):
            if len(found) == limit:
                break
            found.append((_listed_us(key), listed_client(key)))
        return found

    def count(self) -> int:
        return self._count

    def slots_in_memory(self) -> int:
        """Sessions whose slots are known without reading: those with a connection that use QoS 2."""
        return len(self._slots)

    def _clients(self, lo: bytes, hi: bytes, limit: int) -> list[str]:
        found: list[str] = []
        for key, _value in self._list(lo, hi):
            if len(found) == limit:
                break
            found.append(listed_client(key))
        return found

    def _list(self, lo: bytes, hi: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._rows.items(lo, hi)


class _Loading:
    """A session that is being loaded: what was read so far, and from which key on to read next."""

    def __init__(self, client_id: str) -> None:
        self.client_id: Final = client_id
        self.next_key, self.end_key = session_range(client_id)
        self.session: StoredSession | None = None
        self.inflight: Final[list[tuple[int, StoredInflight]]] = []
        self.slots: Final = PacketSlots(client_id)


def _is_away(client_id: str, record: SessionRecord) -> bool:
    """Whether nothing of a session is needed in memory. A group has no connection, and works all the same."""
    return record.disconnected_us != 0 and not client_id.startswith(GROUP_PREFIX)


def _listed_us(key: bytes) -> int:
    """The time in a list that is sorted by time."""
    return int.from_bytes(key[1:9], "big")


def _listed(client_id: str, record: SessionRecord) -> list[bytes]:
    """The lists that a session stands in."""
    keys = [external_queue_key(client_id)] if record.queue else []
    if not record.disconnected_us:
        return [*keys, connected_key(client_id)]
    ends_us = record.ends_us()
    keys.append(expiry_key(_NEVER_US if ends_us < 0 else ends_us, client_id))
    due_us = record.will_due_us()
    if due_us >= 0:
        keys.append(waiting_key(due_us, client_id))
    return keys
