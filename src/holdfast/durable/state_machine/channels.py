"""Rules 5 to 8: which connection of a client id counts, what its sessions may change, when wills come and sessions end.

1. A registration of a closed epoch was released when that was closed (rule 9). Whoever looks at it carries that out
   first; so the order in which nodes do so makes no difference.
2. A stored session is connected (`disconnected_us` is 0) exactly while its client id has a registration. A claim makes
   it connected, a release and a closing make it offline, and the open that follows a claim stores its record as it is.
3. A will waits for the lesser of its delay and the session's expiry, and for longer behind a closing (`closing.py`).
4. A session that ends, however it does, publishes the will that it has. With a goodbye there is none.
5. A step of a session that is not stored changes nothing, as on one node: the session has ended.
6. A group has no registration: its steps count from the leader, by the `Lead` that they name (`leadership.py`).
7. A vnode without settings takes no claim: it could not publish the will of that client.
"""

from typing import Final

from holdfast.durable.sessions.publish_numbers import numbers_key
from holdfast.durable.sessions.session_store import DropSession, KeepIncoming, KeepProgress, KeepSession, SessionStep
from holdfast.durable.state_machine.closing import carry_out_closing, will_wait_s
from holdfast.durable.state_machine.epochs import OPEN
from holdfast.durable.state_machine.leadership import Leadership
from holdfast.durable.state_machine.outcome import DecidedClaim
from holdfast.durable.state_machine.scope import Scope
from holdfast.durable.state_machine.shards import Shards, is_topic
from holdfast.durable.state_machine.tables import CLUSTER, META
from holdfast.durable.takeover.registry import is_from_client
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.time import MILLISECOND_US, MINUTE_US, SECOND_US
from holdfast.model.will import StoredWill
from holdfast.records.cluster.items import Claim, Expire, MessageItem, Release, VersionParts, WillDue
from holdfast.records.cluster.rows import (
    NEWEST_VERSION_KEY,
    RegistrationRow,
    decode_newest_version,
    decode_registration,
    encode_newest_version,
    encode_registration,
    registration_key,
)
from holdfast.records.meta_keys import number_key
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.records.session.numbers import LastNumber, decode_number, encode_number
from holdfast.records.session.session_record import SessionRecord

#: How long the version of a released registration is compared: longer than a connection may be slow.
RELEASED_US: Final = MINUTE_US


class Channels:
    """Registrations and sessions while a record is decided."""

    def __init__(self, scope: Scope, leadership: Leadership, shards: Shards) -> None:
        self._scope: Final = scope
        self._leadership: Final = leadership
        self._shards: Final = shards
        #: Places in the record's table of sessions: fenced, and those that are known to be held.
        self._fenced: Final[set[int]] = set()
        self._held: Final[set[int]] = set()

    # ---- rule 5: items of sessions

    def message(self, index: int, item: MessageItem) -> bool:
        if not self._holds(item.session) or not is_topic(item.message.topic) or not self._shards.takes_messages():
            return self._fence(item.session)
        session_id = self._scope.record.sessions[item.session].session_id
        if item.number < 0 or self._is_new_number(session_id, item):
            self._shards.publish(index, item.message, session_id)
        if item.packet_id:
            self._change(KeepIncoming(session_id, item.packet_id))
        return True

    def step(self, index: int, session: int, step: SessionStep) -> bool:
        if not self._holds(session):
            return self._fence(session)
        tables = self._scope.tables
        session_id = step.client_id
        before = tables.session(session_id)
        if isinstance(step, KeepSession):
            record = step.record if _is_group(session_id) else _offline_since(step.record, 0)
            tables.step(KeepSession(session_id, record, before))
        elif isinstance(step, DropSession):
            if before is not None:
                self._end(index, session_id, before)
        else:
            self._change(step)
            if isinstance(step, KeepProgress) and _is_group(session_id):
                self._leadership.keep_progress(session_id, step.sent)
        return True

    def _change(self, step: SessionStep) -> None:
        if self._scope.tables.session(step.client_id) is not None:
            self._scope.tables.step(step)

    def _holds(self, session: int) -> bool:
        """Whether the record's writer holds a session at the revision that it names."""
        if session in self._held:
            return True
        if session in self._fenced:
            return False
        entry = self._scope.record.sessions[session]
        if _is_group(entry.session_id):
            holds = self._leadership.is_leader() and self._leadership.revision() == entry.revision
        else:
            row = self.registration(entry.session_id)
            holds = (
                row is not None
                and row.released_us == 0
                and row.revision == entry.revision
                and self._scope.is_writer(row.node, row.epoch)
            )
        if holds:
            self._held.add(session)
        return holds

    def look_again(self) -> None:
        """An item that is no session's may have changed who holds what: messages and steps behind it ask again."""
        self._held.clear()

    def _fence(self, session: int) -> bool:
        if session not in self._fenced:
            self._fenced.add(session)
            self._held.discard(session)
            self._scope.outcome.fenced.append(self._scope.record.sessions[session])
        return False

    def _is_new_number(self, session_id: str, item: MessageItem) -> bool:
        """Whether the number is above the last one; then it is the last one."""
        tables = self._scope.tables
        key = session_id if item.user is None else numbers_key(session_id, item.user)
        last = -1
        for name in (key, session_id):
            value = tables.get(META, number_key(name))
            if value is not None:
                last = max(last, decode_number(value).number)
        if item.number <= last:
            return False
        tables.put(META, number_key(key), encode_number(LastNumber(item.number, self._scope.time_us)))
        return True

    # ---- registrations

    def registration(self, session_id: str) -> RegistrationRow | None:
        """The registration of a client id, released or not; a closing is carried out before."""
        value = self._scope.tables.get(CLUSTER, registration_key(session_id))
        if value is None:
            return None
        row = decode_registration(value)
        if row.released_us:
            return row
        at_us = self._scope.epochs.closed_at(row.node, row.epoch)
        return row if at_us == OPEN else carry_out_closing(self._scope.tables, session_id, row, at_us)

    def live(self, session_id: str) -> RegistrationRow | None:
        """The registration of a client id, if there is one."""
        row = self.registration(session_id)
        return None if row is None or row.released_us else row

    def claim(self, index: int, item: Claim) -> bool:
        """Rule 6."""
        scope = self._scope
        row = self.registration(item.session_id)
        replaced = row if row is not None and row.released_us == 0 else None
        if not self._may_claim(item, row, 0 if replaced is None else replaced.revision):
            scope.outcome.refused_claims[index] = row
            if item.version is not None:
                scope.outcome.claims.append(DecidedClaim(item.session_id, item.connection_id, item.version, 0, row))
            return False
        session = scope.tables.session(item.session_id)
        revision = scope.revision(index)
        version = item.version
        if version is None:
            at_us = scope.time_us if session is None or not session.disconnected_us else session.disconnected_us
            version = (at_us // MILLISECOND_US, scope.record.node, revision)
        record = scope.record
        self._put(item.session_id, RegistrationRow(record.node, record.epoch, item.connection_id, revision, version))
        scope.outcome.revisions[index] = revision
        scope.outcome.claims.append(DecidedClaim(item.session_id, item.connection_id, version, revision, replaced))
        self._note_version(version)
        if replaced is not None:
            scope.outcome.replaced[item.session_id] = replaced
        if session is not None:
            self._settle_claimed(index, item.session_id, session, is_replaced=replaced is not None)
        return True

    def _note_version(self, version: VersionParts) -> None:
        """Remember the greatest version for the clocks of nodes, which begin above it when they start."""
        if is_from_client(version):
            return
        self._scope.outcome.claimed.append(version)
        tables = self._scope.tables
        value = tables.get(CLUSTER, NEWEST_VERSION_KEY)
        if value is None or decode_newest_version(value) < version:
            tables.put(CLUSTER, NEWEST_VERSION_KEY, encode_newest_version(version), digested=False)

    def _may_claim(self, item: Claim, row: RegistrationRow | None, revision: int) -> bool:
        record = self._scope.record
        if not self._shards.takes_messages() or self._scope.epochs.closed_at(record.node, record.epoch) != OPEN:
            return False
        if item.expected is not None and item.expected != revision:
            return False
        if row is None or item.version is None or item.version > row.version:
            return True
        return row.released_us > 0 and self._scope.time_us >= row.released_us + RELEASED_US

    def _settle_claimed(self, index: int, session_id: str, session: SessionRecord, *, is_replaced: bool) -> None:
        """The will and the end of a session that was claimed; what stays is connected."""
        will = session.will
        if will is not None and (self._is_will_due(session, will) or (is_replaced and will_wait_s(session, will) == 0)):
            self._publish_will(index, session_id, will)
            session = self._replace(session_id, session.without_will(), session)
        if session.expiry_s == 0 or self._is_over(session):
            self._end(index, session_id, session)
        elif session.disconnected_us:
            self._replace(session_id, _offline_since(session, 0), session)

    def release(self, index: int, item: Release) -> bool:
        """Rule 7."""
        scope = self._scope
        row = self.live(item.session_id)
        if row is None or row.connection_id != item.connection_id or not scope.is_writer(row.node, row.epoch):
            return False
        self._put(item.session_id, row.released(scope.time_us))
        session = scope.tables.session(item.session_id)
        if session is None:
            return True
        left = _offline_since(session.without_will() if item.goodbye else session, scope.time_us)
        if left.will is not None and left.will_due_us() <= scope.time_us:
            self._publish_will(index, item.session_id, left.will)
            left = left.without_will()
        left = self._replace(item.session_id, left, session)
        if left.expiry_s == 0:
            self._end(index, item.session_id, left)
        return True

    # ---- rule 8: what time brings about

    def will_due(self, index: int, item: WillDue) -> bool:
        row = self.registration(item.session_id)
        session = self._scope.tables.session(item.session_id)
        if row is None or not row.released_us or row.revision != item.revision or session is None:
            return False
        will = session.will
        if will is None or not self._is_will_due(session, will):
            return False
        self._publish_will(index, item.session_id, will)
        self._replace(item.session_id, session.without_will(), session)
        return True

    def expire(self, index: int, item: Expire) -> bool:
        if self.live(item.session_id) is not None:
            return False
        session = self._scope.tables.session(item.session_id)
        if session is None or session.ends_us() != item.ends_us or not self._is_over(session):
            return False
        self._end(index, item.session_id, session)
        return True

    def _is_will_due(self, session: SessionRecord, will: StoredWill) -> bool:
        return session.will_due_us() >= 0 and self._scope.has_passed(
            session.disconnected_us, will_wait_s(session, will)
        )

    def _is_over(self, session: SessionRecord) -> bool:
        return session.ends_us() >= 0 and self._scope.has_passed(session.disconnected_us, session.expiry_s)

    def _end(self, index: int, session_id: str, session: SessionRecord) -> None:
        if session.will is not None:
            self._publish_will(index, session_id, session.will)
        self._scope.tables.step(DropSession(session_id, session))
        self._scope.outcome.ended.append(session_id)

    def _publish_will(self, index: int, session_id: str, will: StoredWill) -> None:
        """As it was stored: rights, QoS and room were judged at CONNECT."""
        now_us = self._scope.time_us
        if not is_topic(will.topic):
            return
        message = Message(
            will.topic,
            will.payload,
            will.qos,
            ClientId(session_id),
            now_us,
            retain=will.retain,
            properties=will.properties,
            expires_us=0 if will.expiry_s < 0 else now_us + max(will.expiry_s * SECOND_US, 1),
        )
        self._shards.publish(index, message, session_id, is_will=True)

    def _put(self, session_id: str, row: RegistrationRow) -> None:
        self._scope.tables.put(CLUSTER, registration_key(session_id), encode_registration(row))

    def _replace(self, session_id: str, record: SessionRecord, before: SessionRecord) -> SessionRecord:
        self._scope.tables.step(KeepSession(session_id, record, before))
        return record


def _offline_since(session: SessionRecord, at_us: int) -> SessionRecord:
    """The same session, offline since a time; 0 for connected."""
    if session.disconnected_us == at_us:
        return session
    return SessionRecord(
        expiry_s=session.expiry_s,
        disconnected_us=at_us,
        will=session.will,
        cut_off=session.cut_off,
        queue=session.queue,
        begun=session.begun,
        user=session.user,
        revision=session.revision,
    )


def _is_group(session_id: str) -> bool:
    return session_id.startswith(GROUP_PREFIX)
