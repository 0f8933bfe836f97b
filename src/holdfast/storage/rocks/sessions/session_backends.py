"""Sessions whose queues were moved to another backend: they look there from now on. The broker is stopped meanwhile."""

from collections.abc import Container
from pathlib import Path
from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.queues.external_queue import queue_name
from holdfast.durable.sessions.session_store import KeepSession
from holdfast.model.errors import SettingsError
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.sessions.session_store import RocksSessions

#: Sessions that are looked at and changed in one commit.
_PAGE: Final = 1000


def change_queue_backends(data: Path, queues: Container[str], old: str, new: str) -> int:
    """Sessions of `old` whose queues are named have them in `new`; how many that were. Said again, it changes nothing.

    Survives: a power loss, when it has returned. SettingsError: a broker has the folder, or it is none.
    """
    if not (data / "rocks").is_dir():
        raise SettingsError(f"{data} is no data folder: it has no database in it")
    engine = Engine.open(data, reserve_bytes=0)
    try:
        changed, last = 0, ""
        sessions = RocksSessions(engine, lambda *_place: None, lambda _topic, _newest: None)
        while page := sessions.with_external_queue(last, _PAGE):
            last = page[-1]
            batch = Batch(engine.written + 1)
            for client_id in page:
                record = sessions.record(client_id)
                if record is not None and record.queue == old and queue_name(client_id) in queues:
                    batch.steps.append(KeepSession(client_id, with_queue(record, new, record.begun), record))
            if batch.steps:
                changes = Changes()
                sessions.add(batch, changes)
                engine.write(batch.number, changes)
                changed += len(batch.steps)
        engine.sync_now()
        return changed
    finally:
        engine.close()


def with_queue(record: SessionRecord, backend: str, begun: int) -> SessionRecord:
    """The same session, with its queue in `backend`: what has a lower number than `begun` there is not for it."""
    return SessionRecord(
        expiry_s=record.expiry_s,
        disconnected_us=record.disconnected_us,
        will=record.will,
        cut_off=record.cut_off,
        queue=backend,
        begun=begun,
        user=record.user,
        revision=record.revision,
    )
