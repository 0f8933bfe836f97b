"""How far a replay is, as stored bytes."""

import pytest

from holdfast.model.errors import PermanentError
from holdfast.records.session.sessions import ReplayProgress, decode_replay, encode_replay

PLAIN = bytes.fromhex("01 01 0807060504030201 0100 0200 0a00000000000000")
PACED = bytes.fromhex("02 00 0807060504030201 0100 0200 0a00000000000000 40420f0000000000 0b00000000000000")


def test_bytes_of_a_replay_and_of_one_with_a_pace() -> None:
    plain = ReplayProgress({2: 10}, 0x0102030405060708, joined=True)
    paced = ReplayProgress({2: 10}, 0x0102030405060708, joined=False, speed=1_000_000, at_us=11)
    assert (encode_replay(plain), encode_replay(paced)) == (PLAIN, PACED)
    assert (decode_replay(PLAIN), decode_replay(PACED)) == (plain, paced)


@pytest.mark.parametrize("damaged", [PLAIN + b"\0", PACED[:-1], b"\3" + PACED[1:], b"\1" + PACED[1:], b""])
def test_damage_is_noticed(damaged: bytes) -> None:
    with pytest.raises(PermanentError):
        decode_replay(damaged)
