"""Keys of sessions: no client's keys lie between those of another, and lists are in the order of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import PermanentError
from holdfast.records.session import session_keys as keys

CLIENTS = st.text(max_size=12)
TIMES = st.integers(0, 2**63 - 1)


def all_of(client: str) -> list[bytes]:
    return [
        keys.session_key(client),
        keys.subscription_key(client, b"a/#"),
        keys.progress_key(client),
        keys.replay_key(client, b"a/#"),
        keys.retained_progress_key(client, b"a/#"),
        keys.slot_key(client, 2**32 - 1),
    ]


@given(CLIENTS, CLIENTS)
def test_the_range_of_a_session_holds_its_keys_and_no_others(client: str, other: str) -> None:
    lo, hi = keys.session_range(client)
    assert all(lo <= key < hi for key in all_of(client))
    assert client == other or not any(lo <= key < hi for key in all_of(other))


@given(CLIENTS, st.integers(0, 2**32 - 1))
def test_packets_have_a_range_without_subscriptions(client: str, number: int) -> None:
    lo, hi = keys.packet_range(client)
    assert lo <= keys.slot_key(client, number) < hi
    assert not lo <= keys.subscription_key(client, b"a") < hi
    assert keys.slot_number(keys.slot_key(client, number)) == number


@given(TIMES, TIMES, CLIENTS, CLIENTS)
def test_sessions_that_end_first_come_first(a: int, b: int, one: str, other: str) -> None:
    assert a == b or (keys.expiry_key(a, one) < keys.expiry_key(b, other)) == (a < b)
    lo, hi = keys.expired_before(b)
    assert (lo <= keys.expiry_key(a, one) < hi) == (a < b)


@given(CLIENTS.filter(bool), CLIENTS.filter(bool), TIMES)
def test_lists_name_their_clients(client: str, after: str, due_us: int) -> None:
    listed = [keys.connected_key(client), keys.external_queue_key(client)]
    assert [keys.listed_client(key) for key in listed] == [client, client]
    assert keys.listed_client(keys.expiry_key(due_us, client)) == client
    assert keys.listed_client(keys.waiting_key(due_us, client)) == client
    for key, ranged in zip(listed, (keys.connected_after, keys.external_queues_after), strict=True):
        lo, hi = ranged(after)
        assert (lo <= key < hi) == (client.encode() > after.encode())
        assert ranged("")[0] <= key < ranged("")[1]


def test_a_client_that_is_not_text_is_damage() -> None:
    with pytest.raises(PermanentError, match="not UTF-8"):
        keys.listed_client(b"\x03\xff")
