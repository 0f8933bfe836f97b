"""The data types of MQTT: integers, variable byte integers, strings, binary data.

    two-byte integer    big-endian
    varint              seven bits a byte, low ones first, bit 7 set while more follow, at most four bytes
    string, binary      two-byte length, then the bytes

A `ByteReader` walks over the bytes of one packet. Running past its end means the packet contradicts its
own lengths, so it is malformed; "not all bytes are here yet" is settled before, in `framing.py`.
"""

from typing import Final

from holdfast.model.errors import MisuseError, PeerError
from holdfast.model.protocol import MAX_U16, MAX_VARINT
from holdfast.model.reasons import MALFORMED_PACKET
from holdfast.model.text import decode_text

#: Every two-byte integer, encoded. A lookup costs 3 ns in compiled code, `to_bytes` 30.
U16: Final[list[bytes]] = [i.to_bytes(2, "big") for i in range(MAX_U16 + 1)]
#: Every byte.
U8: Final[list[bytes]] = [bytes((i,)) for i in range(256)]
#: Every variable byte integer of one or two bytes: nearly all lengths there are.
_VARINTS: Final[list[bytes]] = U8[:0x80] + [bytes((i & 0x7F | 0x80, i >> 7)) for i in range(0x80, 0x4000)]


class ByteReader:
    """A place in the bytes of one packet. `what` in its methods names the field for the error."""

    def __init__(self, data: bytes, pos: int, end: int) -> None:
        self.data: Final = data
        self.pos = pos
        self.end: Final = end

    def at_end(self) -> bool:
        return self.pos >= self.end

    def u8(self, what: str) -> int:
        pos = self.pos
        if pos >= self.end:
            raise _cut_short(what)
        self.pos = pos + 1
        return self.data[pos]

    def u16(self, what: str) -> int:
        pos = self.pos
        if pos + 2 > self.end:
            raise _cut_short(what)
        self.pos = pos + 2
        return self.data[pos] << 8 | self.data[pos + 1]

    def u32(self, what: str) -> int:
        return self.u16(what) << 16 | self.u16(what)

    def varint(self, what: str) -> int:
        value = 0
        shift = 0
        while shift <= 21:
            byte = self.u8(what)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift > 0:  # [MQTT-1.5.5-1]
                    raise PeerError(MALFORMED_PACKET, f"{what} uses more bytes than it needs")
                return value
            shift += 7
        raise PeerError(MALFORMED_PACKET, f"{what} has more than four bytes")

    def binary(self, what: str) -> bytes:
        length = self.u16(what)
        start = self.pos
        if start + length > self.end:
            raise _cut_short(what)
        self.pos = start + length
        return self.data[start : self.pos]

    def text(self, what: str) -> str:
        return decode_text(self.binary(what), what)

    def rest(self) -> bytes:
        """Everything up to the end."""
        start = self.pos
        self.pos = self.end
        return self.data[start : self.end]


def _cut_short(what: str) -> PeerError:
    return PeerError(MALFORMED_PACKET, f"the packet ends within {what}")


def encode_u16(value: int) -> bytes:
    if not 0 <= value <= MAX_U16:
        raise MisuseError(f"{value} does not fit into two bytes")
    return U16[value]


def encode_varint(value: int) -> bytes:
    if 0 <= value < 0x4000:
        return _VARINTS[value]
    if not 0 <= value <= MAX_VARINT:
        raise MisuseError(f"{value} does not fit into a variable byte integer (0 to {MAX_VARINT})")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_binary(value: bytes) -> bytes:
    if len(value) > MAX_U16:
        raise MisuseError(f"{len(value)} bytes do not fit into a field of at most {MAX_U16}")
    return U16[len(value)] + value


def encode_text(value: str) -> bytes:
    if "\0" in value:
        raise MisuseError("U+0000 may not stand in an MQTT string")
    try:
        return encode_binary(value.encode())
    except UnicodeEncodeError:
        raise MisuseError(f"{value!r} holds a lone surrogate and cannot be encoded") from None


def encode_frame(first: int, body: bytes) -> bytes:
    """A whole packet: first byte, remaining length, body."""
    return U8[first] + encode_varint(len(body)) + body
