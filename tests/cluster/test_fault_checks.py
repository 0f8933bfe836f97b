"""The checker of the fault suite says what is wrong with histories that are."""

from __future__ import annotations

import pytest

from holdfast.records.cluster.rows import RegistrationRow
from tests.cluster.fault_checks import NodeState, VnodeState, judge_states
from tests.cluster.fault_run import FaultRun, table
from tests.cluster.further_faults import OneConnection, judge_connections
from tests.crash.broker_ledger import Ledger

EPOCHS = {1: 10, 2: 11, 3: 12}


def registration(node: int, epoch: int = 0) -> RegistrationRow:
    return RegistrationRow(node, epoch or EPOCHS[node], 1, 1, (1, 1, 1))


def states() -> list[NodeState]:
    """Three nodes that agree: a client of each vnode, at nodes 1 and 2."""
    return [
        NodeState(
            node,
            [
                VnodeState(b"zero", registrations={"a": registration(1)}),
                VnodeState(b"one", registrations={"b": registration(2)}),
            ],
        )
        for node in (1, 2, 3)
    ]


ONLINE = {"a": 1, "b": 2}


def test_nodes_that_agree_are_right() -> None:
    assert judge_states(states(), ONLINE, EPOCHS) == []


def test_a_digest_that_differs_is_found() -> None:
    wrong = states()
    wrong[2].vnodes[1].digest = b"two"
    (found,) = judge_states(wrong, ONLINE, EPOCHS)
    assert found.startswith("digests of vnode 1 differ")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (registration(1, 9), "which is over"),
        (registration(3), "registered at node 3, connected to 1"),
        (None, "connected and not registered"),
    ],
)
def test_a_registration_that_is_not_that_of_the_connection_is_found(row: RegistrationRow | None, why: str) -> None:
    wrong = states()
    del wrong[0].vnodes[0].registrations["a"]
    if row is not None:
        wrong[0].vnodes[0].registrations["a"] = row
    (found,) = judge_states(wrong, ONLINE, EPOCHS)
    assert why in found


def test_a_registration_without_a_connection_is_found() -> None:
    found = judge_states(states(), {"a": 1}, EPOCHS)
    assert len(found) == 3
    assert all("b is registered at node 2, and not connected" in one for one in found)


def test_what_verify_finds_is_told() -> None:
    wrong = states()
    wrong[1].problems.append("a serial is missing")
    assert judge_states(wrong, ONLINE, EPOCHS) == ["verify, node 2: a serial is missing"]


# ---- what clients saw


def history(qos: int, *arrivals: int, sent: int = 3, acknowledged: int = 3) -> Ledger:
    """A publisher has sent 1, 2, 3; the first ones were acknowledged; a subscriber has got these."""
    ledger = Ledger()
    received = ledger.subscribes("reader", "a/#", qos)
    received.granted_at = ledger.tick()
    for _number in range(sent):
        ledger.sends("a/1", 2)
    for number in range(1, acknowledged + 1):
        ledger.acknowledges("a/1", number)
    for number in arrivals:
        ledger.arrives(received, "a/1", number, dup=False, packet_id=number, connection=1)
    return ledger


@pytest.mark.parametrize(
    ("ledger", "lost", "twice", "why"),
    [
        (history(2, 1, 2), 1, 0, "missing: reader: a/1 3"),
        (history(2, 1, 2, 2, 3), 0, 1, "2 (id 2, connection 1) behind 2"),
        (history(2, 1, 3, 2), 0, 0, "3 (id 3, connection 1) behind 1"),
        (history(1, 1, 3), 1, 0, "3 (id 3, connection 1) behind 1"),
    ],
)
def test_what_was_lost_came_twice_or_out_of_order_is_found(ledger: Ledger, lost: int, twice: int, why: str) -> None:
    """L1, Q1: acknowledged and lost, QoS 2 more than once, order of a publisher on a topic."""
    assert any(why in found for found in ledger.verdict()), ledger.verdict()
    assert (ledger.lost(), ledger.twice()) == (lost, twice)


def test_a_message_without_an_acknowledgement_may_be_lost_and_a_history_without_faults_is_right() -> None:
    assert history(2, 1, 2, acknowledged=2).verdict() == []
    assert history(2, 1, 2, 3).verdict() == []


def test_the_table_counts_clean_runs_of_each_pair() -> None:
    runs = [
        FaultRun("vnode leader", "will", 0, took_s=1.0),
        FaultRun("vnode leader", "will", 1, took_s=1.0, problems=["lost"]),
        FaultRun("all brokers", "append", 0, took_s=1.0, recovered_s=7.0),
        FaultRun("all brokers", "append", 1),
    ]
    text = table(runs)
    assert "| vnode leader | 0/0 | 1/2 |" in text
    assert "| all brokers | 1/1 | 0/0 |" in text
    assert "2 of 3 runs clean; longest recovery 7.0 s" in text


def crowd(*began_ms: int) -> list[OneConnection]:
    """Connections that were accepted one behind the other, of which the last one stays."""
    made = [OneConnection(1, 0, "a") for _began in began_ms]
    for at, (one, ms) in enumerate(zip(made, began_ms, strict=True)):
        one.began_ms, one.asked_s, one.answered_s, one.reason = ms, ms / 1000, ms / 1000 + 0.001, 0
        one.present, one.open = at > 0, at == len(made) - 1
    return made


def test_of_connections_with_one_client_id_the_newest_is_to_stay() -> None:
    """R7."""
    assert judge_connections(crowd(10, 20, 30), version_ms=30) == []
    older = crowd(10, 20, 30)
    older[2].open, older[1].open = False, True
    (found,) = judge_connections(older, version_ms=21)
    assert found == "connection 1 stays, which connected at 21 ms, and [2] are newer"
    assert judge_connections(older, version_ms=30) == [], "its node took it later than the other one was begun"


def test_of_connections_with_one_client_id_one_is_to_stay_with_its_session() -> None:
    """R7, R12."""
    two = crowd(10, 20)
    two[0].open = True
    assert judge_connections(two, version_ms=20) == ["connections that stay: [0, 1], of 2"]
    gone = crowd(10, 20)
    gone[1].present = False
    assert judge_connections(gone, version_ms=20) == ["connection 1: the session is gone"]
    odd = crowd(10, 20)
    odd[0].reason = 0x80
    assert judge_connections(odd, version_ms=20) == ["connection 0 is answered with 0x80"]
