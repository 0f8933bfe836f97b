"""Whatever is encoded decodes to the same packet, in every version, however the bytes are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.protocol import CLIENT, SERVER, V5
from holdfast.topics.names import is_dollar
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Packet, Publish
from holdfast.wire.publish import PublishScan
from tests.property.packets import PACKET_KINDS, VERSIONS, any_packet, packets, publishes

pytestmark = pytest.mark.compiled

SENDERS = {
    "connect": [CLIENT],
    "connack": [SERVER],
    "subscribe": [CLIENT],
    "suback": [SERVER],
    "unsubscribe": [CLIENT],
    "unsuback": [SERVER],
}
CASES = [
    (kind, version, sender)
    for kind in PACKET_KINDS
    for version in VERSIONS
    for sender in SENDERS.get(kind, [CLIENT, SERVER])
    if version == V5 or not (kind == "auth" or (kind == "disconnect" and sender == SERVER))
]


def decode_one(data: bytes, version: int, sender: int) -> Packet:
    framer = Framer()
    framer.speak(version)
    (packet,) = decode_all(framer, data, version, sender)
    return packet


@pytest.mark.parametrize(("kind", "version", "sender"), CASES)
@given(data=st.data())
def test_every_packet_survives_a_round_trip(data: st.DataObject, kind: str, version: int, sender: int) -> None:
    packet = data.draw(PACKET_KINDS[kind](version, sender))
    encoded = encode(packet, version)
    assert decode_one(encoded, version, sender) == packet
    assert encode(decode_one(encoded, version, sender), version) == encoded


@given(data=st.data())
def test_chunking_never_changes_the_result(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(VERSIONS))
    sender = data.draw(st.sampled_from((CLIENT, SERVER)))
    sent = data.draw(st.lists(packets(version, sender), max_size=8))
    stream = b"".join(encode(packet, version) for packet in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    framer = Framer()
    framer.speak(version)
    received: list[Packet] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decode_all(framer, stream[begin:end], version, sender)
    assert received == sent
    assert framer.buffered_bytes() == 0


@given(any_packet)
def test_no_prefix_of_a_packet_is_taken_for_a_packet(case: tuple[int, int, Packet]) -> None:
    version, sender, packet = case
    encoded = encode(packet, version)
    for length in range(len(encoded)):
        framer = Framer()
        framer.speak(version)
        assert decode_all(framer, encoded[:length], version, sender) == []


@given(st.sampled_from(VERSIONS).flatmap(lambda v: st.tuples(st.just(v), publishes(v, CLIENT))))
def test_a_scan_finds_what_decoding_finds(case: tuple[int, Publish]) -> None:
    version, packet = case
    data = encode(packet, version)
    framer = Framer()
    framer.feed(data)
    assert framer.advance()
    scan = PublishScan()
    scan.scan(framer.data, framer.first, framer.body, framer.end, version, CLIENT)
    assert data[scan.topic_start : scan.topic_end] == packet.topic.encode()
    assert is_dollar(data[scan.topic_start : scan.topic_end]) == packet.topic.startswith("$")
    assert data[scan.payload_start : scan.end] == packet.payload
    assert (scan.qos, scan.packet_id) == (packet.qos, packet.packet_id)
    assert scan.alias() == (packet.properties.topic_alias or 0)
    expiry_s = packet.properties.message_expiry_interval
    assert scan.expiry_s() == (-1 if expiry_s is None else expiry_s)
    if scan.alias():
        at = scan.properties.alias_at
        assert data[at : at + 3] == b"\x23" + scan.alias().to_bytes(2, "big")
    if expiry_s is not None:
        at = scan.properties.expiry_at
        assert data[at : at + 5] == b"\x02" + expiry_s.to_bytes(4, "big")
