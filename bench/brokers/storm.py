"""Connections and sessions in numbers: how fast they come in, and what memory they take."""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress

from bench.brokers import packets
from bench.brokers.crowd import AT_ONCE, STALL_S, Crowd, allow_open_files, leave_sessions
from bench.brokers.jobs import Job
from bench.brokers.stream import LostError
from bench.brokers.usage import Span, Usage

_CONNACK_BYTES = 4


def measure_storm(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    """Connect one client after the other, some at a time, and keep them. Only sockets here: this counts connects."""
    allow_open_files(job.clients)
    if job.returning:
        _leave(_connect_all(job))
    span = Span(usage)
    answered = _connect_all(job)
    figures = span.figures(len(answered), time.monotonic_ns())
    _leave(answered)
    return {"load": figures}


def _connect_all(job: Job) -> list[socket.socket]:
    """Sockets of all clients, when each has its CONNACK."""
    names = [f"c{os.getpid()}-{0 if job.one_id else i}" for i in range(job.clients)]
    hellos = [packets.connect(job.version, name, clean=not job.returning) for name in names]
    poll = select.epoll()
    waiting: dict[int, socket.socket] = {}
    answered: list[socket.socket] = []
    begun = 0
    while len(answered) < job.clients:
        while begun < job.clients and len(waiting) < AT_ONCE:
            client = socket.socket()
            client.connect(("127.0.0.1", job.ports[begun % len(job.ports)]))
            client.send(hellos[begun])
            waiting[client.fileno()] = client
            poll.register(client.fileno(), select.EPOLLIN)
            begun += 1
        events = poll.poll(STALL_S)
        if not events:
            raise LostError(f"{len(answered)} of {job.clients} connections came about")
        for fd, _ in events:
            client = waiting.pop(fd)
            poll.unregister(fd)
            answer = client.recv(64)
            # Of many clients with one id most are refused, or replaced before their CONNACK.
            if not job.one_id and (len(answer) < _CONNACK_BYTES or answer[0] != packets.CONNACK or answer[3]):
                raise LostError("a CONNECT was refused")
            answered.append(client)
    return answered


def _leave(clients: list[socket.socket]) -> None:
    for client in clients:
        with suppress(OSError):
            client.send(packets.DISCONNECT_FRAME)
        client.close()


def measure_churn(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    """Connect clients, some at a time, each of which leaves as soon as it is let in; up to the last end."""
    crowd = Crowd(job.ports, job.version)
    span = Span(usage)
    for begin in range(0, job.clients, AT_ONCE):
        names = [f"c{os.getpid()}-{i}" for i in range(begin, min(job.clients, begin + AT_ONCE))]
        crowd.close(crowd.plain(names))
    crowd.close(crowd.plain(["last"]))
    return {"load": span.figures(job.clients, time.monotonic_ns())}


def measure_idle(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    """Memory of connections that are there and do nothing."""
    allow_open_files(job.clients + job.already)
    crowd = Crowd(job.ports, job.version)
    crowd.plain([f"w{i}" for i in range(job.already)])
    time.sleep(job.settle_s)
    before = usage.resident_bytes()
    crowd.plain([f"i{i}" for i in range(job.clients)])
    time.sleep(job.settle_s)
    return {"load": {"bytes": (usage.resident_bytes() - before) / job.clients}}


def measure_sessions(job: Job, usage: Usage) -> dict[str, dict[str, float]]:
    """Memory of sessions with one subscription each, whose clients are away."""
    crowd = Crowd(job.ports, job.version)
    leave_sessions(crowd, "w", job.already)
    time.sleep(job.settle_s)
    before = usage.resident_bytes()
    leave_sessions(crowd, "o", job.clients)
    time.sleep(job.settle_s)
    return {"load": {"bytes": (usage.resident_bytes() - before) / job.clients}}
