"""A client of the broker that has nothing to do with history: a QoS 1 message every 5 ms, and how long PUBACKs took."""

from __future__ import annotations

import socket
import struct
import time

from bench.brokers.packets import CONNACK, PUBACK, connect, frame, text

_EVERY_S = 0.005
_PAYLOAD = bytes(64)
_V311 = 4


def waits_ms(port: int, duration_s: float) -> list[float]:
    """How long the publisher waited for each acknowledgement, sorted."""
    found: list[float] = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(connect(_V311, "bystander", clean=True))
        assert _take(connection)[0] == CONNACK
        began_s = time.perf_counter()
        due_s = began_s
        number = 0
        while (now_s := time.perf_counter()) < began_s + duration_s:
            if now_s < due_s:
                time.sleep(due_s - now_s)
            number = number % 65_535 + 1
            # From when it was due: waiting for the one before counts as waiting.
            connection.sendall(frame(0x32, text("bystander/state") + struct.pack(">H", number) + _PAYLOAD))
            assert _take(connection) == bytes((PUBACK, 2)) + struct.pack(">H", number)
            found.append((time.perf_counter() - due_s) * 1e3)
            due_s += _EVERY_S
    return sorted(found)


def _take(connection: socket.socket) -> bytes:
    """A packet of four bytes, as CONNACK and PUBACK are."""
    packet = b""
    while len(packet) < 4:
        piece = connection.recv(4 - len(packet))
        if not piece:
            raise SystemExit("the broker closed the connection")
        packet += piece
    return packet
