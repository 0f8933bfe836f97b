"""Takeover during a commit under way: the client connects again before the broker has noticed that it left."""

from collections.abc import Callable

import pytest

from holdfast.wire.packets import Publish
from tests.interleavings.clients import Caller, StoryPublisher, StorySubscriber
from tests.interleavings.journal_disk import JournalDisk
from tests.interleavings.orders import DEEP, Choose, every_order, tell_all
from tests.interleavings.story import Disk, Story

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]


def of_a_subscriber(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    with Story(disk, choose, fine=fine, kills=kills) as story:
        publisher = StoryPublisher("p", story.ledger)
        subscriber = StorySubscriber("s", story.ledger, "#", 2)
        story.add(publisher, eager=True)
        story.add(subscriber)
        story.publishes(publisher, *qos)
        story.acts(subscriber, lambda: subscriber.connect(story.world), offline=True)
        story.tell()


def of_a_publisher(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    with Story(disk, choose, fine=fine, kills=kills) as story:
        publisher = StoryPublisher("p", story.ledger)
        story.add(publisher)
        story.add(StorySubscriber("s", story.ledger, "#", 2), eager=True)
        story.publishes(publisher, *qos)
        story.acts(publisher, lambda: publisher.connect(story.world), offline=True)
        story.tell()


def by_two(disk: Disk, choose: Choose, *, fine: bool) -> None:
    """Of two that take over, one wants a clean start. The broker has taken a message of QoS 2 from the first one."""
    packet_id = 7
    with Story(disk, choose, fine=fine) as story:
        watcher = Caller("w", story.ledger, "#")
        first, clean, other = (Caller("c", story.ledger) for _taker in range(3))
        story.add(watcher, eager=True)
        story.add(first)
        story.add(clean, late=True)
        story.add(other, late=True)
        story.acts(first, lambda: first.say(Publish("a", b"1", 2, packet_id)))
        opened: list[Caller] = []

        def come(taker: Caller, *, clean_start: bool) -> None:
            opened.append(taker)
            taker.connect(story.world, clean_start=clean_start)

        story.acts(clean, lambda: come(clean, clean_start=True), offline=True)
        story.acts(other, lambda: come(other, clean_start=False), offline=True)
        story.play()
        assert [taker.is_open() for taker in (*opened, first)] == [False, True, False], "the newest stays"
        for taker in (clean, other):
            connack = taker.answer
            if connack is not None and connack.reason == 0:
                assert connack.session_present == (taker is other)
        published = len(watcher.got)
        disk.held = story.world.fine = False
        opened[-1].say(Publish("a", b"1", 2, packet_id, dup=published > 0))
        story.rest()
        started_anew = clean.answer is not None and clean.answer.reason == 0
        assert len(watcher.got) == (published + 1 if started_anew else 1), story.trail


_STORIES = [
    (of_a_subscriber, (1, 2), {}, 300),
    (of_a_publisher, (2,), {}, 60),
    (of_a_subscriber, (1,), {"fine": True}, 60),
    (of_a_publisher, (1,), {"fine": True}, 60),
    (of_a_subscriber, (2,), {"kills": True}, 300),
    (of_a_publisher, (2,), {"kills": True}, 400),
]
_DEEP_STORIES = [
    (of_a_publisher, (1, 2), {}, 400),
    (of_a_subscriber, (2, 2), {}, 1000),
    (of_a_publisher, (2, 2), {}, 3000),
    (of_a_subscriber, (2,), {"fine": True}, 3000),
    (of_a_publisher, (2,), {"fine": True}, 3000),
    (of_a_subscriber, (1, 2), {"kills": True}, 3000),
    (of_a_publisher, (1, 2), {"kills": True}, 3000),
]


@pytest.mark.parametrize("patient", [True, *([False] if DEEP else [])])
@pytest.mark.parametrize(("story", "qos", "how", "least"), _STORIES + (_DEEP_STORIES if DEEP else []))
def test_a_takeover_neither_loses_nor_doubles_a_message(
    story: Callable[..., None],
    qos: tuple[int, ...],
    how: dict[str, bool],
    least: int,
    patient: bool,
    record_property: Record,
) -> None:
    """Q8, R12, L1: a client that publishes and one that is published to, in every order; with a kill, too."""
    told = tell_all(lambda choose: story(JournalDisk(patient=patient), choose, *qos, **how), every_order())
    record_property("orders", told)
    assert told >= least


@pytest.mark.parametrize(("fine", "least"), [(False, 20), *([(True, 3000)] if DEEP else [])])
def test_of_two_that_take_over_the_newest_stays_and_knows_what_was_there(
    fine: bool, least: int, record_property: Record
) -> None:
    """R6, R7, R12, Q2: a clean start forgets what the broker had taken, and nobody else does."""
    told = tell_all(lambda choose: by_two(JournalDisk(patient=True), choose, fine=fine), every_order())
    record_property("orders", told)
    assert told >= least
