"""What a golden case is: bytes laid out by hand from the standard, and the packet they stand for.

The bytes never change. Whoever finds one of them wrong has found a change of the protocol, or a bug.
"""

from dataclasses import dataclass

from holdfast.wire.codec import decode_all
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Packet

VERSION_NAMES = {3: "3.1", 4: "3.1.1", 5: "5.0"}


@dataclass(frozen=True)
class Golden:
    name: str
    version: int
    sender: int
    wire: bytes
    packet: Packet
    #: False for a legal form that says the same in more bytes than needed: it is read and never written.
    shortest: bool = True

    def __str__(self) -> str:
        return f"{VERSION_NAMES[self.version]} {self.name}"


def decode_stream(wire: bytes, version: int, sender: int) -> list[Packet]:
    """Every packet in `wire`, on a connection that speaks `version`."""
    framer = Framer()
    framer.speak(version)
    packets = decode_all(framer, wire, version, sender)
    assert framer.buffered_bytes() == 0, "the bytes end within a packet"
    return packets
