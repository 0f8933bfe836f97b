"""Whole nodes over logs in memory: what a leader trims, and what becomes of a member that is left behind."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.cluster.vnodes.trim_rules import TrimLimits
from holdfast.durable.ordered_log import INSTALL
from tests.unit.cluster.whole_node_world import WholeNode, WholeWorld, whole_world

#: A log of a hundred records of 100 bytes is kept for members that are away.
LIMITS = TrimLimits(catch_up_bytes=10_000, install_bytes=20_000)


def applied(node: WholeNode) -> list[int]:
    return [applier.place.sequence for applier in node.node.appliers]


def in_world(story: Callable[[WholeWorld], Awaitable[None]]) -> None:
    async def run() -> None:
        async with whole_world() as world:
            world.trim_limits = LIMITS
            await story(world)

    asyncio.run(run())


def test_a_dead_member_holds_the_log_only_within_the_bound() -> None:
    """A20: the log is trimmed without it, and what a majority has not synced stays."""

    async def story(world: WholeWorld) -> None:
        first, second, third = [await world.begin(number) for number in (1, 2, 3)]
        await world.fill(0, 20)
        await world.pass_s(3)
        left_at = applied(third)[0]
        await third.kill()
        await world.fill(0, 60)
        await world.pass_s(20)
        assert (await world.logs[0].ends()).first <= left_at, "it reads on where it stopped"
        await world.fill(0, 400)
        await world.pass_s(5)
        ends = await world.logs[0].ends()
        assert ends.first > left_at + 1
        assert ends.size_bytes <= LIMITS.catch_up_bytes + LIMITS.catch_up_bytes // 16 + 2000
        assert ends.first <= min(applied(first)[0], applied(second)[0])
        assert (await world.logs[1].ends()).first <= applied(third)[1], "a log that is small stays"

    in_world(story)


def test_a_member_that_lives_and_does_not_apply_fills_no_log() -> None:
    """A20."""

    async def story(world: WholeWorld) -> None:
        _first, _second, third = [await world.begin(number) for number in (1, 2, 3)]
        await world.pass_s(2)
        third.links[0].holds_reads = True
        await world.fill(0, 500)
        await world.pass_s(5)
        assert (await world.logs[0].ends()).size_bytes <= LIMITS.catch_up_bytes + 2000
        assert not third.ends

    in_world(story)


def test_one_node_of_three_trims_nothing() -> None:
    """What was acknowledged is on a majority's disks at every moment."""

    async def story(world: WholeWorld) -> None:
        nodes = [await world.begin(number) for number in (1, 2, 3)]
        await world.pass_s(2)
        for node in nodes[1:]:
            await node.kill()
        before = (await world.logs[0].ends()).first
        await world.fill(0, 500)
        await world.pass_s(20)
        assert (await world.logs[0].ends()).first <= before + 20, "not above what the dead ones have synced"

    in_world(story)


def test_a_checkpoint_under_way_holds_the_log() -> None:
    async def story(world: WholeWorld) -> None:
        nodes = [await world.begin(number) for number in (1, 2, 3)]
        await world.pass_s(2)
        held = applied(nodes[0])[0]
        for node in nodes:
            node.node.holds.announced(2, [held, 1])
        await world.fill(0, 120)
        await world.pass_s(3)
        assert (await world.logs[0].ends()).first <= held
        await world.fill(0, 400)
        await world.pass_s(3)
        assert (await world.logs[0].ends()).first > held, "not beyond its bound"

    in_world(story)


def test_a_member_that_was_left_behind_stops_with_the_reason_to_be_installed() -> None:
    async def story(world: WholeWorld) -> None:
        third = [await world.begin(number) for number in (1, 2, 3)][2]
        await world.pass_s(2)
        await third.kill()
        await world.fill(0, 500)
        await world.pass_s(20)
        again = await world.begin(3, before=third)
        await world.pass_s(3)
        stop = again.node.appliers[0].stop
        assert stop is not None
        assert stop.reason == INSTALL
        assert again.node.appliers[1].stop is None
        ((why, differs),) = again.installs
        assert "vnode 0 was trimmed" in why
        assert not differs
        assert again.node.caught_up() is None, "it serves no checkpoint"

    in_world(story)
