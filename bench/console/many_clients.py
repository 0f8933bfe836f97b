"""A console with more clients than can be connected here: a stand-in for the broker serves its control socket.

The stand-in sends what a broker sends: its numbers once a second, and a snapshot in slices of 500. The console is the
process that a broker starts, with the options that a broker gives.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import psutil  # type: ignore[import-untyped]

from bench.console.api import Api
from bench.console.children import environment, wait_for
from bench.console.nodes import CONSOLE
from bench.console.present_clients import client_name
from bench.console.quantiles import quantile
from holdfast.console.options import ConsoleOptions
from holdfast.control.frames import FrameReader, decode_body, encode_body, encode_frame
from holdfast.control.words import (
    CLIENTS,
    OLDEST_VERSION,
    STATS,
    VERSION,
    Answer,
    ClientRow,
    ClientRows,
    Hello,
    NodeInfo,
    Nothing,
    Push,
    Request,
    Stats,
    Watch,
)
from holdfast.files.token_file import add_token
from holdfast.model.roles import ADMIN
from holdfast.model.time import SECOND_US
from holdfast.node.processes.console_main import ConsoleStart, encode_start

_SLICE = 500


def client_row(number: int) -> ClientRow:
    """A client as a broker would describe it; one of fifty is behind."""
    name = client_name(number)
    behind = number % 50 == 0
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    since_us = 1_790_000_000_000_000 + number * 1000
    return ClientRow(
        session_id=name,
        client_id=name,
        user=f"user-{number % 1000}",
        address=address,
        port=20_000 + number % 40_000,
        listener="default",
        transport="tcp",
        version=5,
        since_us=since_us,
        keep_alive_s=60,
        expiry_s=3600,
        subscriptions=1 + number % 5,
        inflight=number % 7,
        behind=behind,
        owed=number if behind else 0,
    )


class StandIn:
    """The broker's side of a control socket."""

    def __init__(self, clients: int, stats: Stats) -> None:
        self._clients = clients
        self._stats = stats
        #: Seconds between two frames, each of which says that it is a second later than the last.
        self.frame_s = 1.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_frame(Hello(VERSION, OLDEST_VERSION, "stand-in", ("node", "watch"))))
        frames = FrameReader()
        ticking = asyncio.create_task(self._tick(writer))
        try:
            while data := await reader.read(1 << 16):
                for word in frames.feed(data):
                    if isinstance(word, Request):
                        await self._answer(word, writer)
        finally:
            ticking.cancel()
            writer.close()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        body: msgspec.Struct = _node() if request.word == "node" else Nothing()
        writer.write(encode_frame(Answer(request.id, encode_body(body))))
        if request.word == "watch" and decode_body(request.body, Watch).clients:
            await self._send_snapshot(writer)

    async def _send_snapshot(self, writer: asyncio.StreamWriter) -> None:
        for begin in range(0, self._clients, _SLICE):
            end = min(self._clients, begin + _SLICE)
            part = tuple(client_row(number) for number in range(begin, end))
            writer.write(encode_frame(Push(CLIENTS, encode_body(ClientRows(part, end == self._clients)))))
            await writer.drain()

    async def _tick(self, writer: asyncio.StreamWriter) -> None:
        at_us = time.time_ns() // 1000
        with suppress(ConnectionError):
            while True:
                frame = msgspec.structs.replace(self._stats, at_us=at_us)
                writer.write(encode_frame(Push(STATS, encode_body(frame))))
                at_us += SECOND_US
                await asyncio.sleep(self.frame_s)


def _node() -> NodeInfo:
    now_us = time.time_ns() // 1000
    return NodeInfo("stand-in", True, 1, now_us, now_us, "taking", "", "fsync", "", ())


@contextmanager
def _served(stand_in: StandIn, path: Path) -> Iterator[None]:
    """In a thread with a loop of its own."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_unix_server(stand_in.serve, path))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


@dataclass(frozen=True)
class ManyClients:
    """A console in front of a stand-in."""

    stand_in: StandIn
    url: str
    token: str
    pid: int


@contextmanager
def console_of_many(clients: int, stats: Stats) -> Iterator[ManyClients]:
    """A console that knows so many clients, for the length of the block. `stats` is a frame of a broker."""
    with TemporaryDirectory(prefix="bench-console-many-") as folder_name:
        folder = Path(folder_name)
        token = add_token(folder / "tokens", "bench", role=ADMIN)
        options = ConsoleOptions(
            port=0, token_file=folder / "tokens", state_folder=folder / "state", control_socket=folder / "control.sock"
        )
        start = ConsoleStart(options=options, history=None, log_level="error")
        command = [sys.executable, "-m", CONSOLE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        stand_in = StandIn(clients, stats)
        with (
            _served(stand_in, folder / "control.sock"),
            subprocess.Popen(command, env=environment(), **pipes) as process,  # type: ignore[call-overload]
        ):
            try:
                process.stdin.write(encode_start(start))
                process.stdin.flush()
                url = json.loads(process.stdout.readline())["url"]
                with Api(url, token) as api:
                    wait_for("the console knows all clients", lambda: _knows(api, clients))
                yield ManyClients(stand_in, url, token, process.pid)
            finally:
                process.stdin.close()


def many_clients(clients: int, stats: Stats, times: int) -> Iterator[tuple[str, float]]:
    """Memory of the console that knows so many, and how fast it searches them."""
    with console_of_many(clients, stats) as console:
        with Api(console.url, console.token) as api:
            yield from _ask(api, times)
        yield "memory/console_many_mb", psutil.Process(console.pid).memory_info().rss / 1e6


def _knows(api: Api, clients: int) -> bool:
    page = api.value("/api/v1/clients", limit=1)
    return bool(page["complete"] and page["total"] == clients)


def _ask(api: Api, times: int) -> Iterator[tuple[str, float]]:
    waits = [
        api.timed_ms("/api/v1/clients", q=f"press-{number % 10:05d}", sort="-owed", limit=100)
        for number in range(times)
    ]
    yield "api/many/clients/p50_ms", quantile(waits, 0.5)
    yield "api/many/clients/p99_ms", quantile(waits, 0.99)
