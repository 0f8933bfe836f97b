"""Sessions follow their queues to another home."""

from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import KeepSession
from holdfast.model.errors import SettingsError
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.sessions.session_backends import change_queue_backends
from holdfast.storage.rocks.sessions.session_store import RocksSessions


def record(home: str) -> SessionRecord:
    return SessionRecord(expiry_s=60, disconnected_us=5, queue=home, begun=7 if home else 0, user="alice")


def sessions_of(engine: Engine) -> RocksSessions:
    return RocksSessions(engine, lambda *_place: None, lambda _topic, _newest: None)


def test_only_sessions_whose_queues_were_moved_look_in_the_new_home(tmp_path: Path) -> None:
    before = {"a": "journal", "mount/\0b": "journal", "stays": "journal", "other": "redis", "log": ""}
    engine = Engine.open(tmp_path, reserve_bytes=0)
    batch = Batch(engine.written + 1)
    batch.steps.extend(KeepSession(client_id, record(home), None) for client_id, home in before.items())
    changes = Changes()
    sessions_of(engine).add(batch, changes)
    engine.write(batch.number, changes)
    engine.close()

    assert change_queue_backends(tmp_path, {"a", "mount/%00b", "other", "log"}, "journal", "postgres") == 2
    assert change_queue_backends(tmp_path, {"a", "mount/%00b", "other", "log"}, "journal", "postgres") == 0

    engine = Engine.open(tmp_path, reserve_bytes=0)
    sessions = sessions_of(engine)
    after = {**before, "a": "postgres", "mount/\0b": "postgres"}
    assert {client_id: sessions.record(client_id) for client_id in before} == {
        client_id: record(home) for client_id, home in after.items()
    }
    assert sessions.with_external_queue("", 10) == sorted(client_id for client_id, home in after.items() if home)
    assert sessions.count() == 5
    engine.close()


def test_a_folder_that_is_no_data_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no data folder"):
        change_queue_backends(tmp_path, set(), "journal", "redis")
