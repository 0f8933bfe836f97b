"""How fast the console answers: the API, `/metrics`, and a kick."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

from bench.brokers import packets
from bench.brokers.collect import generate
from bench.brokers.jobs import Job, Outcome
from bench.console import rows
from bench.console.api import Api
from bench.console.nodes import Node
from bench.console.present_clients import client_name
from bench.console.quantiles import quantile

_V5 = 5


def _ask(api: Api, call: str, number: int) -> float:
    """How long one call took, in ms."""
    if call == "clients":
        return api.timed_ms("/api/v1/clients", q="press", sort="client", limit=100)
    if call == "client":
        return api.timed_ms(f"/api/v1/clients/{client_name(number)}")
    return api.timed_ms(f"/api/v1/{call}")


def ask_all(node: Node, clients: int, times: int) -> dict[str, list[float]]:
    """How long each call took, in ms, one after the other; the first time of each is not counted."""
    found: dict[str, list[float]] = {call: [] for call in rows.CALLS}
    with node.api() as api:
        for number in range(-1, times):
            for call, waits in found.items():
                took_ms = _ask(api, call, max(number, 0) % clients)
                if number >= 0:
                    waits.append(took_ms)
    return found


def idle_calls(node: Node, clients: int, times: int) -> Iterator[tuple[str, float]]:
    for call, waits in ask_all(node, clients, times).items():
        yield f"api/idle/{call}/p50_ms", quantile(waits, 0.5)
        yield f"api/idle/{call}/p99_ms", quantile(waits, 0.99)


def busy_calls(node: Node, clients: int, load_s: float) -> Iterator[tuple[str, float]]:
    """The same while the broker takes as much as it can."""
    outcomes: list[Outcome] = []
    job = Job(seconds=load_s, ports=(node.port,), pids=(node.running.pid,), alone=True)
    load = threading.Thread(target=lambda: outcomes.append(generate(job)))
    load.start()
    found: dict[str, list[float]] = {call: [] for call in rows.CALLS}
    while load.is_alive():
        for call, waits in ask_all(node, clients, 1).items():
            found[call] += waits
    load.join()
    if outcomes[0].problem:
        raise SystemExit(f"the load could not be measured: {outcomes[0].problem}")
    for call, waits in found.items():
        yield f"api/busy/{call}/p99_ms", quantile(waits, 0.99)


def metrics(node: Node, times: int) -> Iterator[tuple[str, float]]:
    with node.api() as api:
        size = len(api.get("/metrics"))
        waits = [api.timed_ms("/metrics") for _time in range(times)]
    yield "metrics/p95_ms", quantile(waits, 0.95)
    yield "metrics/size_kb", size / 1000


def kicks(node: Node, times: int) -> Iterator[tuple[str, float]]:
    """From the call to the end of the connection, as its client sees it."""
    waits: list[float] = []
    with node.api() as api:
        for number in range(times):
            name = f"kicked-{number}"
            with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
                connection.sendall(packets.connect(_V5, name, clean=True))
                assert connection.recv(1)[0] == packets.CONNACK
                began_s = time.perf_counter()
                gone = ConnectionEnd(connection)
                api.post(f"/api/v1/clients/{name}/kick")
                waits.append((gone.at_s() - began_s) * 1e3)
    yield "kick/p95_ms", quantile(waits, 0.95)


class ConnectionEnd:
    """Notices the end of a connection while another thread waits for its own answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._at_s = 0.0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while self._connection.recv(4096):
            pass
        self._at_s = time.perf_counter()

    def at_s(self) -> float:
        self._thread.join()
        return self._at_s
