"""Every byte flip and every truncation decodes to a valid packet or raises PeerError with a reason."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.protocol import CLIENT, SERVER
from holdfast.wire.codec import encode
from holdfast.wire.packets import Packet
from tests.property.mutations import damaged, outcome, systematic
from tests.property.packets import VERSIONS, any_packet

pytestmark = pytest.mark.compiled

ENDINGS = {
    "valid",
    "incomplete",
    "Malformed Packet",
    "Protocol Error",
    "Unsupported Protocol Version",
    "Client Identifier not valid",
    "Topic Filter invalid",
    "Topic Name invalid",
    "Topic Alias invalid",
    "Packet too large",
}


@given(any_packet)
def test_every_flip_and_truncation_ends_in_a_packet_or_a_reason(case: tuple[int, int, Packet]) -> None:
    version, sender, packet = case
    data = encode(packet, version)
    for hurt in systematic((version, sender, data)):
        assert outcome(hurt, version, sender) in ENDINGS


@given(any_packet, st.integers(0, 2**32))
def test_random_damage_ends_in_a_packet_or_a_reason(case: tuple[int, int, Packet], seed: int) -> None:
    version, sender, packet = case
    chance = random.Random(seed)
    data = encode(packet, version)
    for _round in range(20):
        assert outcome(damaged(data, chance), version, sender) in ENDINGS


@given(st.binary(max_size=64), st.sampled_from(VERSIONS), st.sampled_from((CLIENT, SERVER)))
def test_noise_ends_in_a_packet_or_a_reason(data: bytes, version: int, sender: int) -> None:
    assert outcome(data, version, sender) in ENDINGS
