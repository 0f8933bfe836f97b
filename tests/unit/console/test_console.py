"""What a console knows of its broker."""

import asyncio
from pathlib import Path

import pytest

from holdfast.console.console import Console
from holdfast.console.options import ConsoleOptions
from holdfast.files.socket_path import LOCK_NAME
from holdfast.model.clock import ManualClock
from holdfast.model.time import SECOND_US
from tests.unit.console.stats_frames import frame
from tests.unit.console.visitor import console_place


def test_a_broker_that_never_answers_is_an_alarm(tmp_path: Path) -> None:
    clock = ManualClock()
    console = Console(ConsoleOptions(state_folder=tmp_path), clock)
    console._judge()
    assert console.alarms.active_names == frozenset()
    clock.advance(6 * SECOND_US)
    console._judge()
    assert console.alarms.active_names == {"broker_away"}


def test_a_console_without_a_broker_by_intent_has_no_alarm(tmp_path: Path) -> None:
    clock = ManualClock()
    console = Console(ConsoleOptions(state_folder=tmp_path, read_only=True), clock)
    clock.advance(60 * SECOND_US)
    console._judge()
    assert console.alarms.active_names == frozenset()


def test_the_state_is_that_of_a_fresh_frame_and_else_away(tmp_path: Path) -> None:
    clock = ManualClock()
    console = Console(ConsoleOptions(state_folder=tmp_path), clock)
    assert console.state == "away"
    console.stats_came(frame(1))
    assert console.state == "taking"
    clock.advance(6 * SECOND_US)
    assert console.state == "away"
    assert console.shown_node()["frame_age_s"] == 6.0


def test_the_socket_is_where_the_lock_file_says(tmp_path: Path) -> None:
    options = ConsoleOptions(state_folder=tmp_path / "console", data_folder=tmp_path)
    (tmp_path / LOCK_NAME).write_text('{"pid": 1, "control": "/run/somewhere/control.sock"}\n')
    assert Console(options, ManualClock())._find_socket() == Path("/run/somewhere/control.sock")


def test_a_full_disk_ends_no_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(ConsoleOptions(state_folder=tmp_path), ManualClock())

    def refuse(*_words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(console.charts, "take", refuse)
    console.stats_came(frame(1))
    console.stats_came(frame(2))
    assert console.live.last == frame(2)


def test_a_task_that_fails_by_a_bug_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with console_place(tmp_path) as place:
            console = place.visitor.console
            monkeypatch.setattr(console, "_judge", lambda: 1 // 0)
            await console.failed.wait()

    asyncio.run(work())


def test_the_folder_of_the_console_is_private(tmp_path: Path) -> None:
    Console(ConsoleOptions(state_folder=tmp_path / "console"), ManualClock())
    assert (tmp_path / "console").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "console").iterdir())
