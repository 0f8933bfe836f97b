"""A member of a group leaves with messages that it has not acknowledged; it returns, or its session ends.

Who joined last is the first to get a message: so it is the one who leaves.
"""

from collections.abc import Callable

import pytest

from holdfast.exchange.drops import DROP_SESSION_ENDED
from tests.interleavings.clients import StoryPublisher, StorySubscriber
from tests.interleavings.journal_disk import JournalDisk
from tests.interleavings.orders import DEEP, Choose, every_order, tell_all
from tests.interleavings.story import Disk, Story

pytestmark = pytest.mark.slow

Record = Callable[[str, object], None]
_FILTER = "$share/g/#"


def who_returns(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    with Story(disk, choose, kills=kills, fine=fine) as story:
        publisher = StoryPublisher("p", story.ledger)
        leaver = StorySubscriber("leaver", story.ledger, _FILTER, 2, receive_maximum=1)
        story.add(publisher, eager=True)
        story.add(StorySubscriber("stayer", story.ledger, _FILTER, 2, receive_maximum=1))
        story.add(leaver)
        story.publishes(publisher, *qos)
        story.acts(leaver, leaver.drop, lambda: leaver.connect(story.world), offline=True)
        story.tell()


def who_ends(disk: Disk, choose: Choose, *qos: int, fine: bool = False, kills: bool = False) -> None:
    """Of QoS 2 that was begun with it, what ended with it is counted; what a kill ended is known to the story alone."""
    ended: list[int] = []
    with Story(disk, choose, kills=kills, fine=fine) as story:
        publisher = StoryPublisher("p", story.ledger)
        leaver = StorySubscriber("leaver", story.ledger, _FILTER, 2, receive_maximum=1, expiry_s=0)
        story.add(publisher, eager=True)
        story.add(StorySubscriber("stayer", story.ledger, _FILTER, 2, receive_maximum=1))
        story.add(leaver)
        story.publishes(publisher, *qos)
        story.acts(leaver, leaver.part)

        def counted() -> int:
            return story.world.broker.exchange.counters.drops.get(DROP_SESSION_ENDED, 0)

        def note() -> None:
            member = story.world.broker.sessions.clients.get(leaver.name)
            ended.append(counted() + (len(member.session.window) if member is not None else 0))

        story.on_kill = note
        story.tell(lost=lambda: sum(ended) + counted())


_STORIES = [
    (who_returns, (1,), {}, 50),
    (who_returns, (2,), {}, 300),
    (who_ends, (2, 1), {}, 300),
    (who_ends, (1, 1), {}, 60),
    (who_returns, (1,), {"kills": True}, 300),
    (who_ends, (2,), {"kills": True}, 60),
]
_DEEP_STORIES = [
    (who_returns, (1, 2), {}, 3000),
    (who_returns, (1, 1), {}, 1000),
    (who_ends, (1, 2), {}, 1000),
    (who_returns, (2,), {"kills": True}, 1000),
    (who_ends, (2, 1), {"kills": True}, 1000),
    (who_ends, (2,), {"fine": True}, 1000),
]


@pytest.mark.parametrize("patient", [True, *([False] if DEEP else [])])
@pytest.mark.parametrize(("story", "qos", "how", "least"), _STORIES + (_DEEP_STORIES if DEEP else []))
def test_what_a_member_leaves_is_neither_lost_nor_given_to_two(
    story: Callable[..., None],
    qos: tuple[int, ...],
    how: dict[str, bool],
    least: int,
    patient: bool,
    record_property: Record,
) -> None:
    """L15, Q10: QoS 1 goes to the others, QoS 2 stays with who has begun it."""
    told = tell_all(lambda choose: story(JournalDisk(patient=patient), choose, *qos, **how), every_order())
    record_property("orders", told)
    assert told >= least
