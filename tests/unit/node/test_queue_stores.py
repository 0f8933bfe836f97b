"""Settings of client queues, and the backends that they open."""

import asyncio
import sys
from pathlib import Path

import pytest

from holdfast.durable.sessions.session_store import KeepSession, MemorySessions
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.node.queue_stores import open_queue_stores, used_backends
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Settings
from holdfast.records.session.session_record import SessionRecord

DEVICES = """
[sessions]
queue = "redis"
[classes.devices]
clients = "device-*"
queue = "journal"
max_queued_messages = 5
[classes.rest]
clients = "*"
"""


def loaded(folder: Path, toml: str) -> Settings:
    path = folder / "holdfast.toml"
    path.write_text(toml)
    return load(Flags(config=path), {})


def test_classes_stand_in_the_order_of_the_file(tmp_path: Path) -> None:
    settings = loaded(tmp_path, DEVICES)
    assert [(name, rule.clients, rule.queue) for name, rule in settings.classes.items()] == [
        ("devices", "device-*", "journal"),
        ("rest", "*", "log"),
    ]
    assert (settings.classes["devices"].max_queued_messages, settings.classes["rest"].max_queued_messages) == (5, None)


@pytest.mark.parametrize(
    ("toml", "wrong"),
    [
        ("[classes.a]\nqueue = 'journal'", "classes.a.clients is empty; name the clients of the class"),
        ("[classes.a]\nclients = 'a'\nqueue = 'kafka'", 'classes.a.queue is "kafka"; it must be one of log, journal'),
        (
            "[sessions]\nqueue = 'journal'\n[storage]\ndurability = 'memory'",
            "sessions.queue is 'journal', and sessions",
        ),
        ("[sessions]\nqueue = 'redis'\n[redis]\nurl = 'redis://u:secret@h'", "redis.url holds a password; put it into"),
        (
            "[sessions]\nqueue = 'journal'\n[journal]\nmax_file_messages = 5",
            "journal.max_file_messages is 5; it must be",
        ),
        ("[journal]\nfragments = '2,x'", "journal.fragments is '2,x'; it must be numbers"),
        ("[redis]\npassword_file = 'nowhere'", "redis.password_file is nowhere, and there is no such file"),
    ],
)
def test_settings_that_cannot_be_are_told(tmp_path: Path, toml: str, wrong: str) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, toml)
    assert wrong in str(refused.value)
    assert "secret" not in str(refused.value)


def test_homes_of_sessions_that_began_under_other_settings_are_used_as_well(tmp_path: Path) -> None:
    sessions = MemorySessions()
    record = SessionRecord(expiry_s=60, disconnected_us=1, queue="postgres", begun=7)
    sessions.apply([KeepSession("c", record, None)])
    assert used_backends(loaded(tmp_path, DEVICES), sessions) == {"redis", "journal", "postgres"}
    assert used_backends(loaded(tmp_path, ""), sessions) == {"postgres"}


@pytest.mark.parametrize(("backend", "driver"), [("redis", "redis"), ("postgres", "asyncpg")])
def test_a_driver_that_is_missing_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, driver: str
) -> None:
    for name in [name for name in sys.modules if name.startswith(f"holdfast.storage.{backend}")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == driver]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)
    settings = loaded(tmp_path, "")
    with pytest.raises(SettingsError, match=rf"pip install 'holdfast\[{backend}\]'"):
        asyncio.run(open_queue_stores(settings, ManualClock(1), {backend}))


def test_a_home_that_nobody_knows_is_named() -> None:
    with pytest.raises(SettingsError, match="queues in kafka"):
        asyncio.run(open_queue_stores(Settings(), ManualClock(1), {"kafka"}))
