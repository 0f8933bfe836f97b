"""Sync and kill: the process ends between any two steps of a message's way, with any part of what was not synced."""

from collections.abc import Callable

import pytest

from tests.interleavings.clients import StoryPublisher, StorySubscriber
from tests.interleavings.journal_disk import JournalDisk
from tests.interleavings.orders import DEEP, Choose, every_order, tell_all
from tests.interleavings.story import Disk, Story

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]


def a_message(disk: Disk, choose: Choose, qos: int, *, fine: bool = False) -> None:
    """One message, with every step of its way in the story."""
    with Story(disk, choose, kills=True, fine=fine) as story:
        publisher = StoryPublisher("p", story.ledger)
        story.add(publisher)
        story.add(StorySubscriber("s", story.ledger, "#", qos))
        story.publishes(publisher, qos)
        story.tell()


def several(disk: Disk, choose: Choose, *qos: int) -> None:
    """Several for a window of two, so that batches and answers meet; who publishes answers at once."""
    with Story(disk, choose, kills=True) as story:
        publisher = StoryPublisher("p", story.ledger)
        story.add(publisher, eager=True)
        story.add(StorySubscriber("s", story.ledger, "#", 2, receive_maximum=2))
        story.publishes(publisher, *qos)
        story.tell()


@pytest.mark.parametrize("patient", [True, False], ids=["one sync at a time", "batches in line"])
@pytest.mark.parametrize(("qos", "least"), [(1, 10), (2, 200)])
def test_a_message_survives_a_kill_at_any_step(qos: int, least: int, patient: bool, record_property: Record) -> None:
    """M6, Q1, Q2, L20, R12."""
    told = tell_all(lambda choose: a_message(JournalDisk(patient=patient), choose, qos), every_order())
    record_property("orders", told)
    assert told >= least


@pytest.mark.parametrize(("qos", "least"), [(1, 30), *([(2, 5000)] if DEEP else [])])
def test_a_message_survives_a_kill_between_any_two_rounds_of_the_loop(
    qos: int, least: int, record_property: Record
) -> None:
    """M6, Q1, Q2, L20, R12."""
    told = tell_all(lambda choose: a_message(JournalDisk(patient=True), choose, qos, fine=True), every_order())
    record_property("orders", told)
    assert told >= least


@pytest.mark.parametrize("patient", [True, *([False] if DEEP else [])])
@pytest.mark.parametrize(("qos", "least"), [((1, 2), 200), *([((2, 2), 1000), ((2, 1, 2), 1000)] if DEEP else [])])
def test_messages_survive_a_kill_at_any_step(
    qos: tuple[int, ...], least: int, patient: bool, record_property: Record
) -> None:
    """M6, Q1, Q2, L1, L20, R12."""
    told = tell_all(lambda choose: several(JournalDisk(patient=patient), choose, *qos), every_order())
    record_property("orders", told)
    assert told >= least
