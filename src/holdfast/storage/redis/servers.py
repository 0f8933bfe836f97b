"""Who serves a key: one Redis, or the master of its slot in a cluster.

What is known may be out of date at any time. `refresh` looks again, and is called when something went wrong.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from redis.exceptions import ResponseError

from holdfast.storage.redis.keys import SLOTS, slot_of_key
from holdfast.storage.redis.line import Line, LostError
from holdfast.storage.redis.options import RedisOptions

#: Host and port.
Address = tuple[str, int]


class Servers(Protocol):
    """Classes match it by shape."""

    def line(self, slot: int) -> Line | None:
        """The server of a slot; None as long as it is not known."""
        ...

    def line_of(self, base: bytes) -> Line | None:
        """The server of a client's keys."""
        ...

    def line_to(self, address: Address) -> Line:
        """A certain server, to which another one pointed."""
        ...

    def masters(self) -> Iterator[Line]:
        """All that hold keys."""
        ...

    async def refresh(self, timeout_s: float) -> None:
        """Look who serves what. LostError if nobody can tell."""
        ...

    async def close(self) -> None: ...


class OneServer:
    """One Redis. If there are several URLs, it is the one that says that it is the master."""

    def __init__(self, options: RedisOptions) -> None:
        self._lines: Final = [Line(options, url) for url in options.urls]
        # Of several, one has to say first that it is the master: a copy would answer, too, and not the truth.
        self._current = 0 if len(self._lines) == 1 else -1

    def line(self, slot: int) -> Line | None:  # noqa: ARG002
        return self._lines[self._current] if self._current >= 0 else None

    def line_of(self, base: bytes) -> Line | None:  # noqa: ARG002
        return self.line(0)

    def line_to(self, address: Address) -> Line:
        raise LostError(f"Redis points to {address[0]}:{address[1]}: it is a cluster, which the settings do not say")

    def masters(self) -> Iterator[Line]:
        if self._current >= 0:
            yield self._lines[self._current]

    async def refresh(self, timeout_s: float) -> None:
        if len(self._lines) == 1:
            return
        reason = ""
        for step in range(1, len(self._lines) + 1):
            place = (self._current + step) % len(self._lines)
            line = self._lines[place]
            try:
                (reply,) = await line.run([(b"ROLE",)], timeout_s / len(self._lines))
            except LostError as lost:
                reason = str(lost)
                continue
            if isinstance(reply, list) and reply[0] == b"master":
                self._current = place
                return
            reason = f"Redis at {line.name} is not the master"
        raise LostError(reason)

    async def close(self) -> None:
        for line in self._lines:
            await line.close()


class ClusterServers:
    """The masters of a Redis Cluster, as any of its members tells."""

    def __init__(self, options: RedisOptions) -> None:
        self._options: Final = options
        self._seeds: Final = [Line(options, url) for url in options.urls]
        self._lines: Final[dict[Address, Line]] = {}
        self._slots: list[Address | None] = [None] * SLOTS

    def line(self, slot: int) -> Line | None:
        address = self._slots[slot]
        return None if address is None else self.line_to(address)

    def line_of(self, base: bytes) -> Line | None:
        return self.line(slot_of_key(base))

    def line_to(self, address: Address) -> Line:
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = Line(self._options, self._options.urls[0], address)
        return line

    def masters(self) -> Iterator[Line]:
        for address in sorted({address for address in self._slots if address is not None}):
            yield self.line_to(address)

    async def refresh(self, timeout_s: float) -> None:
        # Known masters first: the operator's list may be of servers that have gone.
        asked = [*self._lines.values(), *self._seeds]
        reason = "no member is known"
        each_s = max(timeout_s / max(len(asked), 1), 0.2)
        for line in asked:
            try:
                (reply,) = await line.run([(b"CLUSTER", b"SLOTS")], each_s)
            except LostError as lost:
                reason = str(lost)
                continue
            if isinstance(reply, ResponseError):
                reason = f"Redis at {line.name}: {reply}"
                continue
            assert isinstance(reply, list)
            self._learn(reply, line)
            if any(address is not None for address in self._slots):
                return
            reason = f"Redis at {line.name} knows no slots"
        raise LostError(reason)

    def _learn(self, ranges: list[list[object]], told_by: Line) -> None:
        """A range: its first and last slot, its master, its copies. A member that knows no name of its own says ''."""
        slots: list[Address | None] = [None] * SLOTS
        for first, last, master, *_ in ranges:
            assert isinstance(first, int)
            assert isinstance(last, int)
            assert isinstance(master, list)
            host = (master[0] or b"").decode() or told_by.host
            slots[first : last + 1] = [(host, int(master[1]))] * (last + 1 - first)
        self._slots = slots

    async def close(self) -> None:
        for line in [*self._lines.values(), *self._seeds]:
            await line.close()


def open_servers(options: RedisOptions) -> Servers:
    return ClusterServers(options) if options.cluster else OneServer(options)
