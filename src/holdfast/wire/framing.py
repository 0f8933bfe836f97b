"""Framing: finds the packets in a stream of bytes, however the network cut it.

    first byte │ remaining length (1 to 4 bytes) │ body

A `Framer` is fed chunks and then moves from packet to packet in place: `first`, `body` and `end` tell
where the current one lies in `data`, so that a buffer with a thousand packets is walked over without
making an object for any of them.

What can be refused is refused on the first bytes, before anything is buffered: a packet type or flags
that do not exist, a length that is malformed or above the limit.
"""

from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.protocol import (
    AUTH,
    CONNECT,
    MAX_VARINT,
    PACKET_NAMES,
    PUBLISH,
    PUBREL,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V5,
    V31,
)
from holdfast.model.reasons import MALFORMED_PACKET, PACKET_TOO_LARGE

#: First byte and the longest remaining length.
MAX_HEADER_BYTES: Final = 5
MAX_PACKET_BYTES: Final = MAX_HEADER_BYTES + MAX_VARINT


def _valid_first_bytes(version: int) -> bytes:
    """For each first byte 1 if it may begin a packet, else 0 [MQTT-2.1.3-1]."""
    valid = bytearray(256)
    for kind in range(CONNECT, AUTH + 1):
        if kind == PUBLISH:
            for flags in range(16):
                qos = flags >> 1 & 3
                dup = flags >> 3
                # [MQTT-3.3.1-4] no QoS 3, [MQTT-3.3.1-2] no DUP with QoS 0
                valid[kind << 4 | flags] = int(qos != 3 and not (dup and qos == 0))
        elif kind in (PUBREL, SUBSCRIBE, UNSUBSCRIBE):  # [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1]
            valid[kind << 4 | 0x02] = 1
            if version == V31:  # there these three may be repeated with DUP
                valid[kind << 4 | 0x0A] = 1
        elif kind != AUTH or version in (0, V5):
            valid[kind << 4] = 1
    return bytes(valid)


#: By protocol level; 0 stands for a connection whose CONNECT has not come yet.
_VALID: Final = {version: _valid_first_bytes(version) for version in (0, 3, 4, 5)}


class Framer:
    """Packets in a stream of bytes.

        framer.feed(chunk)
        while framer.advance():
            ... framer.data[framer.body:framer.end] ...

    1. Between `feed` and the `advance` that returns False, `data[start:end]` is the current packet.
    2. At most one incomplete packet is kept, and none that is larger than `limit_bytes`.
    3. The cost is linear in the bytes fed: a large packet in many chunks is joined once.
    """

    def __init__(self, limit_bytes: int = MAX_PACKET_BYTES) -> None:
        #: Largest packet accepted, its header included.
        self.limit_bytes = limit_bytes
        self._version = 0
        self._valid = _VALID[0]
        self.data = b""
        #: The current packet: its first byte, and where it, its body and the next one begin.
        self.first = 0
        self.start = 0
        self.body = 0
        self.end = 0
        #: The beginning of an incomplete packet, if there is one; its bytes, and how many it takes to get on.
        self._parts: list[bytes] | None = None
        self._have_bytes = 0
        self._need_bytes = 0

    def speak(self, version: int) -> None:
        """The connection's protocol level is known: from now on hold the peer to its rules."""
        self._version = version
        self._valid = _VALID[version]

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        if self.end < len(self.data):
            self._set_aside(self.end, 0)
        parts = self._parts
        if parts is None:
            self.data = chunk
            self.end = 0
            return
        parts.append(chunk)
        self._have_bytes += len(chunk)
        if self._have_bytes >= self._need_bytes:
            self.data = b"".join(parts)
            self.end = 0
            self._parts = None
            self._have_bytes = 0

    def advance(self) -> bool:
        """Go to the next complete packet; False if there is none yet. PeerError if it breaks a rule."""
        data = self.data
        start = self.end
        count = len(data)
        if start >= count:
            if start:
                # An idle connection need not hold its last read, which may have been a large one.
                self.data = b""
                self.end = 0
            return False
        first = data[start]
        self.start = start
        if self._valid[first] == 0:
            raise _bad_first_byte(first)
        pos = start + 1
        if pos >= count:
            self._set_aside(start, 2)
            return False
        length = data[pos]
        if length >= 0x80:
            length &= 0x7F
            shift = 7
            while True:
                pos += 1
                if pos >= count:
                    if shift > 21:
                        raise PeerError(MALFORMED_PACKET, "the remaining length has more than four bytes")
                    self._set_aside(start, count - start + 1)
                    return False
                byte = data[pos]
                if shift > 21:  # v5 2.1.4
                    raise PeerError(MALFORMED_PACKET, "the remaining length has more than four bytes")
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            if byte == 0 and self._version == V5:  # [MQTT-1.5.5-1]; MQTT 3 does not ask for it
                raise PeerError(MALFORMED_PACKET, "the remaining length uses more bytes than it needs")
        body = pos + 1
        end = body + length
        if end - start > self.limit_bytes:
            raise PeerError(
                PACKET_TOO_LARGE,
                f"{PACKET_NAMES[first >> 4]} of {end - start} bytes; at most {self.limit_bytes} are accepted",
            )
        if end > count:
            self._set_aside(start, end - start)
            return False
        self.first = first
        self.body = body
        self.end = end
        return True

    def current(self) -> bytes:
        """The bytes from the packet on that `advance` went to, or refused to go to."""
        return self.data[self.start :]

    def buffered_bytes(self) -> int:
        """Bytes kept of an incomplete packet."""
        return self._have_bytes

    def _set_aside(self, start: int, need_bytes: int) -> None:
        """Keep data[start:] until `need_bytes` of it are there."""
        rest = self.data[start:]
        self._parts = [rest]
        self._have_bytes = len(rest)
        self._need_bytes = need_bytes
        self.data = b""
        self.end = 0


def _bad_first_byte(first: int) -> PeerError:
    kind = first >> 4
    if kind == 0:
        return PeerError(MALFORMED_PACKET, "packet type 0 does not exist")
    return PeerError(MALFORMED_PACKET, f"{PACKET_NAMES[kind]} with the flags {first & 0x0F:04b}")
