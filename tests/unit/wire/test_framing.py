"""Framing: packets are found however the network cut them, and what can be refused early is."""

from collections.abc import Iterator

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, V5, V31, V311
from holdfast.wire.codec import decode_all
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Ack, Packet, Pingreq, Publish
from tests.unit.wire.refusals import MALFORMED, TOO_LARGE

pytestmark = pytest.mark.compiled

#: PINGREQ, a PUBLISH with a length of two bytes, a PUBACK, an empty PUBLISH.
STREAM = bytes.fromhex("C0 00  30 80 01 0001 74") + b"x" * 125 + bytes.fromhex("40 02 0001  30 03 0001 74")
PACKETS = [Pingreq(), Publish("t", b"x" * 125), Ack(4, 1), Publish("t", b"")]


def framer_for(version: int, limit_bytes: int | None = None) -> Framer:
    framer = Framer() if limit_bytes is None else Framer(limit_bytes)
    framer.speak(version)
    return framer


def refusal(framer: Framer, wire: str) -> PeerError | None:
    """What the framer says to these bytes, where no packet is complete."""
    framer.feed(bytes.fromhex(wire))
    try:
        assert not framer.advance()
    except PeerError as error:
        return error
    return None


@pytest.mark.parametrize("step", [1, 2, 3, 5, 64, len(STREAM)])
def test_any_chunking_gives_the_same_packets(step: int) -> None:
    framer = framer_for(V311)
    packets: list[Packet] = []
    for start in range(0, len(STREAM), step):
        packets += decode_all(framer, STREAM[start : start + step], V311, CLIENT)

    assert packets == PACKETS
    assert framer.buffered_bytes() == 0


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_any_place_to_cut_gives_the_same_packets(cut: int) -> None:
    framer = framer_for(V311)

    before = decode_all(framer, STREAM[:cut], V311, CLIENT)
    kept = framer.buffered_bytes()
    after = decode_all(framer, STREAM[cut:], V311, CLIENT)

    assert before + after == PACKETS
    whole = sum(end <= cut for end in (2, 133, 137, 142))
    assert len(before) == whole
    assert kept == cut - (0, 2, 133, 137, 142)[whole]


def test_empty_chunks_change_nothing() -> None:
    framer = framer_for(V311)
    packets: list[Packet] = []
    for byte in STREAM:
        for chunk in (b"", bytes((byte,)), b""):
            packets += decode_all(framer, chunk, V311, CLIENT)

    assert packets == PACKETS


def test_feeding_while_packets_are_unread_loses_nothing() -> None:
    framer = framer_for(V311)
    for byte in STREAM:
        framer.feed(bytes((byte,)))
    assert framer.advance()
    assert framer.first == 0xC0
    framer.feed(STREAM)

    seen = 1
    while framer.advance():
        seen += 1
    assert seen == 2 * len(PACKETS)
    assert framer.buffered_bytes() == 0


def test_feeding_between_packets_loses_nothing() -> None:
    framer = framer_for(V311)
    framer.feed(STREAM + STREAM[:50])
    firsts = []
    while framer.advance():
        firsts.append(framer.first)
        if len(firsts) == 2:
            framer.feed(STREAM[50:] + STREAM)

    assert firsts == [0xC0, 0x30, 0x40, 0x30] * 3


def test_the_current_packet_lies_where_the_framer_says() -> None:
    framer = framer_for(V311)
    framer.feed(STREAM)

    found = []
    while framer.advance():
        found.append((framer.start, framer.body, framer.end))
        assert framer.first == framer.data[framer.start]

    assert found == [(0, 2, 2), (2, 5, 133), (133, 135, 137), (137, 139, 142)]


def split(framer: Framer, chunk: bytes) -> Iterator[tuple[int, bytes]]:
    framer.feed(chunk)
    while framer.advance():
        yield framer.first, framer.data[framer.body : framer.end]


def test_each_packet_has_its_first_byte_and_its_body() -> None:
    framer = framer_for(V311)

    assert list(split(framer, STREAM[:135])) == [(0xC0, b""), (0x30, b"\x00\x01t" + b"x" * 125)]
    assert list(split(framer, STREAM[135:])) == [(0x40, b"\x00\x01"), (0x30, b"\x00\x01t")]


def test_a_large_packet_in_many_chunks_is_joined_once() -> None:
    framer = framer_for(V311)
    packet = bytes.fromhex("30 80 80 40") + b"\x00\x01t" + b"x" * (1_048_576 - 3)
    chunks = [packet[start : start + 1000] for start in range(0, len(packet), 1000)]

    fed = 0
    for chunk in chunks[:-1]:
        framer.feed(chunk)
        fed += len(chunk)
        # Only the first chunk is looked at. The others are not put together yet, so each costs no more than itself.
        assert framer.data == (chunk if fed == len(chunk) else b"")
        assert not framer.advance()
        assert framer.data == b""
        assert framer.buffered_bytes() == fed

    framer.feed(chunks[-1])
    assert framer.advance()
    assert framer.data[framer.start : framer.end] == packet
    assert framer.buffered_bytes() == 0


def test_only_the_incomplete_packet_is_kept() -> None:
    framer = framer_for(V311)

    assert decode_all(framer, STREAM[:100], V311, CLIENT) == PACKETS[:1]
    assert framer.buffered_bytes() == 98
    assert decode_all(framer, STREAM[100:] + STREAM[:1], V311, CLIENT) == PACKETS[1:]
    assert framer.buffered_bytes() == 1


def test_nothing_of_a_read_is_kept_once_its_packets_are_done() -> None:
    framer = framer_for(V311)

    assert decode_all(framer, STREAM, V311, CLIENT) == PACKETS
    assert framer.data == b""
    assert decode_all(framer, STREAM, V311, CLIENT) == PACKETS


HEADERS_ABOVE_THE_LIMIT = [
    ("30 7F", 100),  # 129 bytes with the header
    ("30 63", 100),  # 101
    ("30 80 01", 100),
    ("30 FF FF FF 7F", 268_435_459),  # the largest packet there is, one byte above
    ("10 FF FF FF 7F", 1_000_000),
    ("82 80 80 80 01", 65_536),
]


@pytest.mark.parametrize(("header", "limit_bytes"), HEADERS_ABOVE_THE_LIMIT)
@pytest.mark.parametrize("version", [0, V31, V311, V5])
def test_a_packet_above_the_limit_is_refused_by_its_header_alone(header: str, limit_bytes: int, version: int) -> None:
    framer = framer_for(version, limit_bytes)

    error = refusal(framer, header)

    assert error is not None
    assert error.reason == TOO_LARGE
    assert framer.buffered_bytes() < 5


def test_a_packet_at_the_limit_is_accepted() -> None:
    framer = framer_for(V311, 100)

    packets = decode_all(framer, bytes.fromhex("30 62 0001 74") + b"x" * 95, V311, CLIENT)

    assert packets == [Publish("t", b"x" * 95)]


def test_the_largest_length_is_accepted_without_a_limit() -> None:
    framer = framer_for(V5)

    assert refusal(framer, "30 FF FF FF 7F") is None
    assert framer.buffered_bytes() == 5


def test_a_limit_can_be_lowered_on_the_way() -> None:
    framer = framer_for(V311)
    assert decode_all(framer, STREAM, V311, CLIENT) == PACKETS

    framer.limit_bytes = 100
    with pytest.raises(PeerError) as caught:
        decode_all(framer, STREAM, V311, CLIENT)
    assert caught.value.reason == TOO_LARGE


@pytest.mark.parametrize("version", [0, V31, V311, V5])
@pytest.mark.parametrize("header", ["30 80 80 80 80", "30 FF FF FF FF", "30 80 80 80 80 01", "30 80 80 80 80 00"])
def test_a_length_of_five_bytes_is_refused_at_its_fourth(header: str, version: int) -> None:
    error = refusal(framer_for(version), header)

    assert error is not None
    assert error.reason == MALFORMED


def test_a_length_of_five_bytes_is_refused_byte_by_byte_too() -> None:
    framer = framer_for(V5)
    for byte in ("30", "80", "80", "80"):
        assert refusal(framer, byte) is None

    error = refusal(framer, "80")

    assert error is not None
    assert error.reason == MALFORMED


LONGER_THAN_NEEDED = ["30 80 00", "30 83 00 0001 74", "30 FF 00", "30 80 80 00", "30 80 80 80 00"]


@pytest.mark.parametrize("wire", LONGER_THAN_NEEDED)
def test_mqtt_5_refuses_a_length_in_more_bytes_than_it_needs(wire: str) -> None:
    error = refusal(framer_for(V5), wire)  # [MQTT-1.5.5-1]

    assert error is not None
    assert error.reason == MALFORMED


@pytest.mark.parametrize("version", [V31, V311])
@pytest.mark.parametrize("length", ["83 00", "83 80 00", "83 80 80 00"])
def test_mqtt_3_allows_a_length_in_more_bytes_than_it_needs(length: str, version: int) -> None:
    wire = bytes.fromhex(f"30 {length} 0001 74")

    assert decode_all(framer_for(version), wire, version, CLIENT) == [Publish("t", b"")]


def test_an_unlawful_first_byte_is_refused_before_anything_follows_it() -> None:
    framer = framer_for(V5)

    error = refusal(framer, "00")

    assert error is not None
    assert (error.reason, error.detail) == (MALFORMED, "packet type 0 does not exist")
    assert framer.buffered_bytes() == 0


def test_an_unlawful_first_byte_behind_a_packet_is_refused_when_its_turn_comes() -> None:
    framer = framer_for(V5)
    framer.feed(bytes.fromhex("C0 00  81"))
    assert framer.advance()

    with pytest.raises(PeerError, match="SUBSCRIBE with the flags 0001"):
        framer.advance()


def test_the_rules_of_a_version_hold_from_the_moment_it_is_spoken() -> None:
    framer = Framer()
    framer.feed(bytes.fromhex("F0 00  F0 00"))
    assert framer.advance()  # lawful in some version

    framer.speak(V311)
    with pytest.raises(PeerError) as caught:
        framer.advance()
    assert caught.value.reason == MALFORMED
