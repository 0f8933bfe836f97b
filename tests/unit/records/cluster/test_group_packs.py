"""Packets about groups stay small, whatever waits: the rest follows."""

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster.group_packs import (
    MAX_BYTES,
    MAX_ENTRIES,
    GroupMessage,
    GroupPack,
    Reference,
    bounded,
    encode_pack,
)

pytestmark = pytest.mark.compiled


def test_a_packet_has_so_many_entries_and_bytes_and_at_least_one() -> None:
    short = [Reference("g", "m", 1, 0, number) for number in range(MAX_ENTRIES + 5)]
    assert bounded(short) == tuple(short[:MAX_ENTRIES])
    long = [Reference("g" * 60_000, "m", 1, 0, number) for number in range(100)]
    found = bounded(long)
    assert 1 < len(found) < 100
    assert len(encode_pack(GroupPack(1, 0, 1, 1, 1, 0, 1, found))) <= MAX_BYTES + 1000
    large = GroupMessage("g", "m", 1, Message(b"t", b"x" * MAX_BYTES, 0, ClientId("c"), 0))
    assert bounded([large, large]) == (large,)
    assert bounded(short[:0]) == ()
