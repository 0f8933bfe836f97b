"""Rule 9, carried out: the registrations of closed epochs, and their sessions.

A closing is one row (`epochs.py`). What it means for a client is worked out when a rule looks at that client, or by
slices that a node works off by itself. Both write the same, and whatever is read is the same before and after it; so
these changes are no part of the digest, and nodes may do them at different times.
"""

from typing import Final

from holdfast.durable.sessions.session_store import KeepSession
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.tables import CLUSTER, StateTables, TableChanges
from holdfast.model.will import StoredWill
from holdfast.records.cluster.rows import (
    RegistrationRow,
    decode_registration,
    encode_registration,
    registration_key,
    registrations_after,
    session_of_registration,
)
from holdfast.records.session.session_record import SessionRecord

#: How long wills of a closed epoch wait at least: time for a client to connect to another node.
CLOSED_DELAY_S: Final = 30


def carry_out_closing(tables: TableChanges, session_id: str, row: RegistrationRow, at_us: int) -> RegistrationRow:
    """Release a registration whose epoch was closed at a time."""
    released = row.released(at_us)
    tables.put(CLUSTER, registration_key(session_id), encode_registration(released), digested=False)
    session = tables.session(session_id)
    if session is not None:
        tables.step(KeepSession(session_id, _closed_session(session, at_us), session), digested=False)
    return released


def close_slice(tables: StateTables, after: str, limit: int) -> tuple[TableChanges, str]:
    """Look at the registrations above a session id, at most `limit`, and release those of closed epochs.

    What it gives is to be written as one batch, between two records. The text is where the next slice begins, empty if
    this was the last one.
    """
    changes = TableChanges(tables)
    rows = tables.scan(CLUSTER, *registrations_after(after), limit)
    last = ""
    for key, value in rows:
        last = session_of_registration(key)
        row = decode_registration(value)
        if row.released_us == 0:
            at_us = closed_at(changes, row.node, row.epoch)
            if at_us != OPEN:
                carry_out_closing(changes, last, row, at_us)
    return changes, last if len(rows) == limit else ""


def will_wait_s(session: SessionRecord, will: StoredWill) -> int:
    """How long the will of a session waits: it comes with the end of the session at the latest [MQTT-3.1.3-9]."""
    return min(will.delay_s, session.expiry_s)


def _closed_session(session: SessionRecord, at_us: int) -> SessionRecord:
    """Offline since the closing. Its will waits for at least 30 s, and it does not end before its will comes."""
    will, expiry_s = session.will, session.expiry_s
    if will is not None:
        wait_s = max(will_wait_s(session, will), CLOSED_DELAY_S)
        expiry_s = max(expiry_s, wait_s)
        will = StoredWill(
            will.topic,
            will.payload,
            will.qos,
            retain=will.retain,
            properties=will.properties,
            delay_s=wait_s,
            expiry_s=will.expiry_s,
        )
    return SessionRecord(
        expiry_s=expiry_s,
        disconnected_us=at_us,
        will=will,
        cut_off=True,
        queue=session.queue,
        begun=session.begun,
        user=session.user,
        revision=session.revision,
    )
