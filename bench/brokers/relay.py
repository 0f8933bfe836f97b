"""The simplest thing that answers like a broker: it hands on whole reads, and decides nothing.

What the generator reaches against it is more than it reaches against any broker that does its work: its ceiling. It
keeps no sessions, gives out no packet ids, and takes every topic of a connection to be the first one.

    python -m bench.brokers.relay <port>
"""

from __future__ import annotations

import gc
import select
import socket
import sys

from bench.brokers.packets import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL
from bench.brokers.stream import LostError, Stream

_CONNECT, _SUBSCRIBE, _DISCONNECT = 0x10, 0x80, 0xE0


class Relay:
    def __init__(self, port: int) -> None:
        self.poll = select.epoll()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self._listener.setblocking(False)
        self.poll.register(self._listener.fileno(), select.EPOLLIN)
        self._ends: dict[int, End] = {}
        #: Who subscribed to what; a filter with `+` at its end is kept without it.
        self.by_filter: dict[str, list[End]] = {}

    def serve(self) -> None:
        while True:
            for fd, events in self.poll.poll():
                end = self._ends.get(fd)
                if end is None:
                    self._accept()
                    continue
                try:
                    end.ready(events)
                except LostError:
                    self._drop(fd, end)

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            end = End(self, connected)
            self._ends[end.fd] = end

    def _drop(self, fd: int, end: End) -> None:
        del self._ends[fd]
        for ends in self.by_filter.values():
            if end in ends:
                ends.remove(end)
        end.close()

    def targets(self, topic: str) -> list[End]:
        return self.by_filter.get(topic) or self.by_filter.get(topic[: topic.rindex("/") + 1]) or []


class End(Stream):
    """A client's connection."""

    def __init__(self, relay: Relay, connected: socket.socket) -> None:
        super().__init__(relay.poll, connected)
        self._relay = relay
        self._version = 4
        self._targets: list[End] | None = None

    def on_run(self, data: bytearray, first: int, at: int, body: int, step: int, count: int) -> None:
        end = at + step * count
        kind = first & 0xF0
        if kind == PUBLISH:
            self._pass_on(data, first, at, body, end, step)
        elif first == PUBREC:
            self.answer(PUBREL, data[body:end:step], data[body + 1 : end : step])
        elif first == PUBREL:
            self.answer(PUBCOMP, data[body:end:step], data[body + 1 : end : step])
        elif kind == _CONNECT:
            self._version = data[body + 6]
            self.send(b"\x20\x03\x00\x00\x00" if self._version == 5 else b"\x20\x02\x00\x00")
        elif kind == _SUBSCRIBE:
            for begin in range(at, end, step):
                self._subscribe(bytes(data[begin + body - at : begin + step]))
        elif kind == _DISCONNECT:
            raise LostError("goodbye")

    def _pass_on(self, data: bytearray, first: int, at: int, body: int, end: int, step: int) -> None:
        topic_end = body + 2 + (data[body] << 8 | data[body + 1])
        if self._targets is None:
            self._targets = self._relay.targets(data[body + 2 : topic_end].decode())
        if first & 6:
            answer = PUBREC if first & 4 else PUBACK
            self.answer(answer, data[topic_end:end:step], data[topic_end + 1 : end : step])
        packets = bytes(data[at:end])
        for target in self._targets:
            target.send(packets)

    def _subscribe(self, packet: bytes) -> None:
        place = 3 if self._version == 5 else 2
        granted = bytearray()
        while place < len(packet):
            end = place + 2 + (packet[place] << 8 | packet[place + 1])
            self._relay.by_filter.setdefault(packet[place + 2 : end].decode().removesuffix("+"), []).append(self)
            granted.append(packet[end])
            place = end + 1
        answer = packet[:2] + (b"\x00" if self._version == 5 else b"") + bytes(granted)
        self.send(bytes((0x90, len(answer))) + answer)


if __name__ == "__main__":
    gc.disable()
    Relay(int(sys.argv[1])).serve()
