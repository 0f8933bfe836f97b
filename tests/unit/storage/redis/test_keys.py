"""Names of keys: one slot for all keys of a client, and a tag for every client id."""

import pytest

from holdfast.storage.redis.keys import (
    QUEUE,
    SLOTS,
    STATE,
    base_key,
    client_of,
    decode_tag,
    encode_tag,
    pattern,
    slot_of_key,
    slot_of_tag,
)

CLIENTS = ["", "%", "device-7", "{a}", "a}b{c", "%7B", "größe", "a:state", "\udcff"]


@pytest.mark.parametrize("client_id", CLIENTS)
def test_a_client_id_comes_back_from_its_tag_and_its_keys(client_id: str) -> None:
    tag = encode_tag(client_id)

    assert tag
    assert not {b"{", b"}"} & {bytes((byte,)) for byte in tag}
    assert decode_tag(tag) == client_id
    assert client_of(base_key(b"holdfast:", client_id) + STATE, b"holdfast:", STATE) == client_id


def test_no_two_clients_have_one_tag() -> None:
    assert len({encode_tag(client_id) for client_id in CLIENTS}) == len(CLIENTS)


def test_all_keys_of_a_client_lie_in_one_slot() -> None:
    """As Redis computes it: CRC16 (XMODEM) of what is between the braces."""
    assert slot_of_tag(b"123456789") == 0x31C3 % SLOTS
    assert slot_of_key(base_key(b"holdfast:", "device-7")) == slot_of_tag(b"device-7")


def test_a_prefix_is_no_pattern() -> None:
    assert pattern(b"a*[b]:", QUEUE) == b"a\\*\\[b\\]:{*}:queue"
