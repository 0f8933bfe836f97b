"""The history process that only the console needs: it comes with the first question, and goes by itself."""

import asyncio
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.history.settings import History
from holdfast.model.errors import TransientError
from holdfast.node.processes.history_main import serve_history
from holdfast.node.processes.history_supervisor import HistoryOnDemand
from holdfast.node.settings.tree import Settings, Storage
from tests.unit.storage.rocks.log.store import Store

PATIENCE_S = 60.0


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self._path))


def get(path: Path, url: str) -> Any:
    with closing(UnixConnection(path)) as connection:
        connection.request("GET", url)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return json.loads(answer.read())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    store = Store(tmp_path / "data")
    store.publish("a/1", "a/2")
    yield tmp_path / "data"
    store.close()


@pytest.fixture
def without_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started find neither pyarrow nor numpy."""
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text("import sys\nsys.modules.update(pyarrow=None, numpy=None)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "blocked"))


def settings(folder: Path, *, enabled: bool = False) -> Settings:
    return Settings(storage=Storage(data=folder), history=History(enabled=enabled))


def process_of(path: Path) -> int:
    """The process that listens at a path."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.connect(str(path))
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int.from_bytes(credentials[:4], "little")


@pytest.mark.usefixtures("without_arrow")
def test_the_first_question_starts_it_and_every_kind_of_question_is_answered_without_arrow(folder: Path) -> None:
    async def scenario() -> None:
        history = HistoryOnDemand(settings(folder), start_s=PATIENCE_S)
        assert not (folder / "history.sock").exists(), "nothing runs before it is needed"
        path = await history.socket()
        assert path == folder / "history.sock"
        assert list(await asyncio.gather(history.socket(), history.socket())) == [path, path]
        for url in ("/healthz", "/zones", "/messages", "/state", "/sessions", "/retained", "/events", "/patterns"):
            assert await asyncio.to_thread(get, path, url)
        for url in ("/leases", "/topics", "/compare?a=-1h&b=latest", "/plot?topic=a", "/explain?id=x"):
            await asyncio.to_thread(get, path, url)
        shown = (await asyncio.to_thread(get, path, "/messages?direction=newer"))["messages"]
        assert [one["topic"]["text"] for one in shown] == ["a/1", "a/2"]
        process = process_of(path)
        await history.close()
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
        assert not path.exists()

    asyncio.run(scenario())


def test_one_that_was_killed_is_started_again(folder: Path) -> None:
    async def scenario() -> None:
        history = HistoryOnDemand(settings(folder), start_s=PATIENCE_S)
        first = process_of(await history.socket())
        os.kill(first, signal.SIGKILL)
        second = first
        while second == first:
            try:
                second = process_of(await history.socket())
            except OSError:  # its end was not noticed yet, or it has left its socket
                await asyncio.sleep(0)
        assert await asyncio.to_thread(get, await history.socket(), "/healthz") == {"ok": True}
        await history.close()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_one_that_cannot_serve_is_an_error_that_passes(tmp_path: Path) -> None:
    async def scenario() -> None:
        history = HistoryOnDemand(settings(tmp_path), start_s=0.05)
        with pytest.raises(TransientError, match="has not come up within"):
            await history.socket()
        await history.close()

    asyncio.run(scenario())


def test_where_history_is_enabled_its_own_process_serves_the_socket(folder: Path) -> None:
    async def scenario() -> None:
        history = HistoryOnDemand(settings(folder, enabled=True))
        assert await history.socket() == folder / "history.sock"
        await history.close()
        assert not (folder / "history.sock").exists(), "it has started none"

    asyncio.run(scenario())


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """The line for programs; the log may stand around it."""
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return json.loads(line)


def test_it_ends_by_itself_when_nothing_is_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serve_history(folder, History(), threading.Event(), folder / "history.sock", ports=False, idle_s=0.0)
    assert printed(capsys) == {"socket": str(folder / "history.sock")}
    assert not (folder / "history.sock").exists()


def test_the_ports_and_the_socket_are_served_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = History(flight_port=0, http_port=0)
    asked: list[Any] = []

    class AskedFirst(threading.Event):
        """Asks as soon as it is served, and then stops it."""

        def wait(self, timeout: float | None = None) -> bool:
            asked.append(get(folder / "history.sock", "/messages"))
            return super().wait(timeout)

    stop = AskedFirst()
    stop.set()
    serve_history(folder, served, stop, folder / "history.sock")
    assert len(asked[0]["messages"]) == 2
    places = printed(capsys)
    assert places["flight_port"] > 0 < places["http_port"]
