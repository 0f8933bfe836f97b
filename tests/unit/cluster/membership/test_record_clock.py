"""The time of a broker in a cluster."""

import pytest

from holdfast.cluster.membership.record_clock import RecordClock
from holdfast.model.clock import ManualClock
from tests.unit.durable.state_machine.vnode import S, T

NODE, OTHER, THIRD = 1, 2, 3


@pytest.mark.parametrize(
    ("record_s", "time_s"), [(None, 0), (-100, -93), (-37, 0), (-5, 0), (0, 0), (20, 0), (100, 107), (86_400, 86_407)]
)
def test_a_broker_has_the_time_of_its_machine_as_far_as_the_logs_agree(record_s: int | None, time_s: int) -> None:
    """A12: the machine may be wrong, and then record time holds it."""
    machine = ManualClock(T - 7 * S)
    clock = RecordClock(machine, NODE)
    if record_s is not None:
        clock.applied(T + record_s * S, NODE, machine.wall_us())
        clock.applied(T - 200 * S, NODE, machine.wall_us())
    machine.advance(7 * S)
    assert clock.wall_us() == T + time_s * S


@pytest.mark.parametrize("quiet_s", [0, 700])
def test_a_record_that_is_applied_late_does_not_make_the_clock_of_the_machine_wrong(quiet_s: int) -> None:
    """A12, A25: the next connection would get a version of the past, and an older one would win."""
    machine = ManualClock(T)
    clock = RecordClock(machine, NODE)
    clock.applied(T, NODE, machine.wall_us())
    machine.advance(quiet_s * S)
    clock.applied(T + quiet_s * S, NODE, machine.wall_us())
    machine.advance(40 * S)
    clock.applied(T + (quiet_s + 1) * S, NODE, machine.wall_us())
    assert clock.wall_us() == T + (quiet_s + 40) * S


def test_record_time_of_long_ago_is_forgotten() -> None:
    """The rates of a monotonic clock and of record time differ a little, for months."""
    machine = ManualClock(T)
    clock = RecordClock(machine, NODE)
    clock.applied(T + 100 * S, NODE, machine.wall_us())
    for _minute in range(30):
        machine.advance(60 * S)
        clock.applied(machine.wall_us(), NODE, machine.wall_us())
    assert clock.wall_us() == machine.wall_us()


def test_durations_are_those_of_the_machine() -> None:
    machine = ManualClock(T)
    clock = RecordClock(machine, NODE)
    clock.applied(T + 100 * S, NODE, machine.wall_us())
    machine.advance(S)
    assert clock.monotonic_us() == S


@pytest.mark.parametrize(("other_s", "agrees"), [(-29, True), (0, True), (29, True), (-31, False), (31, False)])
def test_a_node_whose_clock_another_node_has_too_keeps_it_while_record_time_is_behind(
    other_s: int, agrees: bool
) -> None:
    """A12, A25: stamps are ten minutes behind; a node that was started since then would give versions of the past."""
    machine = ManualClock(T)
    clock = RecordClock(machine, NODE)
    clock.applied(T - 600 * S, THIRD, T - 500 * S)
    clock.applied(T - 600 * S, OTHER, T + other_s * S)
    machine.advance(7 * S)
    assert clock.wall_us() == T + 7 * S - (0 if agrees else 600 * S)


def test_a_wrong_clock_is_held_by_record_time_whatever_its_own_records_say() -> None:
    """A12: and by nodes that are right."""
    machine = ManualClock(T + 600 * S)
    clock = RecordClock(machine, NODE)
    clock.applied(T, NODE, T + 600 * S)
    clock.applied(T, OTHER, T)
    assert clock.wall_us() == T
