"""The machine as a whole: equal logs give equal tables and digests, whoever applies them, in one run or in two."""

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.state_machine.machine import StateMachine, applied_row
from holdfast.durable.state_machine.outcome import GAP
from holdfast.durable.state_machine.tables import CLUSTER
from holdfast.model.errors import PermanentError
from holdfast.records.cluster.items import Tick
from holdfast.records.cluster.rows import registration_key
from holdfast.records.cluster.session_steps import KEEP_SESSION, StepItem
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, Vnode, message, topics

pytestmark = pytest.mark.compiled


def a_log() -> Vnode:
    vnode = Vnode()
    revision = vnode.open("c", 1)
    vnode.publish(1, "c", revision, message(retain=True), message(packet_id=3, number=4))
    vnode.append(b"foreign")
    vnode.write(2, Tick(), number=7)
    return vnode


def test_a_node_that_applies_the_same_log_has_the_same_tables_and_digest() -> None:
    vnode, other = a_log(), Vnode(settings=None)
    for entry in vnode.entries:
        other.apply(entry)
    assert other.tables.rows() == vnode.tables.rows()
    assert applied_row(other.tables) == applied_row(vnode.tables)


def test_a_node_that_is_opened_again_goes_on_where_it_was() -> None:
    """A13: what was not written is read again, with the same outcome."""
    vnode = a_log()
    revision = vnode.publish(1, "c", 0).sequence
    entry = vnode.entries[-1]
    other = Vnode(settings=None)
    for earlier in vnode.entries[:-1]:
        other.apply(earlier)
        other.machine = StateMachine(CLUSTER_ID, other.tables)
    lost = other.machine.apply(entry)
    assert (lost.sequence, lost.digest) == (revision, applied_row(vnode.tables).digest)
    other.machine = StateMachine(CLUSTER_ID, other.tables)
    assert other.apply(entry).digest == lost.digest
    assert other.tables.rows() == vnode.tables.rows()


def test_the_digest_tells_logs_apart_that_leave_the_same_tables() -> None:
    one, other = Vnode(), Vnode()
    assert one.write(2, Tick(), number=7).verdict == GAP
    assert other.write(2, Tick(), number=8).verdict == GAP
    assert applied_row(one.tables).digest != applied_row(other.tables).digest


def test_a_node_whose_tables_differ_has_another_digest_from_the_record_on_that_they_decide() -> None:
    """A message with a number that was taken is accepted and not stored: only that it was accepted tells them apart."""
    one, other = Vnode(), Vnode()
    for vnode in (one, other):
        revision = vnode.open("c", 1)
        vnode.publish(1, "c", revision, message(number=4))
    damaged = Changes()
    damaged.into(CLUSTER).delete(registration_key("c"))
    other.tables.write(damaged, [])
    assert applied_row(one.tables) == applied_row(other.tables)
    outcomes = [vnode.publish(1, "c", revision, message(number=4)) for vnode in (one, other)]
    assert [outcome.accepted for outcome in outcomes] == [[True], [False]]
    assert outcomes[0].digest != outcomes[1].digest


def test_a_step_that_cannot_be_read_stops_the_vnode_before_anything_is_decided() -> None:
    """Rule 1: a step of a later version."""
    vnode = Vnode()
    revision = vnode.open("c", 1)
    before = vnode.tables.rows()
    with pytest.raises(PermanentError):
        vnode.publish(1, "c", revision, message(), StepItem(0, KEEP_SESSION, value=b"\x63"))
    assert vnode.tables.rows() == before


def test_every_prefix_of_a_sessions_items_can_be_loaded() -> None:
    """A16: the writer dies between any two records of one batch."""
    items = [message(b"1", packet_id=1, number=1), message(b"2", packet_id=2, number=2)]
    for count in range(len(items) + 1):
        vnode = Vnode()
        revision = vnode.open("c", 1)
        outcome = vnode.publish(1, "c", revision, *items[:count]) if count else None
        stored = vnode.tables.sessions.load("c")
        assert stored is not None
        assert stored.incoming == set(range(1, count + 1))
        assert ([] if outcome is None else topics(outcome)) == [b"1", b"2"][:count]


def test_the_largest_message_and_a_record_of_many_items_are_applied() -> None:
    """A11."""
    vnode = Vnode()
    revision = vnode.open("c", 1)
    large = vnode.publish(1, "c", revision, message(payload=bytes(8_000_000)))
    assert large.published[0].serial == 1
    many = vnode.publish(1, "c", revision, *[message(b"t")] * 2000)
    assert many.published[-1].serial == 2001
