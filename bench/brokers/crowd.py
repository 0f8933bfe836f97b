"""All connections of one job: one poll, and how to open and close many of them."""

from __future__ import annotations

import resource
import select
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.brokers import packets
from bench.brokers.clients import Client
from bench.brokers.stream import LostError

#: Without anything new for so long, the broker is taken to have lost something.
STALL_S = 10.0
#: Connections that wait for their CONNACK at one time; below the backlog of any listener.
AT_ONCE = 100
#: A broker that takes in fewer sessions is not worth waiting for.
_SESSIONS_PER_S = 500

Kind = TypeVar("Kind", bound=Client)


class Crowd:
    def __init__(self, ports: Sequence[int], version: int) -> None:
        """Clients are spread over the ports, which lead to one broker."""
        self.ports = tuple(ports)
        self.version = version
        self.poll = select.epoll()
        self._by_fd: dict[int, Client] = {}

    @property
    def port(self) -> int:
        """The first one."""
        return self.ports[0]

    def port_of(self, place: int) -> int:
        return self.ports[place % len(self.ports)]

    def step(self, timeout_s: float) -> int:
        """Wait for something to come, and deal with it; how many connections had something."""
        by_fd = self._by_fd
        events = self.poll.poll(timeout_s)
        for fd, what in events:
            by_fd[fd].ready(what)
        return len(events)

    def until(self, done: Callable[[], bool], *, what: str, limit_s: float = 30.0) -> None:
        """Go on until `done`; LostError if nothing comes any more, or it takes too long."""
        heard = began = time.monotonic()
        while not done():
            if self.step(0.05):
                heard = time.monotonic()
            elif time.monotonic() - heard > STALL_S:
                raise LostError(f"nothing more came: {what}")
            if heard - began > limit_s:
                raise LostError(f"took more than {limit_s:.0f} s: {what}")

    def open(self, make: Callable[[int], Kind], client_ids: Sequence[str], *, clean: bool = True) -> list[Kind]:
        """Connect one client for each id; they all have their CONNACK then."""
        made: list[Kind] = []
        for begin in range(0, len(client_ids), AT_ONCE):
            part = [self._begin(make(begin + i), name, clean) for i, name in enumerate(client_ids[begin:][:AT_ONCE])]
            self.until(lambda part=part: all(client.connected for client in part), what="CONNACK")  # type: ignore[misc]
            made += part
        return made

    def _begin(self, client: Kind, client_id: str, clean: bool) -> Kind:
        self._by_fd[client.fd] = client
        client.send(packets.connect(self.version, client_id, clean=clean))
        return client

    def plain(self, client_ids: Sequence[str], *, clean: bool = True) -> list[Client]:
        """Clients that only are there."""
        return self.open(lambda place: Client(self.poll, self.port_of(place), self.version), client_ids, clean=clean)

    def subscribe(self, clients: Sequence[Client], filters: Sequence[list[str]], qos: int) -> None:
        """Subscribe each client to its list of filters, so many in one packet that it stays below 16 KB."""
        wanted = []
        for client, names in zip(clients, filters, strict=True):
            parts = [names[i : i + 100] for i in range(0, len(names), 100)]
            wanted.append(client.answered + len(parts))
            for part in parts:
                client.send(packets.subscribe(self.version, part, qos))
        both = list(zip(clients, wanted, strict=True))
        self.until(lambda: all(client.answered >= count for client, count in both), what="SUBACK")

    def close(self, clients: Sequence[Client]) -> None:
        """Say goodbye and leave."""
        for client in clients:
            del self._by_fd[client.fd]
            client.send(packets.DISCONNECT_FRAME)
            client.close()

    def forget(self, client_ids: Sequence[str]) -> None:
        """End the sessions that were kept under these ids."""
        self.close(self.plain(client_ids))


def leave_sessions(crowd: Crowd, prefix: str, count: int) -> None:
    """Sessions with one subscription each, whose clients go away."""
    began = time.monotonic()
    limit_s = 3 * STALL_S + count / _SESSIONS_PER_S
    for begin in range(0, count, AT_ONCE):
        names = [f"{prefix}{i:06d}" for i in range(begin, min(count, begin + AT_ONCE))]
        clients = crowd.plain(names, clean=False)
        crowd.subscribe(clients, [[f"b/offline/{name}"] for name in names], 1)
        crowd.close(clients)
        if time.monotonic() - began > limit_s:
            raise LostError(f"{begin + AT_ONCE} of {count} sessions within {limit_s:.0f} s")


def allow_open_files(count: int) -> None:
    """Raise this process's limit; LostError if the system does not let it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 100
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise LostError(f"{wanted} open files are needed, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
