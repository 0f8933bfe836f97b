"""A console that is stopped (SIGSTOP) and reads nothing any more: what the broker holds for it, frame by frame."""

import asyncio
import gc
import json
import signal
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bench.console.api import Api
from bench.console.children import environment
from holdfast.console.options import ConsoleOptions
from holdfast.control.frames import decode_body
from holdfast.control.words import STATS, Nothing, Stats, Watch
from holdfast.files.socket_path import find_socket
from holdfast.files.token_file import add_token
from holdfast.model.roles import ADMIN
from holdfast.node.control import control_watches
from holdfast.node.control.broker_stats import BrokerStats
from holdfast.node.control.control_server import MAX_WAITING_BYTES
from holdfast.node.embedding import running
from holdfast.node.processes.console_main import ConsoleStart, encode_start
from holdfast.node.settings.tree import Listener, Settings, Storage, Sys
from tests.control_peer import control_peer

pytestmark = pytest.mark.slow

#: Frames that a broker pushes in an hour.
HOUR = 3600
MAX_FRAME_BYTES = 4096


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, so that the socket lies in it."""
    with TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


class Console:
    """A console process, as a broker starts it."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, token: str) -> None:
        self._process = process
        self._url = url
        self._token = token

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ask(self, path: str) -> Any:
        def get() -> Any:
            with Api(self._url, self._token) as api:
                return api.value(path)

        return await asyncio.to_thread(get)


@asynccontextmanager
async def console(folder: Path) -> AsyncIterator[Console]:
    token = add_token(folder / "tokens", "test", role=ADMIN)
    socket = find_socket(folder / "data")
    options = ConsoleOptions(port=0, token_file=folder / "tokens", state_folder=folder / "state", control_socket=socket)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast.node.processes.console_main",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(encode_start(ConsoleStart(options=options, history=None, log_level="error")))
        url = json.loads(await process.stdout.readline())["url"]
        yield Console(process, url, token)
    finally:
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        await process.wait()


def test_the_broker_holds_a_megabyte_for_a_stopped_console_and_then_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of an hour come at once: the stopped console gets the first of them, another peer gets all."""
    storage = Storage(data=folder / "data")
    settings = Settings(listeners={"default": Listener(port=0)}, storage=storage, sys=Sys(interval_s=0))
    gathered: list[int] = []
    gather = BrokerStats.gather

    def counted(self: BrokerStats) -> Stats:
        gathered.append(1)
        return gather(self)

    async def test() -> None:
        async with running(settings, grace_s=0) as node, console(folder) as stopped:
            assert node.control is not None
            server, watches = node.control._server, node.control.words._watches
            while (await stopped.ask("/api/v1/stats"))["as_of_us"] is None:
                pass
            assert (await stopped.ask("/api/v1/clients"))["complete"]
            (connection,) = watches._of_stats
            assert set(watches._feed._watchers) == {connection}
            stopped.signal(signal.SIGSTOP)

            monkeypatch.setattr(BrokerStats, "gather", counted)
            monkeypatch.setattr(control_watches, "STATS_S", 0.0)
            held = frames_until_cut = 0
            async with control_peer(find_socket(folder / "data")) as reader:
                await reader.answer("watch", Watch(stats=True), Nothing)
                for _frame in range(HOUR):
                    push = await reader.next_push()
                    assert push.topic == STATS
                    held = max(held, connection.waiting_bytes())
                    if connection.cut_off:
                        frames_until_cut = frames_until_cut or len(gathered)
                assert decode_body(push.body, Stats).at_us
                assert 0 < frames_until_cut < HOUR
                assert held <= MAX_WAITING_BYTES + MAX_FRAME_BYTES
                assert len(server._connections) == 1, "that of the peer that reads"
                assert connection not in watches._of_stats | watches._watchers | watches._known
                assert not watches._feed._watchers
                assert node.broker.connections.watch is None
                gone = weakref.ref(connection)
                del connection
                gc.collect()
                assert gone() is None, "something of the broker still holds the connection, with what waits in it"

            monkeypatch.setattr(control_watches, "STATS_S", 1.0)
            before_us = node.broker.clock.wall_us()
            stopped.signal(signal.SIGCONT)
            while ((await stopped.ask("/api/v1/stats"))["as_of_us"] or 0) <= before_us:
                pass

    asyncio.run(asyncio.wait_for(test(), 120))
