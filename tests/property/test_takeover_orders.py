"""Channels of one client id connect in every order, over views that lag: one stays, and it is the newest.

What decides is the real takeover machine over the real registry in memory; nodes, channels and sessions are a model of
the test. That the broker carries the decisions out is shown in `tests/behaviour/connections/test_takeover_registry.py`.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.durable.takeover.registry import NOBODY
from holdfast.durable.takeover.takeover import EXPENSIVE_FAIL, HAPPY_ENDING, HAPPY_FAIL, MOST_EXPENSIVE
from tests.interleavings.orders import every_order, following
from tests.property.takeover_world import Plan, World

pytestmark = pytest.mark.compiled

#: Few times and nodes, so that ties happen.
stayers = st.builds(Plan, st.integers(1, 3), st.integers(1, 3), st.booleans(), st.just(False))
leavers = st.builds(Plan, st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans())
#: What happens next; long enough for every decision of four channels, and 0 once it is used up.
decisions = st.lists(st.integers(0, 1 << 16), max_size=150)


def check_end(world: World) -> None:
    """What must hold once everything has been delivered, whoever left and whatever failed."""
    alive = [channel for channel in world.channels if channel.lives]
    registered = world.registered()
    assert [channel.number for channel in alive] == ([registered.connection_id] if registered else [])
    for channel in alive:
        assert not channel.frozen_by, "a taker that gave up left the old channel frozen"
    for channel in world.channels:
        assert channel.lives or channel.closed, "a channel waits for ever"


def check_newest_stays(world: World) -> None:
    """R7: with nobody leaving and nothing failing, the newest of all is the one that stays."""
    check_end(world)
    newest = max(world.channels, key=lambda channel: channel.version)
    assert newest.lives
    assert not newest.refused


@pytest.mark.parametrize("clean_start", [False, True])
@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("times", [(1, 2), (2, 1), (1, 1)])
def test_two_channels_in_every_order_leave_the_newest(times: tuple[int, int], views: int, clean_start: bool) -> None:
    """The decisions of R1, R2, R3, R4, R6, R7, R12: all orders, not a sample."""
    paths: set[str] = set()
    for choose in every_order():
        world = World([Plan(times[0], 1, clean_start), Plan(times[1], 2, clean_start)], views, choose)
        world.run()
        check_newest_stays(world)
        paths.update(channel.takeover.path for channel in world.channels)
    assert paths == {HAPPY_FAIL, EXPENSIVE_FAIL, MOST_EXPENSIVE, HAPPY_ENDING}


@pytest.mark.parametrize("times", [(1, 2), (2, 1)])
def test_a_channel_that_leaves_in_any_order_leaves_nothing_behind(times: tuple[int, int]) -> None:
    """R9, R11: also when it leaves in the middle of a takeover, as the taker or as the one taken over."""
    for leaver in (0, 1):
        for choose in every_order():
            world = World([Plan(times[i], i, leaves=i == leaver) for i in (0, 1)], 2, choose)
            world.run()
            check_end(world)
            left, other = world.channels[leaver], world.channels[1 - leaver]
            if left.version < other.version or left.takeover.registration.revision == NOBODY:
                assert other.lives


@given(st.lists(stayers, min_size=2, max_size=4), st.integers(1, 3), decisions)
@settings(max_examples=500)
def test_of_many_channels_the_newest_stays(channels: list[Plan], views: int, numbers: list[int]) -> None:
    """The decisions of R3, R7: however far the views lag behind."""
    world = World(channels, views, following(numbers))
    world.run()
    check_newest_stays(world)


@given(st.lists(leavers, min_size=2, max_size=4), st.integers(1, 3), decisions)
@settings(max_examples=500)
def test_one_channel_stays_when_others_come_and_go(channels: list[Plan], views: int, numbers: list[int]) -> None:
    """The decisions of R5, R9, R11: and no channel stays frozen."""
    world = World(channels, views, following(numbers))
    world.run()
    check_end(world)


@given(st.lists(leavers, min_size=2, max_size=4), st.integers(1, 3), decisions)
@settings(max_examples=500)
def test_lost_answers_and_silent_channels_do_not_make_two_owners(
    channels: list[Plan], views: int, numbers: list[int]
) -> None:
    """The decisions of R8, R11, with faults: what was not frozen is fenced, what was refused is not registered."""
    world = World(channels, views, following(numbers), faults=True)
    world.run()
    check_end(world)
