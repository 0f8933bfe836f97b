"""`holdfast history`: what cannot be served is told before anything is."""

import importlib.util
import socket
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from holdfast.cli.history import command as verb
from holdfast.history.settings import History
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.node.processes.history_main import decode_settings, encode_settings
from holdfast.node.settings.loader import load
from holdfast.node.settings.rules import problems_of, refuse
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Settings
from tests.unit.storage.rocks.log_node import Node

app = typer.Typer()
app.command()(verb.history)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history") / "data"
    node = Node(folder, ManualClock(wall_us=1_700_000_000_000_000))
    node.fill(1)
    node.log.close()
    return folder


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals are the test runner's; and whatever does start ends at once."""
    stop = threading.Event()
    stop.set()
    monkeypatch.setattr(verb, "stop_on_signals", lambda: stop)


def refusal(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2, done.output
    return done.stderr


def test_it_serves_and_ends(data: Path) -> None:
    done = CliRunner().invoke(app, ["--data", str(data), "--flight-port", "0", "--http-port", "0"])
    assert done.exit_code == 0
    assert '"flight_port": ' in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "0.0.0.0"), "holdfast history --set history.token_file=holdfast.tokens"),
        (("--set", "history.key=x"), "history.certificate is not set, and key is"),
        (("--flight-port", "5000", "--http-port", "5000"), "give each its own port"),
        (("--host", "0.0.0.0", "--token-file", "nothing"), "the token file nothing cannot be read"),
        (("--set", "history.colour=red"), "there is no setting history.colour"),
        (("--set", "history.certificate=x", "--set", "history.key=y"), "are no certificate with its key"),
    ],
)
def test_what_is_wrong_is_told(data: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal("--data", str(data), *arguments)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path} is no data folder of a broker" in refusal("--data", str(tmp_path))


@pytest.mark.parametrize(("taken", "other"), [("--flight-port", "--http-port"), ("--http-port", "--flight-port")])
def test_a_port_that_is_taken_is_named(data: Path, taken: str, other: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        said = refusal("--data", str(data), taken, port, other, "0")
    assert f"history cannot listen on 127.0.0.1, port {port}" in said


def test_without_arrow_the_command_that_brings_it_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pyarrow and numpy is not installed; run: pip install "holdfast[history]"' in refusal("--data", str(data))
    with pytest.raises(SettingsError, match="holdfast\\[history\\]"):
        refuse(problems_of(Settings(history=History(enabled=True))))
    refuse(problems_of(Settings()))


def test_a_broker_refuses_history_for_everybody_and_of_nothing() -> None:
    for assignments, message in [
        (("history.host=0.0.0.0",), "holdfast serve --set history.token_file=holdfast.tokens"),
        (("storage.durability=memory",), "history.enabled is true, and nothing is stored"),
        (("history.token_file=nothing",), "holdfast token add NAME --file nothing makes it"),
    ]:
        with pytest.raises(SettingsError) as refused:
            load(Flags(assignments=("history.enabled=true", *assignments)), {})
        assert message in str(refused.value)


def test_settings_reach_the_process_as_they_are() -> None:
    settings = History(host="::1", token_file=Path("t"), certificate=Path("c"), key=Path("k"), max_readers=7)
    plain = (Path("d"), settings, "debug", "json", Path("/tmp/x"))
    assert decode_settings(encode_settings(Path("d"), settings, "debug", "json", "/tmp/x")) == (*plain, None, True)
    line = encode_settings(Path("d"), settings, "debug", "json", "/tmp/x", Path("h.sock"), ports=False)
    assert decode_settings(line) == (*plain, Path("h.sock"), False)
