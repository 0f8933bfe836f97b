"""Hand-over from backlog to live: the last message of the past and the first of the present meet, in any order."""

from collections.abc import Callable

import pytest

from tests.interleavings.clients import StoryPublisher, StoryReplayer, StorySubscriber
from tests.interleavings.journal_disk import JournalDisk
from tests.interleavings.orders import DEEP, Choose, every_order, tell_all
from tests.interleavings.story import Disk, Story

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]
_WINDOW = 2


def after_an_absence(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    """A session returns to messages that it missed, while others are published."""
    with Story(disk, choose, fine=fine, kills=kills) as story:
        publisher = StoryPublisher("p", story.ledger)
        subscriber = StorySubscriber("s", story.ledger, "#", 2, receive_maximum=_WINDOW)
        story.add(publisher, eager=True)
        story.add(subscriber)
        story.before(subscriber.drop, lambda: publisher.publish_to("a/1", 1), lambda: publisher.publish_to("a/2", 2))
        story.acts(subscriber, lambda: subscriber.connect(story.world), offline=True)
        story.publishes(publisher, *qos)
        story.tell()


def of_a_replay(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    """A subscription to the past reaches the present."""
    with Story(disk, choose, fine=fine, kills=kills) as story:
        publisher = StoryPublisher("p", story.ledger)
        subscriber = StoryReplayer("s", story.ledger, "$replay/earliest/#", 2, receive_maximum=_WINDOW)
        story.add(publisher, eager=True)
        story.add(subscriber, late=True)
        story.before(lambda: publisher.publish_to("a/1", 1), lambda: publisher.publish_to("a/2", 2))
        story.acts(subscriber, lambda: subscriber.connect(story.world), offline=True)
        story.publishes(publisher, *qos)
        story.tell()


def of_a_slow_one(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    """A live one has room for one message: it falls behind, and catches up."""
    with Story(disk, choose, fine=fine, kills=kills) as story:
        publisher = StoryPublisher("p", story.ledger)
        story.add(publisher, eager=True)
        story.add(StorySubscriber("s", story.ledger, "#", 2, receive_maximum=1))
        story.publishes(publisher, *qos)
        story.tell()


_STORIES = [
    (after_an_absence, (1,), {}, 50),
    (after_an_absence, (2,), {}, 100),
    (of_a_replay, (1,), {}, 100),
    (of_a_replay, (2,), {}, 200),
    (of_a_slow_one, (1, 2, 1), {}, 300),
    (after_an_absence, (1,), {"kills": True}, 300),
    (of_a_replay, (1,), {"kills": True}, 300),
]
_DEEP_STORIES = [
    (after_an_absence, (1, 2), {}, 1000),
    (of_a_replay, (1, 2), {}, 1000),
    (of_a_slow_one, (2, 2, 2), {}, 1000),
    (after_an_absence, (2,), {"kills": True}, 1000),
    (of_a_replay, (2,), {"kills": True}, 1000),
    (of_a_slow_one, (1, 2, 1), {"kills": True}, 1000),
]


@pytest.mark.parametrize("patient", [True, *([False] if DEEP else [])])
@pytest.mark.parametrize(("story", "qos", "how", "least"), _STORIES + (_DEEP_STORIES if DEEP else []))
def test_the_present_follows_the_past_without_a_gap_and_without_a_duplicate(
    story: Callable[..., None],
    qos: tuple[int, ...],
    how: dict[str, bool],
    least: int,
    patient: bool,
    record_property: Record,
) -> None:
    """L13, L1, M6: for a session that returns, for a replay, for a client that was slow."""
    told = tell_all(lambda choose: story(JournalDisk(patient=patient), choose, *qos, **how), every_order())
    record_property("orders", told)
    assert told >= least
