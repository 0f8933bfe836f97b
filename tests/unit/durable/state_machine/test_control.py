"""The control log: epochs of nodes, fences that hold or do not, and repetitions that count for nothing."""

import pytest

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.control import (
    ControlMachine,
    all_members,
    founded_row,
    last_beat,
    last_sign,
    last_snapshot,
    member_row,
    state_rows,
)
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.outcome import APPLIED, CLOSED_EPOCH, FOREIGN, GAP, REPEATED
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.cluster.control import BOTH, EVENTUAL, LINEAR, Beat, Fence, Found, Leave, Snapshot
from holdfast.records.cluster.control_rows import FENCED, LEFT
from tests.unit.durable.state_machine.control_log import FOUND, ControlLog, control_record, id_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, ZONES, T

pytestmark = pytest.mark.compiled


def test_the_first_found_founds_the_cluster_and_a_second_changes_nothing() -> None:
    log = ControlLog(founded=False)
    assert log.append(control_record(0, 0, 0, FOUND)).counts
    row = founded_row(log.tables)
    assert row is not None
    assert (row.sequence, row.cluster_id, row.found.vnodes) == (1, CLUSTER_ID, 2)
    assert log.append(control_record(0, 0, 0, Found("other", (ZONES,)))).verdict == REPEATED
    assert founded_row(log.tables) == row


def test_nothing_counts_before_the_founding() -> None:
    log = ControlLog(founded=False)
    assert log.join(1, life=1).verdict == FOREIGN
    assert member_row(log.tables, 1) is None


def test_a_join_begins_an_epoch_that_is_its_own_sequence() -> None:
    log = ControlLog()
    outcome = log.join(1, life=1)
    assert outcome.counts
    assert outcome.closed is None
    assert (log.member(1).epoch, log.member(1).lives) == (2, True)
    assert log.write(1, 2, Beat(ready=True)).counts
    beat = last_beat(log.tables, 1)
    assert beat is not None
    assert (beat.sequence, beat.stamp_us, beat.time_us, beat.beat.ready) == (3, T + 3, T, True)


def test_a24_a_join_that_is_repeated_counts_once() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.write(1, 2, Beat())
    assert log.join(1, life=1, after=1).verdict == REPEATED
    assert log.member(1).epoch == 2
    assert last_beat(log.tables, 1) is not None
    log.join(2, life=9)
    log.write(2, 5, Fence(1, 2, 3))
    assert log.join(1, life=1, after=1).verdict == REPEATED, "also when the life is over"
    assert not log.member(1).lives


def test_a24_of_a_node_that_dies_again_and_again_while_it_joins_the_last_epoch_counts() -> None:
    log = ControlLog()
    log.join(1, life=1)
    for life in range(2, 6):
        outcome = log.join(1, life=life)
        assert outcome.closed == (1, log.sequence)
    assert log.member(1).epoch == log.sequence
    for epoch in range(2, log.sequence):
        assert log.write(1, epoch, Beat()).verdict == CLOSED_EPOCH
    assert log.write(1, log.member(1).epoch, Beat()).counts


def test_a24_a_join_of_an_earlier_life_that_lands_late_closes_nothing() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.join(1, life=2)
    late = log.join(1, life=1, after=1)
    assert (late.verdict, late.counts, late.closed) == (APPLIED, False, None)
    assert "not known" in late.refusal
    assert log.member(1).join.life == id_of(2)


def test_a24_of_one_folder_that_runs_twice_the_later_one_stays() -> None:
    log = ControlLog()
    log.join(1, life=1, folder=7)
    assert log.join(1, life=2, folder=7).closed == (1, 3)
    assert log.write(1, 2, Beat()).verdict == CLOSED_EPOCH


def test_another_folder_under_a_known_number_is_refused_while_that_node_lives() -> None:
    log = ControlLog()
    log.join(1, life=1, folder=7)
    refused = log.join(1, life=2, folder=8)
    assert not refused.counts
    assert "another number" in refused.refusal
    log.join(2, life=9)
    log.write(2, 4, Fence(1, 2, 2))
    assert log.join(1, life=2, folder=8).counts


@pytest.mark.parametrize(
    ("there", "joins", "counts"),
    [(EVENTUAL, LINEAR, False), (LINEAR, EVENTUAL, False), (BOTH, LINEAR, True), (EVENTUAL, BOTH, True)],
)
def test_linear_and_eventual_registries_do_not_live_side_by_side(there: int, joins: int, counts: bool) -> None:
    log = ControlLog()
    log.join(1, life=1, mode=there)
    assert log.join(2, life=2, mode=joins).counts is counts
    log.write(1, 2, Leave())
    assert log.join(2, life=3, mode=joins).counts


def test_zero_is_no_number_of_a_node() -> None:
    assert "no number" in ControlLog().join(0, life=1).refusal


def test_a_fence_closes_a_node_without_a_beat_behind_since() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.join(2, life=2)
    log.write(1, 2, Beat())
    assert last_sign(log.tables, 1, log.member(1)) == 4
    outcome = log.write(2, 3, Fence(1, 2, 4))
    assert outcome.counts
    assert outcome.closed == (1, 5)
    row = log.member(1)
    assert (row.closed, row.reason, row.closed_before) == (5, FENCED, 5)
    again = log.write(2, 3, Fence(1, 2, 4))
    assert (again.counts, again.closed) == (False, None)
    assert log.member(1) == row


def test_a6_a_fence_that_meets_a_beat_does_not_hold() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.join(2, life=2)
    since = log.sequence
    log.write(1, 2, Beat())
    assert not log.write(2, 3, Fence(1, 2, since)).counts
    assert log.member(1).lives


def test_a6_of_two_nodes_that_fence_each_other_one_stays() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.join(2, life=2)
    assert log.write(1, 2, Fence(2, 3, 3)).counts
    assert log.write(2, 3, Fence(1, 2, 3)).verdict == CLOSED_EPOCH
    assert [node for node, member in all_members(log.tables).items() if member.lives] == [1]


def test_a_fence_of_an_earlier_epoch_of_itself_or_of_a_stranger_changes_nothing() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.join(2, life=2)
    log.join(1, life=3)
    for fence in (Fence(1, 2, log.sequence), Fence(2, 3, log.sequence), Fence(7, 1, log.sequence)):
        assert not log.write(2, 3, fence).counts
    assert all(member.lives for member in all_members(log.tables).values())


def test_a_join_behind_since_is_a_sign_of_life() -> None:
    log = ControlLog()
    log.join(2, life=2)
    log.join(1, life=1)
    assert not log.write(2, 2, Fence(1, 3, 2)).counts


def test_who_leaves_is_closed_and_may_join_again() -> None:
    log = ControlLog()
    log.join(1, life=1)
    assert log.write(1, 2, Leave()).closed == (1, 3)
    assert (log.member(1).reason, log.write(1, 2, Beat()).verdict) == (LEFT, CLOSED_EPOCH)
    joined = log.join(1, life=2)
    assert joined.counts
    assert joined.closed is None, "it was closed before"
    assert last_beat(log.tables, 1) is None


def snapshot_of(log: ControlLog) -> Snapshot:
    applied = applied_row(log.tables)
    return Snapshot(applied.sequence, applied.digest, state_rows(log.tables))


def test_a_snapshot_counts_directly_behind_the_tables_that_it_has() -> None:
    log = ControlLog()
    log.join(1, life=1)
    log.write(1, 2, Beat())
    first = log.write(1, 2, snapshot_of(log))
    assert (first.counts, first.trim_before, last_snapshot(log.tables)) == (True, 0, 4)
    second = log.write(1, 2, snapshot_of(log))
    assert (second.counts, second.trim_before, last_snapshot(log.tables)) == (True, 4, 5)


def test_a_snapshot_that_is_late_or_differs_in_anything_does_not_count() -> None:
    log = ControlLog()
    log.join(1, life=1)
    right = snapshot_of(log)
    log.write(1, 2, Beat())
    assert not log.write(1, 2, right).counts, "a record came between"
    right = snapshot_of(log)
    assert not log.write(1, 2, Snapshot(right.at, id_of(9), right.rows)).counts
    right = snapshot_of(log)
    assert not log.write(1, 2, Snapshot(right.at, right.digest, right.rows[1:])).counts
    right = snapshot_of(log)
    (key, value), *others = right.rows
    assert not log.write(1, 2, Snapshot(right.at, right.digest, ((key, value + b"x"), *others))).counts
    assert last_snapshot(log.tables) == 0
    assert log.write(1, 2, snapshot_of(log)).counts


def test_numbers_of_an_epoch_are_dense() -> None:
    log = ControlLog()
    log.join(1, life=1)
    assert log.write(1, 2, Beat(), number=1).verdict == APPLIED
    assert log.write(1, 2, Beat(connections=9), number=1).verdict == REPEATED
    assert log.write(1, 2, Beat(), number=3).verdict == GAP
    assert log.write(1, 2, Beat(), number=2).verdict == APPLIED
    log.join(1, life=2)
    assert log.write(1, log.sequence, Beat(), number=1).verdict == APPLIED


def test_a_foreign_record_is_passed_over_and_a_damaged_one_of_ours_is_not() -> None:
    log = ControlLog()
    assert log.append(b"foreign").verdict == FOREIGN
    assert applied_row(log.tables).sequence == 2
    damaged = bytearray(control_record(1, 2, 1, Beat()))
    damaged[-1] ^= 1
    with pytest.raises(PermanentError):
        log.append(bytes(damaged))


def test_entries_are_decided_in_their_order_and_digests_follow_them() -> None:
    one, other = ControlLog(), ControlLog()
    assert one.join(1, life=1).digest == other.join(1, life=1).digest
    assert one.write(1, 2, Beat()).digest != other.write(1, 2, Beat(ready=True)).digest
    with pytest.raises(MisuseError, match="does not follow"):
        ControlMachine(CLUSTER_ID, MemoryTables()).apply(LogEntry(2, T, b"x"))
