"""What a node tells of its cluster: every member, every vnode, digests, and takeovers."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.cluster.membership.cluster_view import view_cluster, view_takeovers
from holdfast.cluster.vnodes.digest_watch import DIGEST_EVERY
from holdfast.control.frames import decode_body, encode_body
from holdfast.control.words import ClusterInfo, TakeoverRows
from holdfast.durable.state_machine.outcome import APPLIED, DecidedClaim, Outcome
from holdfast.records.cluster.rows import RegistrationRow
from tests.unit.cluster.whole_node_world import VNODES, WholeNode, WholeWorld, whole_world


def play(story: Callable[[WholeWorld], Awaitable[None]]) -> None:
    async def act() -> None:
        async with whole_world() as world:
            await story(world)

    asyncio.run(act())


def seen_by(node: WholeNode) -> ClusterInfo:
    """As it arrives at the other end of the socket."""
    return decode_body(encode_body(view_cluster(node.node)), ClusterInfo)


def test_every_member_is_told_with_what_it_has_applied_and_leads() -> None:
    async def act(world: WholeWorld) -> None:
        nodes = [await world.begin(node) for node in (1, 2, 3)]
        await world.pass_s(3)
        for number, node in enumerate(nodes, start=1):
            found = seen_by(node)
            assert (found.node, found.problems, found.clock_skew_s) == (number, (), 0)
            assert [(one.node, one.state, one.ready) for one in found.members] == [(n, "live", True) for n in (1, 2, 3)]
            assert found.leaders == dict.fromkeys(range(VNODES), 1)
            assert [one.leads for one in found.members] == [tuple(range(VNODES)), (), ()]
            applied = {vnode: applier.place.sequence for vnode, applier in enumerate(node.node.appliers)}
            assert {vnode: found.last[vnode] for vnode in applied} == applied

    play(act)


def test_a_node_that_is_behind_is_named_with_its_vnode() -> None:
    async def act(world: WholeWorld) -> None:
        one, two, _three = [await world.begin(node) for node in (1, 2, 3)]
        await world.pass_s(3)
        one.links[0].holds_reads = True
        await world.pass_s(20)
        found = seen_by(two)
        behind = found.members[0]
        assert not behind.ready
        assert behind.lags_s[0] == behind.lag_s > 10
        assert behind.applied[0] < found.last[0]
        (problem,) = found.problems
        assert problem.startswith("node 1 is not ready")
        assert "behind in vnode 0" in problem

    play(act)


def test_digests_are_told_as_they_were_compared() -> None:
    async def act(world: WholeWorld) -> None:
        one, two, _three = [await world.begin(node) for node in (1, 2, 3)]
        await world.pass_s(3)
        assert seen_by(one).digests == ()
        for node in (one, two):
            node.node._digests.applied(1, DIGEST_EVERY, b"d" * 16)
        await world.pass_s(3)
        (found,) = seen_by(one).digests
        assert (found.vnode, found.node, found.sequence, found.equal) == (1, 2, DIGEST_EVERY, True)

    play(act)


def test_takeovers_are_told_with_the_newest_first() -> None:
    async def act(world: WholeWorld) -> None:
        node = (await world.begin(1)).node
        other = RegistrationRow(2, 9, 7, 65536, (1, 2, 3))
        now_us = node.clock.wall_us()
        for number, (name, revision, replaced) in enumerate(
            (("a", 1, None), ("a", 2, other), ("b", 0, other), ("a", 3, other.released(now_us))), start=1
        ):
            outcome = Outcome(1, APPLIED)
            outcome.time_us = now_us + number
            outcome.claims.append(DecidedClaim(name, number, (0x10, 1, number), revision, replaced))
            node.claims.applied(outcome)
        # A first connection, and one whose client had left before, take over from nobody.
        found = decode_body(encode_body(view_takeovers(node)), TakeoverRows).items
        assert [(one.session_id, one.accepted, one.connection) for one in found] == [("b", False, 3), ("a", True, 2)]
        assert [one.connection for one in view_takeovers(node, "a").items] == [4, 2, 1]

    play(act)
