"""Rules 1, 2, 3 and 9: which records count."""

import pytest

from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.outcome import APPLIED, CLOSED_EPOCH, FOREIGN, GAP, REPEATED
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.cluster.items import Claim, Closed, Holders, Item, Lead, ReadRegistration, Tick
from holdfast.records.cluster.record import ClusterRecord, encode_record
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, T, Vnode, message, topics

pytestmark = pytest.mark.compiled


def closings(vnode: Vnode) -> dict[bytes, bytes]:
    return {key: value for (_family, key), value in vnode.tables.rows().items() if key[:1] == b"\x04"}


def test_a_foreign_record_is_passed_over_and_the_next_one_counts() -> None:
    """Rule 1, A11."""
    vnode = Vnode()
    other = ClusterRecord(bytes(16), 1, 1, 1, 0, 0, [], [Tick()])
    for foreign in (b"hello", encode_record(other)):
        before = applied_row(vnode.tables)
        outcome = vnode.append(foreign)
        assert (outcome.verdict, outcome.accepted) == (FOREIGN, [])
        assert applied_row(vnode.tables).sequence == before.sequence + 1
        assert applied_row(vnode.tables).digest != before.digest
    assert vnode.write(1, Tick()).verdict == APPLIED


def test_a_record_of_ours_that_cannot_be_read_stops_the_vnode() -> None:
    """Rule 1: nothing is skipped."""
    vnode = Vnode()
    value = encode_record(ClusterRecord(CLUSTER_ID, 1, 1, 1, 0, 0, [], [Tick()]))
    with pytest.raises(PermanentError):
        vnode.append(value[:-1])
    assert applied_row(vnode.tables).sequence == 1


def test_an_entry_that_does_not_follow_is_refused() -> None:
    vnode = Vnode()
    with pytest.raises(MisuseError):
        vnode.apply(vnode.entries[0])


def test_a_repeated_record_is_applied_once() -> None:
    """Rule 3, A4: the answer of an append was lost, and its bytes were sent again, twice, at any time."""
    vnode = Vnode()
    revision = vnode.open("c", 1)
    assert topics(vnode.publish(1, "c", revision)) == [b"t"]
    vnode.write(2, Tick())
    for _repetition in range(2):
        outcome = vnode.again(-2)
        assert (outcome.verdict, topics(outcome), outcome.steps) == (REPEATED, [], [])
    assert vnode.publish(1, "c", revision).published[0].serial == 2


def test_a_gap_is_rejected_and_the_writer_goes_on_from_it() -> None:
    """Rule 3."""
    vnode = Vnode()
    revision = vnode.open("c", 1)
    gap = vnode.write(1, message(), sessions=[("c", revision)], number=4)
    assert (gap.verdict, topics(gap)) == (GAP, [])
    assert vnode.write(1, message(), sessions=[("c", revision)], number=3).verdict == APPLIED
    assert vnode.write(1, message(), sessions=[("c", revision)], number=4).verdict == APPLIED


def test_a_record_of_an_earlier_epoch_is_rejected() -> None:
    """Rule 2, A24: one folder runs twice; the later life counts."""
    vnode = Vnode()
    vnode.write(1, Tick(), epoch=5)
    vnode.write(1, Tick(), epoch=7)
    assert vnode.write(1, Tick(), epoch=5).verdict == CLOSED_EPOCH
    assert vnode.write(1, Tick(), epoch=6).verdict == CLOSED_EPOCH
    assert vnode.write(1, Tick(), epoch=7).verdict == APPLIED


def test_a_higher_epoch_begins_with_number_1() -> None:
    vnode = Vnode()
    vnode.write(1, Tick(), epoch=5)
    assert vnode.write(1, Tick(), epoch=7, number=2).verdict == GAP
    assert vnode.write(1, Tick(), epoch=5).verdict == APPLIED, "a record that does not count closes nothing"
    assert vnode.write(1, Tick(), epoch=7, number=1).verdict == APPLIED


def test_closed_epochs_do_not_count_and_later_ones_do() -> None:
    """Rules 2 and 9."""
    vnode = Vnode()
    vnode.write(1, Tick(), epoch=5)
    assert vnode.write(2, Closed(1, 6)).accepted == [True]
    assert vnode.write(1, Tick(), epoch=5).verdict == CLOSED_EPOCH
    assert vnode.write(3, Tick(), epoch=5).verdict == APPLIED
    assert vnode.write(1, Tick(), epoch=6).verdict == APPLIED


def test_the_second_closing_changes_nothing() -> None:
    """Rule 9: every node may append it."""
    vnode = Vnode()
    assert vnode.write(2, Closed(1, 6)).accepted == [True]
    before = closings(vnode)
    outcome = vnode.write(3, Closed(1, 6), Closed(1, 4), Closed(1, 0))
    assert outcome.accepted == [False, False, False]
    assert closings(vnode) == before


def test_a_closed_node_that_never_wrote_here_is_rejected() -> None:
    vnode = Vnode()
    vnode.write(2, Closed(1, 6))
    assert vnode.write(1, Lead(), epoch=5).verdict == CLOSED_EPOCH


def test_nothing_counts_behind_the_closing_of_the_writers_own_epoch() -> None:
    """A claim there would stand without a node that serves or closes it."""
    vnode = Vnode()
    revision = vnode.open("c", 1, epoch=5)
    claim = Claim("d", 1, (1, 1, 1), 0)
    items: list[Item] = [Closed(1, 6), claim, Lead(), Closed(2, 9), ReadRegistration("c"), message()]
    outcome = vnode.write(1, *items, sessions=[("c", revision)], epoch=5)
    assert outcome.accepted == [True, False, False, False, True, False]
    assert (outcome.reads[4], outcome.refused_claims) == (None, {1: None})
    assert vnode.registration("d") is None


def test_a_rejected_record_does_not_move_the_time() -> None:
    vnode = Vnode()
    vnode.write(1, Tick(), epoch=5)
    vnode.now_us = T + 10_000_000
    assert vnode.write(1, Tick(), epoch=4).time_us == T
    assert vnode.again(1).time_us == T


class TestHolders:
    def test_nodes_that_are_not_named_are_closed(self) -> None:
        vnode = Vnode()
        vnode.write(1, Tick(), epoch=5)
        assert vnode.write(2, Holders(7, (2, 3))).accepted == [True]
        assert vnode.write(1, Tick(), epoch=5).verdict == CLOSED_EPOCH
        assert vnode.write(4, Tick(), epoch=6).verdict == CLOSED_EPOCH, "it never wrote here before"
        assert vnode.write(2, Tick()).verdict == APPLIED

    def test_a_node_that_is_named_again_counts_from_that_decision_on(self) -> None:
        vnode = Vnode()
        vnode.write(2, Holders(7, (2, 3)))
        vnode.write(2, Holders(9, (1, 2, 3)))
        assert vnode.write(1, Tick(), epoch=8).verdict == CLOSED_EPOCH
        assert vnode.write(1, Tick(), epoch=9).verdict == APPLIED
        assert vnode.write(3, Tick(), epoch=1).verdict == APPLIED, "it held all the time"

    def test_an_earlier_decision_changes_nothing(self) -> None:
        vnode = Vnode()
        vnode.write(2, Holders(7, (2, 3)))
        assert vnode.write(3, Holders(7, (2,)), Holders(6, (2,))).accepted == [False, False]
        assert vnode.write(3, Tick()).verdict == APPLIED
