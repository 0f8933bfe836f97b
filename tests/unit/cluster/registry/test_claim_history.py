"""The last claims of a client id: bounded, by each node for itself."""

from holdfast.cluster.registry.claim_history import KEPT_US, OF_ALL, OF_ONE, ClaimHistory
from holdfast.durable.state_machine.outcome import APPLIED, DecidedClaim, Outcome
from holdfast.model.clock import ManualClock
from holdfast.records.cluster.rows import RegistrationRow

ROW = RegistrationRow(2, 9, 7, 65536, (1, 2, 3))


def applied(at_us: int, *claims: DecidedClaim) -> Outcome:
    outcome = Outcome(1, APPLIED)
    outcome.time_us = at_us
    outcome.claims.extend(claims)
    return outcome


def claim(session_id: str, number: int = 1, revision: int = 1, other: RegistrationRow | None = None) -> DecidedClaim:
    return DecidedClaim(session_id, number, (0x10, 1, number), revision, other)


def test_claims_are_shown_with_what_they_replaced_or_what_stood_in_their_way() -> None:
    clock = ManualClock()
    history = ClaimHistory(clock)
    now_us = clock.wall_us()
    history.applied(applied(now_us, claim("a"), claim("a", 2, 2, ROW), claim("b")))
    history.applied(applied(now_us + 1, claim("a", 3, 0, ROW.released(now_us))))
    found = history.of("a")
    assert [(one.connection, one.accepted, one.other) for one in found] == [
        (1, True, ""),
        (2, True, "connection 7 of node 2"),
        (3, False, "connection 7 of node 2, released"),
    ]
    assert (found[0].node, found[0].version, found[0].at_us) == (1, "10.1.1", now_us)
    assert history.of("unknown") == []


def test_only_the_last_claims_of_a_client_id_are_kept() -> None:
    clock = ManualClock()
    history = ClaimHistory(clock)
    for number in range(1, OF_ONE + 5):
        history.applied(applied(clock.wall_us(), claim("a", number)))
    assert [one.connection for one in history.of("a")] == list(range(5, OF_ONE + 5))
    assert len(history) == OF_ONE


def test_claims_of_all_client_ids_are_bounded_and_those_that_claimed_least_lately_go_first() -> None:
    clock = ManualClock()
    history = ClaimHistory(clock)
    for number in range(OF_ALL):
        history.applied(applied(clock.wall_us(), claim(f"c{number}")))
    history.applied(applied(clock.wall_us(), claim("c0", 2)))
    assert len(history) == OF_ALL
    assert (len(history.of("c0")), history.of("c1"), len(history.of("c2"))) == (2, [], 1)


def test_claims_are_kept_for_a_day() -> None:
    clock = ManualClock()
    history = ClaimHistory(clock)
    history.applied(applied(clock.wall_us(), claim("a"), claim("b")))
    clock.advance(KEPT_US // 2)
    history.applied(applied(clock.wall_us(), claim("b", 2)))
    clock.advance(KEPT_US // 2 + 1)
    assert (history.of("a"), [one.connection for one in history.of("b")]) == ([], [2])
    history.forget_old()
    assert len(history) == 2, "those of b go together"
