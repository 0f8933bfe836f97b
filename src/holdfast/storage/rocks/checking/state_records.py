"""Checks retained messages and sessions: every record decodes, and their lists name what is there."""

from typing import Protocol

from rocksdict import Rdict

from holdfast.model.errors import HoldfastError, PermanentError
from holdfast.records.retained import (
    COUNT_KEY,
    EXPIRY,
    MESSAGE,
    decode_retained,
    expiry_parts,
    retained_key,
    retained_topic,
)
from holdfast.records.session import (
    assignments,
    groups,
    progress,
    retained_progress,
    session_keys,
    session_record,
    sessions,
)
from holdfast.storage.rocks.checking.verify_report import RESTORE, CheckedReader
from holdfast.storage.rocks.engine.column_families import RETAINED, SESSIONS

_LENGTH_END = 3
_PLACE_BYTES = 10
_SLOT_BYTES = 4


class Rows(Protocol):
    """A family, or the part of one that is a table."""

    def get(self, key: bytes) -> bytes | None: ...


def check_retained(reader: CheckedReader, family: Rdict) -> None:
    for key, value in reader.items(RETAINED, family):
        try:
            check_retained_row(family, key, value)
        except HoldfastError as error:
            reader.report.add(RETAINED, "record", str(error), RESTORE)


def check_retained_row(rows: Rows, key: bytes, value: bytes) -> None:
    """PermanentError says what is wrong with a row of retained messages."""
    if key[0] == MESSAGE:
        topic = retained_topic(key)
        found = decode_retained(value).stored.message.topic
        if found != topic:
            raise PermanentError(f"the message retained under {topic!r} is of topic {found!r}")
    elif key == COUNT_KEY:
        if len(value) != 16:
            raise PermanentError(f"the count has {len(value)} bytes, and should have 16")
    elif key[0] == EXPIRY:
        expires_us, topic = expiry_parts(key)
        stored = rows.get(retained_key(topic))
        if stored is None or decode_retained(stored).stored.message.expires_us > expires_us:
            raise PermanentError(f"{topic!r} is listed to expire at {expires_us}, and has no message that does")
    else:
        raise PermanentError(f"key {key.hex()} is of no known kind")


def check_sessions(reader: CheckedReader, family: Rdict) -> None:
    for key, value in reader.items(SESSIONS, family):
        try:
            check_session_row(family, key, value)
        except HoldfastError as error:
            reader.report.add(SESSIONS, "record", f"key {key.hex()}: {error}", RESTORE)


def check_session_row(rows: Rows, key: bytes, value: bytes) -> None:
    """PermanentError says what is wrong with a row of sessions."""
    if key[0] in (session_keys.EXPIRY, session_keys.CONNECTED, session_keys.WAITING, session_keys.OUTSIDE):
        client_id = session_keys.listed_client(key)
        if rows.get(session_keys.session_key(client_id)) is None:
            raise PermanentError(f"client {client_id!r} is listed, and has no session")
        return
    end = _LENGTH_END + int.from_bytes(key[1:_LENGTH_END], "big")
    if key[0] != session_keys.RECORD or len(key) <= end:
        raise PermanentError("it is of no known kind")
    kind, rest = key[end], key[end + 1 :]
    if kind == session_keys.SESSION:
        session_record.decode_session(value)
    elif kind == session_keys.SUBSCRIPTION:
        sessions.decode_subscription(rest, value)
    elif kind == session_keys.INFLIGHT:
        sessions.StoredInflight(value)
    elif kind == session_keys.PROGRESS:
        progress.decode_progress(value)
    elif kind == session_keys.REPLAY:
        sessions.decode_replay(value)
    elif kind == session_keys.RETAINED:
        retained_progress.decode_retained_progress(value)
    elif kind == session_keys.SLOT and len(rest) == _SLOT_BYTES:
        sessions.decode_slot(value)
    elif kind == session_keys.GROUP:
        groups.decode_group(value)
    elif kind == session_keys.ASSIGNMENTS:
        assignments.decode_assignments(value)
    elif kind == session_keys.MEMBER or (kind == session_keys.DONE and len(rest) == _PLACE_BYTES):
        return
    elif kind not in (session_keys.RELEASED, session_keys.INCOMING) or len(rest) != 2:
        raise PermanentError("it is of no known kind")
