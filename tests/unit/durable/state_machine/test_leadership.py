"""Rule 10: one leader, replaced when it is silent; what counts from it alone."""

import pytest

from holdfast.durable.sessions.session_store import KeepGroup, KeepSession, keep_progress
from holdfast.durable.state_machine.tables import CLUSTER
from holdfast.records.cluster.items import (
    Assign,
    Border,
    Closed,
    DropGeneration,
    Horizon,
    Item,
    Lead,
    Resign,
    Tick,
    Unassign,
)
from holdfast.records.cluster.rows import LEADER_KEY, decode_leader
from holdfast.records.session.groups import GROUP_PREFIX, GroupRecord
from holdfast.records.session.progress import Progress
from holdfast.records.session.session_record import SessionRecord
from tests.unit.durable.state_machine.vnode import S, T, Vnode, message, step

pytestmark = pytest.mark.compiled

GROUP = f"{GROUP_PREFIX}$share/g/t"


def lead(vnode: Vnode, node: int, epoch: int = 1) -> bool:
    return vnode.write(node, Lead(), epoch=epoch).accepted == [True]


def test_the_first_leads_until_it_resigns() -> None:
    vnode = Vnode()
    assert lead(vnode, 1)
    assert not lead(vnode, 2)
    assert vnode.write(2, Resign()).accepted == [False]
    assert vnode.write(1, Resign()).accepted == [True]
    assert lead(vnode, 2)


def test_a_leader_whose_epoch_is_closed_is_replaced() -> None:
    vnode = Vnode()
    assert lead(vnode, 1, epoch=5)
    assert vnode.write(2, Closed(1, 6), Lead()).accepted == [True, True]


def test_a_leader_that_writes_and_does_not_tick_is_replaced_after_15_s() -> None:
    """Rule 10, A20: it beats and applies nothing; wills and groups go on without it."""
    vnode = Vnode()
    assert lead(vnode, 1)
    vnode.now_us += 10 * S
    assert vnode.write(1, Tick()).accepted == [True]
    vnode.now_us += 15 * S - 1
    vnode.write(1, message(), sessions=[("c", 1)])
    assert not lead(vnode, 2)
    vnode.now_us += 1
    assert lead(vnode, 2)
    assert vnode.write(1, Tick()).accepted == [False]


def test_a_tick_of_another_node_does_not_keep_the_leader() -> None:
    vnode = Vnode()
    assert lead(vnode, 1)
    vnode.now_us += 15 * S
    assert vnode.write(2, Tick(), Lead()).accepted == [False, True]


@pytest.mark.parametrize(
    "item",
    [
        Assign(GROUP, 0, 5, "c", 1),
        Unassign(GROUP, 0, 5),
        Border("default", 2, "learned", {}),
        DropGeneration("default", 1),
        Horizon(b"t", T),
    ],
)
def test_items_on_groups_generations_and_horizons_count_from_the_leader_alone(item: Item) -> None:
    """A7: a paused leader wakes with them in its hands."""
    vnode = Vnode()
    revision = vnode.open("c", 3)
    vnode.publish(3, "c", revision, message(retain=True))
    assert lead(vnode, 1)
    open_group(vnode, 1)
    vnode.write(1, Assign(GROUP, 0, 5, "c", 1))
    vnode.write(1, Resign())
    assert lead(vnode, 2)
    assert vnode.write(1, item).accepted == [False]
    if isinstance(item, Assign):
        item = Assign(GROUP, 0, 6, "c", 1)
    if isinstance(item, DropGeneration):
        vnode.write(2, Border("default", 2, "learned", {}))
    assert vnode.write(2, item).accepted == [True]


def open_group(vnode: Vnode, node: int) -> int:
    """The revision of a leader's term, with a group that has come to position 5."""
    revision = leader_revision(vnode)
    items = [
        step(KeepSession(GROUP, SessionRecord(expiry_s=0xFFFFFFFF, disconnected_us=0), None)),
        step(KeepGroup(GROUP, GroupRecord(T, replaying=False, steal_after_us=0))),
        step(keep_progress(GROUP, Progress({0: 5}, [], 0))),
    ]
    assert vnode.write(node, *items, sessions=[(GROUP, revision)]).accepted == [True] * 3
    return revision


def leader_revision(vnode: Vnode) -> int:
    value = vnode.tables.get(CLUSTER, LEADER_KEY)
    assert value is not None
    return decode_leader(value).revision


def test_steps_of_a_group_count_from_the_leader_in_its_present_term() -> None:
    vnode = Vnode()
    assert lead(vnode, 1)
    old = open_group(vnode, 1)
    vnode.write(1, Resign())
    assert lead(vnode, 1)
    later = step(keep_progress(GROUP, Progress({0: 9}, [], 0)))
    assert vnode.write(1, later, sessions=[(GROUP, old)]).accepted == [False]
    assert vnode.write(2, later, sessions=[(GROUP, leader_revision(vnode))]).accepted == [False]
    assert vnode.write(1, later, sessions=[(GROUP, leader_revision(vnode))]).accepted == [True]


def test_a_place_is_assigned_once() -> None:
    """A14: whoever leads."""
    vnode = Vnode()
    assert lead(vnode, 1)
    assign = Assign(GROUP, 0, 5, "c", 1)
    assert vnode.write(1, assign, Assign(GROUP, 0, 5, "d", 2), Assign(GROUP, 1, 5, "d", 2)).accepted == [
        True,
        False,
        True,
    ]
    assert vnode.write(1, Assign(GROUP, 0, -5, "d", 2)).accepted == [False]


def test_an_assignment_goes_only_up_to_the_groups_stored_progress() -> None:
    """A14: a new leader dispatches everything above it."""
    vnode = Vnode()
    assert lead(vnode, 1)
    vnode.write(1, Assign(GROUP, 0, 5, "c", 1), Assign(GROUP, 0, 6, "c", 1))
    assert vnode.write(1, Unassign(GROUP, 0, 5)).accepted == [False]
    open_group(vnode, 1)
    outcome = vnode.write(1, Unassign(GROUP, 0, 5), Unassign(GROUP, 0, 5), Unassign(GROUP, 0, 6), Unassign(GROUP, 1, 5))
    assert outcome.accepted == [True, False, False, False]
