"""In which backend a client has its queue, and what the queue may hold."""

import pytest

from holdfast.broker.policy import ClientClass, Policy, Sessions

POLICY = Policy(
    sessions=Sessions(queue="log", max_queued_messages=10, max_queued_bytes=20, queue_ttl_s=30),
    classes={
        "devices": ClientClass(clients="device-*", queue="journal", max_queued_messages=7, on_full="refuse"),
        "all": ClientClass(clients="*-[0-9]", queue="redis"),
    },
)


@pytest.mark.parametrize(
    ("session_id", "backend"),
    [
        ("device-7", "journal"),
        ("meter-7", "redis"),
        ("meter-x", ""),
        ("Device-x", ""),
        ("tenant/\0device-7", "journal"),
    ],
)
def test_the_first_class_that_matches_the_client_id_decides(session_id: str, backend: str) -> None:
    """The mount point of a listener is no part of the client id."""
    assert POLICY.queue_of(session_id)[0] == backend


def test_a_class_overrules_the_limits_that_it_sets() -> None:
    _backend, limits = POLICY.queue_of("device-7")

    assert (limits.max_messages, limits.max_bytes, limits.ttl_s, limits.on_full) == (7, 20, 30, "refuse")
