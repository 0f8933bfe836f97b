"""Steps of sessions as items of records, and back.

A message in flight that lies in the log is named by its place. The step that comes back has a message with that place
and topic and nothing else, which is all that is stored of it.
"""

from typing import Final

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
)
from holdfast.model.errors import MisuseError, PeerError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued
from holdfast.records.cluster import session_steps as kinds
from holdfast.records.cluster.session_steps import StepItem, encode_step
from holdfast.records.session.assignments import decode_assignments, encode_assignments
from holdfast.records.session.groups import decode_group, encode_group
from holdfast.records.session.progress import decode_progress
from holdfast.records.session.retained_progress import decode_retained_progress, encode_retained_progress
from holdfast.records.session.session_record import SessionRecord, decode_session, encode_session
from holdfast.records.session.sessions import (
    InflightRecord,
    StoredInflight,
    decode_replay,
    decode_subscription,
    encode_inflight,
    encode_replay,
    encode_subscription,
)

#: In the place of what a step replaces, until that is known.
_UNKNOWN: Final = SessionRecord(expiry_s=0, disconnected_us=0)


def step_item(step: SessionStep, session: int) -> StepItem:
    """The item of a step; `session` is the place of its session in the record's table."""
    if isinstance(step, KeepSession):
        return StepItem(session, kinds.KEEP_SESSION, value=encode_session(step.record))
    if isinstance(step, DropSession):
        return StepItem(session, kinds.DROP_SESSION)
    if isinstance(step, KeepProgress):
        return StepItem(session, kinds.KEEP_PROGRESS, value=step.value)
    if isinstance(step, KeepSubscription):
        record = step.record
        return StepItem(session, kinds.KEEP_SUBSCRIPTION, name=record.filter.raw, value=encode_subscription(record))
    if isinstance(step, DropSubscription):
        return StepItem(session, kinds.DROP_SUBSCRIPTION, name=step.raw)
    if isinstance(step, KeepReplay):
        return StepItem(session, kinds.KEEP_REPLAY, name=step.raw, value=encode_replay(step.progress))
    if isinstance(step, KeepRetainedProgress):
        value = encode_retained_progress(step.progress)
        return StepItem(session, kinds.KEEP_RETAINED, name=step.raw, value=value)
    if isinstance(step, DropRetainedProgress):
        return StepItem(session, kinds.DROP_RETAINED, name=step.raw)
    if isinstance(step, KeepGroup):
        return StepItem(session, kinds.KEEP_GROUP, value=encode_group(step.record))
    if isinstance(step, KeepMember):
        return StepItem(session, kinds.KEEP_MEMBER, name=step.member.encode())
    if isinstance(step, DropMember):
        return StepItem(session, kinds.DROP_MEMBER, name=step.member.encode())
    if isinstance(step, KeepAssignments):
        return StepItem(session, kinds.KEEP_ASSIGNMENTS, value=encode_assignments(step.row))
    if isinstance(step, KeepInflight):
        value = encode_inflight(InflightRecord(step.owed, step.order))
        return StepItem(session, kinds.KEEP_INFLIGHT, packet_id=step.packet_id, value=value)
    if isinstance(step, ReleaseInflight):
        return StepItem(session, kinds.RELEASE_INFLIGHT, packet_id=step.packet_id)
    if isinstance(step, DropInflight):
        return StepItem(
            session, kinds.DROP_INFLIGHT, packet_id=step.packet_id, shard=step.shard, position_us=step.position_us
        )
    if isinstance(step, KeepIncoming):
        return StepItem(session, kinds.KEEP_INCOMING, packet_id=step.packet_id)
    if isinstance(step, DropIncoming):
        return StepItem(session, kinds.DROP_INCOMING, packet_id=step.packet_id)
    raise MisuseError(f"{type(step).__name__} is no step that can be stored")


def encode_session_step(step: SessionStep) -> bytes:
    """A step as bytes, for a digest."""
    return encode_step(step_item(step, 0))


def session_step(session_id: str, item: StepItem) -> SessionStep:
    """The step of an item; PermanentError if what it stores cannot be read.

    What `KeepSession` and `DropSession` replace is not in the item: applying it fills that in.
    """
    kind = item.step
    if kind == kinds.KEEP_SESSION:
        return KeepSession(session_id, decode_session(item.value), None)
    if kind == kinds.DROP_SESSION:
        return DropSession(session_id, _UNKNOWN)
    if kind == kinds.KEEP_PROGRESS:
        return KeepProgress(session_id, decode_progress(item.value).sent, item.value)
    if kind == kinds.KEEP_SUBSCRIPTION:
        try:
            return KeepSubscription(session_id, decode_subscription(item.name, item.value))
        except PeerError as wrong:
            raise PermanentError(f"the subscription {item.name!r} has no valid filter: {wrong.detail}") from wrong
    if kind == kinds.DROP_SUBSCRIPTION:
        return DropSubscription(session_id, item.name)
    if kind == kinds.KEEP_REPLAY:
        return KeepReplay(session_id, item.name, decode_replay(item.value))
    if kind == kinds.KEEP_RETAINED:
        return KeepRetainedProgress(session_id, item.name, decode_retained_progress(item.value))
    if kind == kinds.DROP_RETAINED:
        return DropRetainedProgress(session_id, item.name)
    if kind == kinds.KEEP_GROUP:
        return KeepGroup(session_id, decode_group(item.value))
    if kind == kinds.KEEP_ASSIGNMENTS:
        return KeepAssignments(session_id, decode_assignments(item.value))
    if kind in (kinds.KEEP_MEMBER, kinds.DROP_MEMBER):
        return _member_step(session_id, item)
    return _packet_step(session_id, item)


def _member_step(session_id: str, item: StepItem) -> SessionStep:
    try:
        member = item.name.decode()
    except UnicodeDecodeError:
        raise PermanentError(f"a member of the group {session_id!r} is not UTF-8") from None
    return KeepMember(session_id, member) if item.step == kinds.KEEP_MEMBER else DropMember(session_id, member)


def _packet_step(session_id: str, item: StepItem) -> SessionStep:
    kind, packet_id = item.step, item.packet_id
    if kind == kinds.KEEP_INFLIGHT:
        stored = StoredInflight(item.value)
        return KeepInflight(session_id, packet_id, _owed(stored), stored.order)
    if kind == kinds.RELEASE_INFLIGHT:
        return ReleaseInflight(session_id, packet_id)
    if kind == kinds.DROP_INFLIGHT:
        return DropInflight(session_id, packet_id, item.shard, item.position_us)
    if kind == kinds.KEEP_INCOMING:
        return KeepIncoming(session_id, packet_id)
    if kind == kinds.DROP_INCOMING:
        return DropIncoming(session_id, packet_id)
    raise PermanentError(f"an item of a record is the unknown session step {kind:02x}")


def _owed(stored: StoredInflight) -> Owed:
    """What is in flight, with as much of its message as the entry has."""
    message = stored.message
    if stored.shard == QUEUE_SHARD and message is not None:
        return OwedQueued(message, 2, retain=stored.retain, identifiers=stored.identifiers, serial=stored.position_us)
    if message is None:
        message = Message(stored.topic, b"", 2, ClientId(""), 0)
        message.shard = stored.shard
        message.position_us = stored.position_us
    return stored.owed(message)
