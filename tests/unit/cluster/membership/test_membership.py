"""The life of a node in its cluster: one epoch each, beats, fences that only the silent feel."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.cluster.membership.membership import SILENT_BEATS
from holdfast.durable.state_machine.job_records import all_leases
from holdfast.durable.state_machine.outcome import APPLIED, CLOSED_EPOCH, REPEATED
from holdfast.records.cluster.control import EVENTUAL, Beat, Fence, Join, VnodeProgress, decode_control
from holdfast.records.cluster.job_records import LeaseItem
from tests.unit.cluster.member_world import MemberWorld, member_world
from tests.unit.cluster.node_world import settle
from tests.unit.durable.state_machine.control_log import control_record
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, T

#: Longer than it takes to fence a node.
LONG_S = SILENT_BEATS + 4
#: Where a record has the number of its node, as long as that is small.
NODE_AT = 23


def play(act: Callable[[MemberWorld], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(30), member_world() as world:
            await act(world)

    asyncio.run(within())


def is_fence(record: bytes) -> bool:
    decoded = decode_control(record, CLUSTER_ID)
    return decoded is not None and isinstance(decoded.item, Fence)


def test_a_node_joins_and_beats_once_a_second() -> None:
    async def act(world: MemberWorld) -> None:
        one = await world.begin(1)
        assert one.notes.lives == [2]
        assert one.membership.life is not None
        assert (one.membership.life.node, one.membership.life.epoch) == (1, 2)
        await world.pass_s(5)
        beats = [
            outcome for outcome in await world.outcomes() if outcome.record and isinstance(outcome.record.item, Beat)
        ]
        assert len(beats) == 5
        assert all(outcome.counts for outcome in beats)
        assert list(one.membership.live()) == [1]

    play(act)


def test_a_node_that_joins_is_given_all_closings_and_members_hear_of_it() -> None:
    async def act(world: MemberWorld) -> None:
        one = await world.begin(1)
        two = await world.begin(2)
        assert one.notes.changes == 1
        assert one.notes.closings == [], "no epoch of node 2 is closed"
        assert two.notes.closings == [(1, 2)]
        await world.pass_s(LONG_S)
        assert sorted(one.membership.live()) == sorted(two.membership.live()) == [1, 2]

    play(act)


def test_who_is_silent_is_fenced_once_and_all_others_hear_of_it() -> None:
    async def act(world: MemberWorld) -> None:
        one, two, three = [await world.begin(node) for node in (1, 2, 3)]
        await world.pass_s(3)
        three.kill()
        await world.pass_s(SILENT_BEATS - 2)
        assert await world.live() == [1, 2, 3], "not before ten beats"
        await world.pass_s(6)
        assert await world.live() == [1, 2]
        fences = [outcome.closed for outcome in await world.outcomes() if outcome.closed is not None]
        assert len(fences) == 1
        for node in (one, two):
            assert [closing for closing in node.notes.closings if closing[1] > 10] == fences
            assert node.notes.fences == 0

    play(act)


def test_a6_two_nodes_fence_each_other_and_one_stays() -> None:
    """Both have seen ten beats of their own and none of the other, whose beats were held up."""

    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(2)
        sequence = (await world.log.ends()).last
        epochs = [node.notes.lives[0] for node in (one, two)]
        numbers = [2 + 1, 2 + 1]
        one.link.cut = two.link.cut = True
        for mine, (node, other) in enumerate(((1, 2), (2, 1))):
            fence = Fence(other, epochs[other - 1], sequence)
            world.log.append(control_record(node, epochs[mine], numbers[mine], fence), lambda _result: None)
        await settle()
        first, second = (await world.outcomes())[-2:]
        assert first.closed == (2, sequence + 1)
        assert second.verdict == CLOSED_EPOCH
        assert (one.notes.fences, two.notes.fences) == (0, 1)
        assert one.notes.closings[-1] == (2, sequence + 1)
        two.link.cut = False
        await world.pass_s(2)
        assert len(two.notes.lives) == 2, "it joins again"
        assert two.notes.lives[1] > sequence

    play(act)


def test_a6_a_fence_meets_a_beat_and_does_not_hold() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(2)
        two.link.cut = True
        world.log.hold_appends = True
        while not any(is_fence(append.record) for append in world.log.held):
            for _append in range(len(world.log.held)):
                world.log.arrive()
            await settle()
            if not world.log.held:
                await world.pass_s(0.5)
        two.link.cut = False
        await world.pass_s(2.5)
        # The beat of node 2 arrives before the fence.
        world.log.held.sort(key=lambda append: append.record[NODE_AT] == 1)
        assert world.log.held[0].record[NODE_AT] == 2
        world.log.hold_appends = False
        while world.log.held:
            world.log.arrive()
        await settle()
        fences = [o for o in await world.outcomes() if o.record is not None and isinstance(o.record.item, Fence)]
        assert fences
        assert not any(outcome.counts for outcome in fences if outcome.verdict == APPLIED)
        await world.pass_s(LONG_S)
        assert await world.live() == [1, 2]
        assert one.notes.fences == two.notes.fences == 0

    play(act)


@pytest.mark.parametrize("outage_s", [5, 15, 60])
def test_a6_an_outage_of_the_log_fences_no_node(outage_s: int) -> None:
    async def act(world: MemberWorld) -> None:
        nodes = [await world.begin(node) for node in (1, 2, 3)]
        await world.pass_s(3)
        for node in nodes:
            node.link.cut = True
        await world.pass_s(outage_s)
        # They reach the log again one after the other.
        for node in nodes:
            node.link.cut = False
            await world.pass_s(4)
        await world.pass_s(LONG_S)
        assert await world.live() == [1, 2, 3]
        assert [node.notes.fences for node in nodes] == [0, 0, 0]
        assert not any(isinstance(o.record.item, Fence) for o in await world.outcomes() if o.record is not None)

    play(act)


def test_a6_a_log_that_stands_still_for_a_minute_and_then_brings_all_at_once_fences_no_node() -> None:
    async def act(world: MemberWorld) -> None:
        nodes = [await world.begin(node) for node in (1, 2, 3)]
        await world.pass_s(3)
        world.log.hold_appends = True
        await world.pass_s(60)
        world.log.hold_appends = False
        # Of each node a record and its repetitions; those of node 1 come first.
        world.log.held.sort(key=lambda append: append.record[NODE_AT])
        while world.log.held:
            world.log.arrive()
        await settle()
        await world.pass_s(LONG_S)
        assert await world.live() == [1, 2, 3]
        assert [node.notes.fences for node in nodes] == [0, 0, 0]
        repeated = [outcome for outcome in await world.outcomes() if outcome.verdict == REPEATED]
        assert len(repeated) >= 3 * 25

    play(act)


def test_a6_a_log_that_takes_a_record_now_and_then_fences_no_node() -> None:
    """Node 1 gets beats through every now and then, node 2 none for more than a minute."""

    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(2)
        two.link.cut = True
        for _time in range(15):
            one.link.cut = True
            await world.pass_s(3)
            one.link.cut = False
            await world.pass_s(2)
        assert await world.live() == [1, 2]
        two.link.cut = False
        await world.pass_s(LONG_S)
        assert one.notes.fences == two.notes.fences == 0

    play(act)


def test_who_reads_slowly_fences_no_node() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(2)
        world.log.hold_reads = True
        await world.pass_s(20)
        world.log.hold_reads = False
        await world.pass_s(LONG_S)
        assert await world.live() == [1, 2]
        assert one.notes.fences == two.notes.fences == 0

    play(act)


def test_a_node_that_was_fenced_hears_of_it_and_joins_again() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(2)
        two.link.cut = True
        await world.pass_s(LONG_S)
        assert two.notes.fences == 1
        assert two.membership.life is None
        assert await world.live() == [1]
        two.link.cut = False
        await world.pass_s(3)
        assert len(two.notes.lives) == 2
        assert await world.live() == [1, 2]
        closing = next(closing for closing in one.notes.closings if closing[0] == 2)
        assert two.notes.lives[0] < closing[1] < two.notes.lives[1]

    play(act)


def test_a24_a_join_that_is_repeated_makes_one_epoch() -> None:
    async def act(world: MemberWorld) -> None:
        world.log.repeat_appends = 1
        one = await world.begin(1)
        await world.pass_s(2)
        assert one.notes.lives == [2]
        world.log.lose_answers = 5
        two = await world.begin(2)
        await world.pass_s(4)
        assert len(two.notes.lives) == 1
        joins = [o for o in await world.outcomes() if o.record is not None and isinstance(o.record.item, Join)]
        assert [outcome.counts for outcome in joins] == [True, False, True]

    play(act)


def test_a24_a_join_that_was_lost_is_sent_again() -> None:
    async def act(world: MemberWorld) -> None:
        world.log.lose_appends = 2
        one = await world.begin(1)
        assert one.notes.lives == []
        await world.pass_s(5)
        assert one.notes.lives == [2]

    play(act)


def test_a24_of_a_node_that_dies_again_and_again_while_it_joins_one_epoch_counts() -> None:
    async def act(world: MemberWorld) -> None:
        watcher = await world.begin(9)
        await world.pass_s(1)
        last = await world.begin(1)
        for _life in range(5):
            last.kill()
            last = await world.begin(1, tables=last.tables)
        await world.pass_s(LONG_S)
        assert await world.live() == [1, 9]
        epoch = last.notes.lives[-1]
        of_one = [closing for closing in watcher.notes.closings if closing[0] == 1]
        assert len(of_one) == 5, "each earlier epoch was closed by the next join"
        assert max(before for _node, before in of_one) == epoch
        assert watcher.notes.fences == last.notes.fences == 0

    play(act)


def test_a24_a_join_that_lands_when_its_node_has_a_newer_life_closes_nothing() -> None:
    async def act(world: MemberWorld) -> None:
        world.log.hold_appends = True
        earlier = await world.begin(1)
        earlier.kill()
        world.log.hold_appends = False
        later = await world.begin(1)
        assert len(later.notes.lives) == 1
        world.log.arrive()
        await world.pass_s(3)
        assert later.notes.ends == []
        assert later.membership.life is not None
        assert await world.live() == [1]

    play(act)


def test_a24_of_one_folder_that_runs_twice_the_earlier_process_ends() -> None:
    async def act(world: MemberWorld) -> None:
        earlier = await world.begin(1)
        await world.pass_s(2)
        later = await world.begin(1)
        await world.pass_s(2)
        assert "runs twice" in earlier.notes.ends[0]
        assert earlier.membership.life is None
        appended = earlier.link.appended
        await world.pass_s(LONG_S)
        assert earlier.link.appended == appended, "it writes nothing more"
        assert later.notes.ends == []
        assert await world.live() == [1]

    play(act)


def test_another_folder_under_the_number_of_a_live_node_waits_until_that_is_gone() -> None:
    async def act(world: MemberWorld) -> None:
        watcher = await world.begin(9)
        one = await world.begin(1, folder=1)
        other = await world.begin(1, folder=2)
        await world.pass_s(3)
        assert "another number" in other.notes.refusals[0]
        assert other.notes.lives == []
        assert one.membership.life is not None
        one.kill()
        await world.pass_s(3 * LONG_S)
        assert len(other.notes.lives) == 1
        assert len(watcher.notes.closings) == 1

    play(act)


def test_another_folder_under_the_number_of_a_node_that_goes_on_beating_ends() -> None:
    """Two nodes were given one number: the second one says so, and which folder the first one has."""

    async def act(world: MemberWorld) -> None:
        await world.begin(9)
        one = await world.begin(1, folder=1)
        await world.pass_s(3)
        other = await world.begin(1, folder=2)
        await world.pass_s(3 * LONG_S)
        assert len(other.notes.ends) == 1
        assert "node 1 lives, as 'n1' with the data folder 0101" in other.notes.ends[0]
        assert one.notes.ends == []
        assert await world.live() == [1, 9]

    play(act)


def test_a_linear_node_does_not_join_beside_an_eventual_one() -> None:
    async def act(world: MemberWorld) -> None:
        await world.begin(1, mode=EVENTUAL)
        two = await world.begin(2)
        await world.pass_s(3)
        assert "registry.mode" in two.notes.refusals[0]
        assert two.membership.life is None

    play(act)


def test_who_leaves_is_closed_at_once_and_is_not_fenced() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(2)
        two.membership.leave()
        await settle()
        assert two.notes.ends == ["this node has left"]
        assert one.notes.closings[-1][0] == 2
        await world.pass_s(LONG_S)
        assert await world.live() == [1]
        assert not any(isinstance(o.record.item, Fence) for o in await world.outcomes() if o.record is not None)

    play(act)


def test_a_node_whose_control_log_is_unreadable_ends() -> None:
    async def act(world: MemberWorld) -> None:
        one = await world.begin(1)
        damaged = bytearray(control_record(1, 2, 9, Beat()))
        damaged[-1] ^= 1
        world.log.append(bytes(damaged), lambda _result: None)
        await settle()
        assert "applied no further" in one.notes.ends[0]
        assert one.membership.life is None

    play(act)


def test_places_are_passed_when_the_beats_of_all_other_live_members_say_so() -> None:
    """A18: what a leader found may be carried out once no live member is behind it."""

    async def act(world: MemberWorld) -> None:
        one, two, three = [await world.begin(node) for node in (1, 2, 3)]
        assert not one.membership.have_applied({0: 1}), "no beat has come yet"
        assert one.membership.have_applied({})
        two.beat = three.beat = Beat((VnodeProgress(0, 7, 0), VnodeProgress(1, 9, 0)), ready=True)
        await world.pass_s(2)
        assert one.membership.have_applied({0: 7, 1: 9}), "its own beats say nothing: it has looked there"
        assert not two.membership.have_applied({0: 1})
        three.beat = Beat((VnodeProgress(0, 6, 0),), ready=True)
        await world.pass_s(2)
        assert not one.membership.have_applied({0: 7})
        assert not one.membership.have_applied({1: 1}), "a vnode that is not named"
        three.kill()
        world.members.remove(three)
        await world.pass_s(LONG_S)
        assert one.membership.have_applied({0: 7, 1: 9}), "who is fenced is waited for no longer"
        await world.begin(3, tables=three.tables)
        assert not one.membership.have_applied({0: 7}), "a beat of an earlier life does not count"

    play(act)


def test_what_jobs_tell_is_written_between_beats_and_holds_up_none() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = await world.begin(1), await world.begin(2)
        leases = [LeaseItem(f"l{number}", T + number, ((0, 1),)) for number in range(30)]
        one.membership.propose(leases)
        await world.pass_s(LONG_S)
        written = [outcome.record for outcome in await world.outcomes() if outcome.record and outcome.record.node == 1]
        kinds = [type(record.item).__name__ for record in written[1:]]
        assert kinds.count("Beat") >= LONG_S - 1
        assert "LeaseItem LeaseItem" not in " ".join(kinds)
        assert len(all_leases(two.tables)) == kinds.count("LeaseItem") > 5
        one.membership.propose([])
        told = kinds.count("LeaseItem")
        await world.pass_s(5)
        assert len(all_leases(two.tables)) == told
        assert sorted(one.membership.live()) == [1, 2]

    play(act)
