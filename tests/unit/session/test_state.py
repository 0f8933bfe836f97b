"""A session's interval: what CONNECT and DISCONNECT ask for, and when it ends."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import PROTOCOL_ERROR
from holdfast.model.will import StoredWill
from holdfast.session.state import NEVER, SessionState, expiry_asked, expiry_at_disconnect, will_delay_s
from holdfast.wire.packets import Connect
from holdfast.wire.properties import Properties

pytestmark = pytest.mark.compiled


def connect(version: int, *, clean: bool, expiry_s: int | None = None) -> Connect:
    return Connect(version, "c", clean_start=clean, properties=Properties(session_expiry_interval=expiry_s))


@pytest.mark.parametrize(
    ("packet", "most_s", "expected"),
    [
        (connect(V311, clean=True), NEVER, 0),
        (connect(V311, clean=False), NEVER, NEVER),
        (connect(V311, clean=False), 60, 60),
        (connect(V5, clean=True, expiry_s=30), 60, 30),
        (connect(V5, clean=False, expiry_s=90), 60, 60),
        (connect(V5, clean=False), 60, 0),
    ],
)
def test_a_connect_asks_for_an_interval_within_the_maximum(packet: Connect, most_s: int, expected: int) -> None:
    assert expiry_asked(packet, most_s) == expected


def test_disconnect_may_change_the_interval_but_not_from_zero() -> None:
    session = SessionState("c")
    session.expiry_s = 30
    assert expiry_at_disconnect(session, None, 60) == 30
    assert expiry_at_disconnect(session, 90, 60) == 60
    assert expiry_at_disconnect(session, 0, 60) == 0

    session.expiry_s = 0
    with pytest.raises(PeerError) as refused:
        expiry_at_disconnect(session, 1, 60)
    assert refused.value.reason == PROTOCOL_ERROR


def test_a_session_ends_its_interval_after_its_connection() -> None:
    session = SessionState("c")
    assert not session.persistent()

    session.expiry_s = 30
    assert session.persistent()
    assert session.ends_us() == -1, "it is connected"
    session.disconnected_us = 7
    assert session.ends_us() == 7 + 30_000_000
    session.expiry_s = NEVER
    assert session.ends_us() == -1


def test_a_will_waits_no_longer_than_the_session() -> None:
    """[MQTT-3.1.3-9]"""
    will = StoredWill(b"a", b"", 0, retain=False, properties=b"", delay_s=10, expiry_s=-1)

    assert will_delay_s(will, 60) == 10
    assert will_delay_s(will, 5) == 5


def test_orders_are_given_out_once() -> None:
    session = SessionState("c")

    assert [session.next_order() for _ in range(3)] == [1, 2, 3]
    session.check_invariants()


def test_a_packet_id_of_qos_2_is_released_once_and_only_if_it_was_taken() -> None:
    session = SessionState("c")
    assert not session.release(7)
    session.take(7)
    session.take(8)
    session.check_invariants()
    assert session.release(7)
    assert not session.release(7)
    assert list(session.incoming or ()) == [8]
