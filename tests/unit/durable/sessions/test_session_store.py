"""Sessions in memory: steps in, sessions out."""

import pytest
from hypothesis import given

from holdfast.durable.sessions.session_store import (
    DropSession,
    KeepIncoming,
    KeepSession,
    KeepSubscription,
    MemorySessions,
    SessionStep,
)
from holdfast.model.errors import MisuseError
from holdfast.model.protocol import MAX_U32
from holdfast.records.session.session_record import SessionRecord
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord
from tests.conformance.session_steps import step_lists

pytestmark = pytest.mark.compiled

HERE = SessionRecord(expiry_s=60, disconnected_us=0)


def left(at_s: int, expiry_s: int = 60) -> SessionRecord:
    return SessionRecord(expiry_s=expiry_s, disconnected_us=at_s * 1_000_000)


def test_a_session_that_ended_leaves_nothing_for_its_successor() -> None:
    sessions = MemorySessions()
    record = SubscriptionRecord(parse_filter(b"a"), 1, False, False, 0, 0, 5)
    sessions.apply([KeepSession("c", HERE, None), KeepSubscription("c", record), KeepIncoming("c", 7)])
    sessions.apply([DropSession("c", HERE), KeepSession("c", HERE, None)])
    stored = sessions.load("c")
    assert stored is not None
    assert not stored.subscriptions
    assert not stored.incoming


def test_a_step_of_a_session_that_ended_is_harmless() -> None:
    sessions = MemorySessions()
    sessions.apply([KeepSession("c", HERE, None), DropSession("c", HERE), KeepIncoming("c", 7)])
    assert sessions.load("c") is None
    assert sessions.count() == 0


def test_what_was_loaded_is_the_readers_own() -> None:
    sessions = MemorySessions()
    sessions.apply([KeepSession("c", HERE, None)])
    first = sessions.load("c")
    assert first is not None
    first.incoming.add(1)
    again = sessions.load("c")
    assert again is not None
    assert not again.incoming


def test_sessions_expire_in_the_order_of_their_ends() -> None:
    sessions = MemorySessions()
    sessions.apply(
        [
            KeepSession("late", left(20), None),
            KeepSession("soon", left(10), None),
            KeepSession("never", left(1, MAX_U32), None),
            KeepSession("here", HERE, None),
        ]
    )
    assert sessions.expiring(81_000_000, 10) == ["soon", "late"]
    assert sessions.expiring(81_000_000, 1) == ["soon"]
    assert sessions.expiring(70_000_000, 10) == [], "an end is reached when it has passed"


def test_who_is_connected_is_told_in_pages() -> None:
    sessions = MemorySessions()
    sessions.apply([*(KeepSession(name, HERE, None) for name in "cab"), KeepSession("gone", left(1), None)])
    assert sessions.connected("", 2) == ["a", "b"]
    assert sessions.connected("b", 2) == ["c"]


def test_an_unknown_kind_of_step_is_a_bug() -> None:
    sessions = MemorySessions()
    sessions.apply([KeepSession("c", HERE, None)])
    with pytest.raises(MisuseError):
        sessions.apply([SessionStep("c")])


@given(step_lists)
def test_one_by_one_or_all_at_once_makes_no_difference(drawn: list[SessionStep]) -> None:
    together, apart = MemorySessions(), MemorySessions()
    together.apply(drawn)
    for step in drawn:
        apart.apply([step])
    for client_id in {step.client_id for step in drawn}:
        one, other = together.load(client_id), apart.load(client_id)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.record, one.subscriptions, one.incoming) == (other.record, other.subscriptions, other.incoming)
