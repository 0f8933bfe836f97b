"""Clients that make trouble, and those who publish what the trouble is about."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence

from bench.brokers import packets
from bench.brokers.clients import Client, Publisher
from bench.brokers.crowd import Crowd
from bench.brokers.packets import PUBACK, Cycle, Ring, Shape

VERSION = 5
#: Packets in a ring, and how many of them may be unacknowledged.
_RING = 1024
_WINDOW = 200
_IDS = Cycle(1, _RING)
_PINGRESP = 0xD0
#: A retained message of QoS 0.
RETAINED = 0x31
#: A receive buffer that is soon full.
_SMALL_BYTES = 8192


class Fetcher(Client):
    """Takes what it is owed."""

    def __init__(self, crowd: Crowd) -> None:
        super().__init__(crowd.poll, crowd.port, crowd.version)
        self.got = 0

    def on_messages(self, data: bytearray, first: int, body: int, end: int, step: int, count: int) -> None:
        self.got += count
        if first & 6:
            ident = body + 2 + (data[body] << 8 | data[body + 1])
            self.answer(PUBACK, data[ident:end:step], data[ident + 1 : end : step])


class Sluggard:
    """A subscriber that reads `bytes_per_s`, or not at all, and acknowledges nothing."""

    def __init__(self, port: int, name: str, topic: str, qos: int, bytes_per_s: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BYTES)
        self._socket.connect(("127.0.0.1", port))
        self._socket.sendall(packets.connect(VERSION, name, clean=True))
        self._expect(packets.CONNACK)
        self._socket.sendall(packets.subscribe(VERSION, [topic], qos))
        self._expect(packets.SUBACK)
        self._bytes_per_s = bytes_per_s
        self._began = time.monotonic()
        self.got_bytes = 0

    def _expect(self, first: int) -> None:
        head = self._socket.recv(2)
        if head[0] != first or len(self._socket.recv(head[1])) != head[1]:
            raise SystemExit(f"a packet {head[0]:#x} came, {first:#x} was expected")

    def work(self) -> None:
        """Read as much as its pace allows by now."""
        due_bytes = int((time.monotonic() - self._began) * self._bytes_per_s) - self.got_bytes
        if due_bytes > 0:
            try:
                self.got_bytes += len(self._socket.recv(due_bytes, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return

    def close(self) -> None:
        self._socket.close()


class Flooder:
    """One connection that publishes as fast as it is read from, with QoS 0, and waits for answers when told to."""

    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._reader = self._socket.makefile("rb")
        self._socket.sendall(packets.connect(VERSION, name, clean=True))
        self.until(packets.CONNACK)

    def publish(self, topics: Iterable[str], *, retain: bool) -> None:
        """A message for each topic; returns when all were handled."""
        first = packets.PUBLISH | int(retain)
        for name in topics:
            self._socket.sendall(packets.frame(first, packets.text(name) + b"\x00" + b"x" * 30))
        self._socket.sendall(b"\xc0\x00")
        self.until(_PINGRESP)

    def subscribe(self, filters: list[str]) -> None:
        self._socket.sendall(packets.subscribe(VERSION, filters, 0))

    def until(self, wanted: int) -> None:
        """Read packets until one begins with this byte."""
        first = -1
        while first != wanted:
            first = self._reader.read(1)[0]
            size = shift = 0
            more = True
            while more:
                byte = self._reader.read(1)[0]
                size |= (byte & 0x7F) << shift
                shift += 7
                more = byte >= 0x80
            self._reader.read(size)

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


class Publishers:
    """One publisher for each topic."""

    def __init__(self, crowd: Crowd, topics: Sequence[str], payload_bytes: int) -> None:
        self._crowd = crowd
        self._ready: list[Publisher] = []
        shape = Shape(VERSION, 1, payload_bytes)
        rings = [Ring(shape, topic, place, _RING) for place, topic in enumerate(topics)]

        def make(place: int) -> Publisher:
            return Publisher(crowd.poll, crowd.port, VERSION, rings[place], _IDS, self._ready)

        self._all = crowd.open(make, [f"publisher-{topic}" for topic in topics])
        for publisher in self._all:
            publisher.window = _WINDOW

    def publish(self, count: int, *, rate: int = 0, sluggards: Sequence[Sluggard] = ()) -> None:
        """`count` messages of each, at `rate` a second or as fast as they are acknowledged."""
        began = time.monotonic()
        quota = 0
        while any(publisher.acked < count for publisher in self._all):
            due = min(count, int((time.monotonic() - began) * rate)) if rate else count
            if due > quota:
                quota = due
                for publisher in self._all:
                    publisher.quota = quota
                    publisher.call()
            turn, self._ready[:] = self._ready[:], []
            for publisher in turn:
                publisher.queued = False
                if publisher.pump():
                    publisher.call()
            self._crowd.step(0.0 if self._ready else 0.005)
            for sluggard in sluggards:
                sluggard.work()

    def close(self) -> None:
        self._crowd.close(self._all)
