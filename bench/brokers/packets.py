"""MQTT packets of the load generator, and the rings of prepared PUBLISH packets.

Written here and not taken from `holdfast.wire`: a mistake in the codec must not hide behind the same mistake in the
program that checks it, and other brokers are measured by an outsider too.

Every payload begins with who sent it and which message it is:

    publisher (2 bytes) │ sequence (2 bytes) │ send time in ns (8 bytes, 0 unless latency is measured) │ filling

All packets of a ring are equally long, so what is in them can be reached by slices with a step.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = 0x30, 0x40, 0x50, 0x62, 0x70
CONNACK, SUBACK = 0x20, 0x90
DISCONNECT_FRAME = b"\xe0\x00"

#: Bytes of the payload that are not filling.
HEADER_BYTES = 12
_HEADER = struct.Struct(">HHQ")
#: Packets that one read can hold: acknowledgements of 4 bytes in a megabyte.
_LONGEST_RUN = 1 << 18
_NEVER = b"\xff\xff\xff\xff"


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def frame(first: int, body: bytes) -> bytes:
    """A packet from its first byte and everything behind the remaining length."""
    length = len(body)
    digits = bytearray()
    while True:
        length, digit = divmod(length, 128)
        digits.append(digit | (128 if length else 0))
        if not length:
            return bytes((first,)) + bytes(digits) + body


def connect(version: int, client_id: str, *, clean: bool) -> bytes:
    """CONNECT without keep alive; a session that is not clean does not expire."""
    properties = b""
    if version == 5:
        properties = b"\x00" if clean else b"\x05\x11" + _NEVER
    flags = 2 if clean else 0
    return frame(0x10, text("MQTT") + bytes((version, flags, 0, 0)) + properties + text(client_id))


def subscribe(version: int, filters: list[str], qos: int) -> bytes:
    properties = b"\x00" if version == 5 else b""
    return frame(0x82, b"\x00\x01" + properties + b"".join([text(name) + bytes((qos,)) for name in filters]))


@dataclass(frozen=True)
class Shape:
    """What the PUBLISH packets of one load have in common."""

    version: int
    qos: int
    payload_bytes: int = 64

    def header_at(self, topic: str) -> int:
        """Where the payload lies in a packet without properties, counted from the end of the remaining length."""
        return 2 + len(topic.encode()) + (2 if self.qos else 0) + (1 if self.version == 5 else 0)

    def publish(self, topic: str, packet_id: int, publisher: int, sequence: int, sent_ns: int = 0) -> bytes:
        ident = struct.pack(">H", packet_id) if self.qos else b""
        properties = b"\x00" if self.version == 5 else b""
        filling = b"x" * (self.payload_bytes - HEADER_BYTES)
        payload = _HEADER.pack(publisher, sequence, sent_ns) + filling
        return frame(PUBLISH | self.qos << 1, text(topic) + ident + properties + payload)


class Cycle:
    """The bytes of numbers that come round and round, so that any stretch of them is one slice."""

    def __init__(self, first: int, count: int) -> None:
        numbers = range(first, first + count)
        turns = 1 + -(-_LONGEST_RUN // count)
        self.high = bytes([n >> 8 for n in numbers]) * turns
        self.low = bytes([n & 255 for n in numbers]) * turns


class Ring:
    """Prepared packets of one publisher, sent over and over: message n is packet n % count.

    1. `count` is larger than any window, so a packet id is free again when its turn comes; and a multiple of 256, so
       that the low byte of the sequence goes round evenly.
    2. With `spread`, every packet has another topic, below the given one.
    """

    def __init__(self, shape: Shape, topic: str, publisher: int, count: int, *, spread: bool = False) -> None:
        topics = [f"{topic}/{number:05d}" if spread else topic for number in range(count)]
        packets = [shape.publish(name, number + 1, publisher, number) for number, name in enumerate(topics)]
        self.count = count
        self.frame_bytes = len(packets[0])
        self.data = memoryview(b"".join(packets))


def sent_ns(data: bytes | bytearray, at: int) -> int:
    """The send time of the payload that begins at `at`."""
    return int.from_bytes(data[at + 4 : at + HEADER_BYTES], "big")
