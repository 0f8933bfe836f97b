"""One line for each way to break the standard: the clause, the bytes, the answer, and what the answer must mention.

A body that was mistyped is refused as well, for a reason of its own; hence the last column. Clauses are numbered as
in MQTT 5.0 where that has the rule, and as in 3.1.1 (or by section) otherwise.
"""

from dataclasses import dataclass

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, SERVER, V5
from holdfast.wire.codec import decode_all
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Packet

MALFORMED = 0x81
PROTOCOL = 0x82
WRONG_VERSION = 0x84
WRONG_CLIENT_ID = 0x85
WRONG_ALIAS = 0x94
TOO_LARGE = 0x95
QUOTA = 0x97


@dataclass(frozen=True)
class Refusal:
    clause: str
    #: First byte and body, as hex. The remaining length between them is made to fit.
    first: str
    body: str
    reason: int
    #: Part of the detail.
    says: str
    version: int = V5
    sender: int = CLIENT

    def __str__(self) -> str:
        return f"v{self.version} {'client' if self.sender == CLIENT else 'server'} {self.clause}"


def frame(first: str, body: str) -> bytes:
    """A whole packet of less than 128 bytes behind its header."""
    content = bytes.fromhex(body)
    assert len(content) < 128
    return bytes.fromhex(first) + bytes((len(content),)) + content


def decode_bytes(wire: bytes, version: int = V5, sender: int = CLIENT) -> list[Packet]:
    """The packets in `wire`; fails if bytes remain."""
    framer = Framer()
    framer.speak(version)
    packets = decode_all(framer, wire, version, sender)
    assert framer.buffered_bytes() == 0, "the bytes end within a packet"
    return packets


def decode_one(first: str, body: str, version: int = V5, sender: int = CLIENT) -> Packet:
    (packet,) = decode_bytes(frame(first, body), version, sender)
    return packet


def assert_refused(case: Refusal) -> None:
    with pytest.raises(PeerError) as caught:
        decode_one(case.first, case.body, case.version, case.sender)
    assert caught.value.reason == case.reason
    assert case.says in caught.value.detail


def refusal_of(first: str, body: str, sender: int) -> int | None:
    """The reason that an MQTT 5 packet is refused with; None if it is accepted."""
    try:
        decode_one(first, body, V5, sender)
    except PeerError as error:
        return error.reason
    return None


def from_server(case: Refusal) -> Refusal:
    """The same case the other way round."""
    return Refusal(case.clause, case.first, case.body, case.reason, case.says, case.version, SERVER)


def in_version(version: int, cases: list[Refusal]) -> list[Refusal]:
    """The same cases in another version."""
    return [Refusal(c.clause, c.first, c.body, c.reason, c.says, version, c.sender) for c in cases]
