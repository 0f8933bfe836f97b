"""What the console process is told."""

from pathlib import Path

import pytest

from holdfast.node.processes.console_main import decode_start, encode_start
from holdfast.node.processes.console_supervisor import console_start, start_console
from holdfast.node.settings.console_section import ConsoleSettings
from holdfast.node.settings.tree import Settings, Storage


def test_the_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    console = ConsoleSettings(host="*", token_file=Path("tokens"), allowed_hosts="a.example", behind_proxy=True)
    start = console_start(Settings(console=console, storage=Storage(data=tmp_path)), tmp_path / "console")
    line = encode_start(start)
    assert line.count(b"\n") == 1
    assert decode_start(line) == start
    assert start.options.token_file == Path.cwd() / "tokens"
    assert (start.options.data_folder, start.options.control_socket) == (tmp_path, None)
    assert start.history is not None


def test_a_broker_that_stores_nothing_has_no_past_and_its_socket_in_the_run_folder(tmp_path: Path) -> None:
    settings = Settings(storage=Storage(durability="memory", data=tmp_path))
    start = console_start(settings, tmp_path)
    assert (start.history, start.options.data_folder) == (None, None)
    assert start.options.control_socket is not None
    assert start.options.control_socket.parent != tmp_path


@pytest.mark.parametrize(("enabled", "by_default"), [(False, True), (None, False), (False, False)])
def test_it_is_not_started_unless_wanted(enabled: bool | None, by_default: bool) -> None:
    assert start_console(Settings(console=ConsoleSettings(enabled=enabled)), by_default=by_default) is None
