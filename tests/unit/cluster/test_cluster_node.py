"""Whole nodes: when one serves, leads and is ready, and what others do for one that does not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.cluster.membership.readiness import NodeBounds
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.model.reasons import SERVER_UNAVAILABLE, USE_ANOTHER_SERVER
from tests.unit.cluster.whole_node_world import VNODES, WholeNode, WholeWorld, client_of, whole_world

TEN_MINUTES_US = 600_000_000
TEN_YEARS_US = 10 * 365 * 86_400_000_000


def play(story: Callable[[WholeWorld], Awaitable[None]]) -> None:
    async def act() -> None:
        async with whole_world() as world:
            await story(world)

    asyncio.run(act())


async def three(world: WholeWorld, bounds: NodeBounds | None = None) -> tuple[WholeNode, WholeNode, WholeNode]:
    nodes = [await world.begin(node, bounds) for node in (1, 2, 3)]
    await world.pass_s(3)
    assert [node.node.readiness.reasons() for node in nodes] == [[], [], []]
    assert all(node.beat(of).ready for node in nodes for of in (1, 2, 3))
    return nodes[0], nodes[1], nodes[2]


def refused(node: WholeNode, vnode: int = 0) -> int:
    """With which reason a client is refused; 0 if it is served."""
    refusal = node.node.refusal(client_of(vnode))
    return 0 if refusal is None else refusal.reason


# ---- lag


def test_a_node_that_applies_nothing_is_not_ready_and_others_lead() -> None:
    """A20: it beats, and applies nothing of one vnode."""

    async def act(world: WholeWorld) -> None:
        one, two, _three = await three(world)
        assert world.leaders() == [1, 1]
        one.links[0].holds_reads = True
        await world.pass_s(8)
        assert one.node.readiness.is_ready
        assert 5_000 < two.beat(1).vnodes[0].lag_ms < 10_000
        await world.pass_s(10)
        beat = two.beat(1)
        assert not beat.ready
        assert "behind in vnode 0" in beat.reasons[0]
        assert beat.lag_ms == beat.vnodes[0].lag_ms > 10_000
        assert beat.vnodes[1].lag_ms == 0
        assert [refused(one, vnode) for vnode in range(VNODES)] == [SERVER_UNAVAILABLE] * 2
        assert [two.node.leader_of(vnode) for vnode in range(VNODES)] in ([2, 2], [2, 3], [3, 2], [3, 3])
        one.links[0].go_on()
        await world.pass_s(3)
        assert one.node.readiness.is_ready
        assert refused(one) == 0

    play(act)


def test_all_nodes_that_are_behind_keep_their_clients() -> None:
    async def act(world: WholeWorld) -> None:
        nodes = await three(world)
        for node in nodes:
            node.links[0].holds_reads = True
        await world.pass_s(20)
        assert [node.node.readiness.serves for node in nodes] == [False] * 3
        # Its log takes records, and none of them is seen to be accepted: that vnode is not served.
        assert [[refused(node, 0), refused(node, 1)] for node in nodes] == [[SERVER_UNAVAILABLE, 0]] * 3

    play(act)


def test_a_start_waits_for_a_vnode_that_goes_on_and_not_for_one_that_stands_still() -> None:
    async def act(world: WholeWorld) -> None:
        await world.begin(1)
        await world.pass_s(60)
        two = await world.begin(2, seconds=0)
        for link in two.links:
            link.holds_reads = True
        for _look in range(40):
            two.links[0].deliver(1)
            await world.pass_s(0.5)
            assert not two.has_started
            if (await world.logs[0].ends()).last == two.node.appliers[0].place.sequence:
                break
        assert two.beat().reasons == ("it has not caught up yet",)
        assert two.beat().vnodes[1].lag_ms > 1000
        two.links[0].go_on()
        await world.pass_s(11, 0.05)
        assert two.has_started
        assert not two.node.readiness.is_ready

    play(act)


# ---- logs that stand still


def test_a_vnode_without_a_majority_refuses_its_clients_and_the_other_goes_on() -> None:
    async def act(world: WholeWorld) -> None:
        nodes = await three(world)
        world.logs[0].hold_appends = True
        await world.pass_s(8)
        assert [refused(node) for node in nodes] == [0] * 3
        await world.pass_s(9)
        for node in nodes:
            assert [refused(node, 0), refused(node, 1)] == [SERVER_UNAVAILABLE, 0]
            assert "has accepted nothing for" in node.node.readiness.reasons()[0]
        assert nodes[0].node.leader_of(1) == 1, "the other vnode is led on"
        world.logs[0].hold_appends = False
        while world.logs[0].held:
            world.logs[0].arrive()
        await world.pass_s(2)
        assert [refused(node) for node in nodes] == [0] * 3
        assert [node.node.readiness.is_ready for node in nodes] == [True] * 3

    play(act)


def test_all_logs_stand_still_for_a_minute_and_no_node_is_closed() -> None:
    """A6."""

    async def act(world: WholeWorld) -> None:
        nodes = await three(world)
        epochs = [node.node.life.epoch for node in nodes]
        logs = [world.control, *world.logs]
        for log in logs:
            log.hold_appends = True
        await world.pass_s(60)
        assert [refused(node) for node in nodes] == [SERVER_UNAVAILABLE] * 3
        for log in logs:
            log.hold_appends = False
            while log.held:
                log.arrive()
        await world.pass_s(5)
        assert [node.node.life.epoch for node in nodes] == epochs
        assert [node.node.readiness.reasons() for node in nodes] == [[]] * 3

    play(act)


def test_a_node_that_was_fenced_refuses_its_clients_until_it_has_joined_again() -> None:
    async def act(world: WholeWorld) -> None:
        one, two, _three = await three(world)
        epoch = one.node.life.epoch
        one.cut_off()
        await world.pass_s(20)
        assert not two.node.membership.live().get(1)
        assert refused(one) == SERVER_UNAVAILABLE
        one.cut_off(cut=False)
        await world.pass_s(5)
        assert one.node.life.epoch > epoch
        assert refused(one) == 0

    play(act)


# ---- clocks


@pytest.mark.parametrize("ahead_us", [TEN_MINUTES_US, -TEN_MINUTES_US, TEN_YEARS_US, -TEN_YEARS_US])
def test_a_node_with_a_wrong_clock_resigns_and_the_others_stay_ready(ahead_us: int) -> None:
    """A12."""

    async def act(world: WholeWorld) -> None:
        one, two, other = await three(world, NodeBounds(redirect=True))
        assert world.leaders() == [1, 1]
        one.clock.ahead_us = ahead_us
        await world.pass_s(8)
        assert "its clock is" in two.beat(1).reasons[0]
        assert refused(one) == USE_ANOTHER_SERVER
        assert one.node.server_reference() == "10.0.0.2:1883 10.0.0.3:1883"
        assert [two.node.readiness.reasons(), other.node.readiness.reasons()] == [[], []]
        assert 1 not in [two.node.leader_of(vnode) for vnode in range(VNODES)]
        one.clock.ahead_us = 0
        await world.pass_s(3)
        assert one.node.readiness.is_ready

    play(act)


@pytest.mark.parametrize("ahead_us", [TEN_MINUTES_US, -TEN_YEARS_US])
def test_wrong_stamps_make_no_node_unready_and_the_leader_of_the_stream_is_asked(ahead_us: int) -> None:
    """A12: one wrong server would stop all."""

    async def act(world: WholeWorld) -> None:
        nodes = await three(world)
        leaders = world.leaders()
        world.logs[1].stamp_offset_us = ahead_us
        await world.pass_s(20)
        assert [node.node.readiness.reasons() for node in nodes] == [[]] * 3
        asked = {node.node.life.node: node.step_downs for node in nodes if node.step_downs}
        assert asked == {leaders[1]: [1]}
        world.logs[1].stamp_offset_us = 0
        world.control.stamp_offset_us = ahead_us
        await world.pass_s(20)
        assert [node.node.readiness.reasons() for node in nodes] == [[]] * 3
        assert nodes[leaders[0] - 1].step_downs.count(None) == 1

    play(act)


def test_nodes_that_agree_keep_their_clocks_where_all_stamps_are_behind() -> None:
    """A12, A25: a node that took record time for the present would give versions of the past."""

    async def act(world: WholeWorld) -> None:
        for log in world.logs:
            log.stamp_offset_us = -TEN_MINUTES_US
        one, two, other = await three(world)
        await world.pass_s(8)
        assert [node.node.clock.wall_us() for node in (one, two, other)] == [world.clock.wall_us()] * 3
        one.clock.ahead_us = TEN_YEARS_US
        await world.pass_s(8)
        assert one.node.clock.wall_us() < world.clock.wall_us()
        assert [node.node.clock.wall_us() for node in (two, other)] == [world.clock.wall_us()] * 2

    play(act)


# ---- disks


def test_a_full_disk_sends_clients_away_and_room_brings_them_back() -> None:
    async def act(world: WholeWorld) -> None:
        one, two, _three = await three(world)
        one.node.readiness.disk_full = True
        await world.pass_s(3)
        assert two.beat(1).reasons == ("its disk is full",)
        assert [refused(one), refused(two)] == [SERVER_UNAVAILABLE, 0]
        assert 1 not in [two.node.leader_of(vnode) for vnode in range(VNODES)]
        one.node.readiness.disk_full = False
        await world.pass_s(2)
        assert [refused(one), one.node.readiness.is_ready] == [0, True]

    play(act)


# ---- epochs


def test_a_node_that_dies_while_it_joins_is_closed_by_others() -> None:
    """A24: no first record of the newer epochs ever comes, and no fence, since the node joins again and again."""

    async def act(world: WholeWorld) -> None:
        one = await world.begin(1)
        two = await world.begin(2)
        first = two.node.life.epoch
        await two.kill()
        for _life in range(3):
            again = await world.begin(2, seconds=0)
            for link in again.links:
                link.cut = True
            await world.pass_s(3)
            assert again.node.life.epoch > first
            await again.kill()
        assert [closed_at(tables, 2, first) != OPEN for tables in one.tables] == [True] * VNODES
        last = again.node.life.epoch
        await world.pass_s(20)
        assert [closed_at(tables, 2, last) != OPEN for tables in one.tables] == [True] * VNODES

    play(act)


# ---- counts


def test_records_are_counted_and_a_foreign_one_is_passed_over_by_every_node() -> None:
    """A11, and the row "a record on the subject that is not ours" of what bad input gets."""

    async def act(world: WholeWorld) -> None:
        nodes = await three(world)
        for log in (world.control, world.logs[0]):
            log.append(b"not ours", lambda _result: None)
        await world.pass_s(6)
        for node in nodes:
            counts = dict(nodes[0].beat(node.node.life.node).counts)
            assert counts["records/foreign"] == 2
            assert counts["records/applied"] > 10
            assert node.node.readiness.is_ready

    play(act)
