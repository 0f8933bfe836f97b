"""Packet ids: one after the other, and never 0."""

import pytest

from holdfast.model.ids import FIRST_PACKET_ID, LAST_PACKET_ID, packet_id_after

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize(("packet_id", "following"), [(1, 2), (2, 3), (65_534, 65_535), (65_535, 1), (0, 1)])
def test_a_packet_id_is_followed_by_the_next_one(packet_id: int, following: int) -> None:
    assert packet_id_after(packet_id) == following


def test_a_round_of_packet_ids_uses_each_once_and_never_zero() -> None:
    seen = []
    packet_id = LAST_PACKET_ID
    for _ in range(LAST_PACKET_ID):
        packet_id = packet_id_after(packet_id)
        seen.append(packet_id)

    assert seen == list(range(1, 65_536))  # [MQTT-2.2.1-3]
    assert packet_id_after(packet_id) == FIRST_PACKET_ID
