"""Whether a node may serve: what is measured, and by which clocks."""

import pytest

from holdfast.cluster.membership.readiness import BeatClocks, LagMeter, NodeBounds, Readiness, VnodeState
from holdfast.model.clock import ManualClock
from holdfast.model.reasons import SERVER_UNAVAILABLE, USE_ANOTHER_SERVER
from holdfast.records.cluster.control import Beat, Join, VnodeProgress
from holdfast.records.cluster.control_rows import BeatRow, MemberRow
from tests.unit.durable.state_machine.control_log import id_of
from tests.unit.durable.state_machine.vnode import S, T

FINE = VnodeState(10, 10, 0, 0, "")


def beat(sequence: int, *, ahead_s: int = 0, applied: int = 0, ready: bool = True, connections: int = 0) -> BeatRow:
    vnodes = (VnodeProgress(0, applied, 0),)
    return BeatRow(sequence, T, T + ahead_s * S, Beat(vnodes, 0, connections, ready))


def member(node: int, address: str = "") -> MemberRow:
    addresses = (("mqtt", address),) if address else ()
    return MemberRow(node, Join(f"n{node}", id_of(node), id_of(node), 0, addresses=addresses))


class Second:
    """A node with one vnode, once a second."""

    def __init__(self, bounds: NodeBounds | None = None) -> None:
        self.clock = ManualClock()
        self.readiness = Readiness(1, 1, bounds or NodeBounds(), self.clock)
        self.readiness.is_member = True
        self._sequence = 0

    def look(
        self, state: VnodeState = FINE, *, own: int = 0, others: list[BeatRow] | None = None, seconds: int = 1
    ) -> None:
        """Each second every node beats; `others` are 2, 3, …; `own` is by how much this node's clock is ahead."""
        for _second in range(seconds):
            self.clock.advance(S)
            self._sequence += 1
            beats = {1: beat(self._sequence, ahead_s=own)}
            for node, row in enumerate(others or [], 2):
                beats[node] = BeatRow(self._sequence, row.stamp_us, row.time_us, row.beat)
            self.readiness.look([state], {node: member(node, f"h{node}:1") for node in beats}, beats)


# ---- lag


def test_the_lag_is_the_time_for_which_the_next_record_has_been_known() -> None:
    meter = LagMeter()
    meter.note(10, 1 * S)
    meter.note(10, 2 * S)
    meter.note(12, 3 * S)
    assert meter.lag_us(9, 5 * S) == 4 * S
    assert meter.lag_us(10, 5 * S) == 2 * S
    assert meter.lag_us(11, 5 * S) == 2 * S
    assert meter.lag_us(12, 5 * S) == 0
    meter.note(11, 6 * S)
    assert meter.lag_us(12, 9 * S) == 0


def test_a_meter_remembers_a_bounded_number_of_places_and_none_too_late() -> None:
    meter = LagMeter()
    for second in range(10_000):
        meter.note(second + 1, second * S)
    assert len(meter._marks) <= 768
    last = 10_000
    for applied in range(0, last, 500):
        lag_us, right_us = meter.lag_us(applied, last * S), (last - applied) * S
        assert right_us - 100 * S <= lag_us <= right_us


def test_a_node_that_is_behind_is_not_ready_and_is_again_at_half_of_the_bound() -> None:
    """A20: it beats, and applies nothing."""
    node = Second()
    behind = FINE._replace(known=11)
    node.look(behind, seconds=10)
    assert node.readiness.is_ready
    node.look(behind)
    assert not node.readiness.is_ready
    assert node.readiness.reasons() == ["it is 10 s behind in vnode 0"]
    assert node.readiness.is_behind(0)
    node.look(FINE._replace(applied=11, known=20), seconds=4)
    assert node.readiness.is_ready


def test_the_beats_of_others_tell_how_long_the_log_is() -> None:
    node = Second()
    node.look(others=[beat(1, applied=11)], seconds=11)
    assert node.readiness.lag_us(0, 10) == 10 * S
    assert not node.readiness.is_ready


def test_what_was_in_the_log_at_the_start_counts_from_the_stamp_of_the_record_before() -> None:
    node = Second()
    node.clock.advance(T + 100 * S - node.clock.wall_us())
    node.look(FINE._replace(known=11, stamp_us=T))
    assert node.readiness.lag_us(0, 10) == 101 * S
    assert node.readiness.lag_us(0, 11) == 0


# ---- clocks


@pytest.mark.parametrize("ahead_s", [600, -600, 10 * 365 * 86400])
def test_a_wrong_clock_makes_its_own_node_unready_and_no_other(ahead_s: int) -> None:
    """A12."""
    wrong, right = Second(), Second()
    wrong.look(own=ahead_s, others=[beat(1), beat(1)], seconds=2)
    assert wrong.readiness.is_ready, "one beat may have been on its way for a long time"
    wrong.look(own=ahead_s, others=[beat(1), beat(1)])
    assert not wrong.readiness.is_ready
    assert f"its clock is {abs(ahead_s)} s" in wrong.readiness.reasons()[0]
    right.look(others=[beat(1, ahead_s=ahead_s), beat(1)], seconds=9)
    assert right.readiness.is_ready
    wrong.look(others=[beat(1), beat(1)])
    assert wrong.readiness.is_ready


def test_of_two_clocks_that_differ_neither_is_known_to_be_wrong() -> None:
    clocks = BeatClocks({1: beat(1, ahead_s=-600), 2: beat(1)}, 30 * S)
    assert (clocks.middle_us, clocks.skew_us(1), clocks.skew_us(2)) == (None, 0, 0)
    agreed = BeatClocks({1: beat(1, ahead_s=-600), 2: beat(1, ahead_s=1), 3: beat(1)}, 30 * S)
    assert (agreed.middle_us, agreed.skew_us(1)) == (0, -600 * S)


# ---- logs that stand still, disks


def test_a_vnode_that_accepts_nothing_refuses_its_own_clients_alone() -> None:
    node = Second()
    node.look(FINE._replace(waits_us=9 * S))
    assert node.readiness.is_ready
    node.look(FINE._replace(waits_us=10 * S), others=[beat(1)])
    assert node.readiness.serves
    assert not node.readiness.is_ready
    assert node.readiness.may_lead
    refusal = node.readiness.refusal(0)
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (SERVER_UNAVAILABLE, "the log of vnode 0 has accepted nothing for 10 s")
    assert node.readiness.refusal(1) is None
    node.look()
    assert not node.readiness.sends_away


def test_a_node_that_stops_applying_says_so_and_serves_no_client() -> None:
    """The row "a record of ours that cannot be read" of what bad input gets."""
    node = Second()
    node.look(FINE._replace(stopped="record 7 cannot be applied: level 9"))
    assert node.readiness.reasons()[0] == "vnode 0 is applied no further: record 7 cannot be applied: level 9"
    assert node.readiness.refusal(0) is not None


def test_clients_stay_at_an_unready_node_unless_another_one_is_ready() -> None:
    node = Second()
    node.readiness.disk_full = True
    node.look(others=[beat(1, ready=False)])
    assert not node.readiness.is_ready
    assert node.readiness.may_lead
    assert node.readiness.refusal(0) is None
    node.look(others=[beat(1)])
    assert not node.readiness.may_lead
    refusal = node.readiness.refusal(0)
    assert refusal is not None
    assert refusal.reason == SERVER_UNAVAILABLE
    assert "disk" not in refusal.detail, "why is for operators"
    node.readiness.disk_full = False
    node.look(others=[beat(1)])
    assert node.readiness.refusal(0) is None


def test_a_peer_whose_beats_have_ended_is_not_ready() -> None:
    node = Second()
    node.readiness.disk_full = True
    node.look(others=[beat(1)])
    old = {1: beat(99), 2: beat(1)}
    for second in range(7):
        node.clock.advance(S)
        node.readiness.look([FINE], {1: member(1), 2: member(2)}, old)
        assert node.readiness.has_ready_peer == (second < 5)


def test_clients_are_told_the_addresses_of_ready_nodes_if_redirects_are_on() -> None:
    node = Second(NodeBounds(redirect=True))
    node.readiness.disk_full = True
    node.look(others=[beat(1, connections=9), beat(1, ready=False), beat(1, connections=3)])
    refusal = node.readiness.refusal(0)
    assert refusal is not None
    assert refusal.reason == USE_ANOTHER_SERVER
    assert node.readiness.server_reference() == "h4:1 h2:1"


def test_a_node_that_is_no_member_refuses_all_clients() -> None:
    node = Second()
    node.readiness.is_member = False
    node.look()
    assert node.readiness.sends_away
    refusal = node.readiness.refusal(0)
    assert refusal is not None
    assert "no member" in refusal.detail
