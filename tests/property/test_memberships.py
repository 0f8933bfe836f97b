"""Nodes that start, die, are cut off and run twice, over a control log with faults, in any order.

A6: a node is fenced only if the one that fences it has beaten ten times since the last beat of that node. A24: whatever
is repeated or lands late, a node has one epoch, and each process hears of every closing of another node. When all
faults are over, every node that runs is a member.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from holdfast.cluster.membership.membership import SILENT_BEATS
from holdfast.durable.state_machine.control import ControlOutcome
from holdfast.records.cluster.control import Beat, Fence, Join
from tests.unit.cluster.member_world import Member, MemberWorld, member_world
from tests.unit.cluster.node_world import settle

#: About ten seconds. HOLDFAST_CLUSTER_EXAMPLES for a longer run.
EXAMPLES = int(os.environ.get("HOLDFAST_CLUSTER_EXAMPLES", "150"))
NODES = (1, 2, 3)

Act = Callable[["Run", int], Awaitable[None]]


class Run:
    """One history; `last` is the last process of each node, on which faults act."""

    def __init__(self, world: MemberWorld) -> None:
        self.world = world
        self.last: dict[int, Member] = {}

    def of(self, number: int) -> Member | None:
        return self.last.get(NODES[number % len(NODES)])

    async def start(self, number: int) -> None:
        """A node starts, or a second process of it does."""
        node = NODES[number % len(NODES)]
        before = self.last.get(node)
        # Every other start is from a copy of the folder that has applied nothing yet.
        tables = None
        if before is not None and not before.runs and number % 2:
            before.kill()
            tables = before.tables
        self.last[node] = await self.world.begin(node, tables=tables)

    async def kill(self, number: int) -> None:
        member = self.of(number)
        if member is not None and member.runs:
            member.kill()

    async def cut(self, number: int) -> None:
        member = self.of(number)
        if member is not None:
            member.link.cut = not member.link.cut

    async def hold(self, number: int) -> None:
        """Appends are slow, and arrive in another order."""
        log = self.world.log
        log.hold_appends = number % 3 > 0
        for _append in range(number % 7):
            if log.held:
                log.arrive(number % len(log.held))
        await settle()

    async def fail(self, number: int) -> None:
        log = self.world.log
        log.lose_appends, log.lose_answers, log.repeat_appends = number % 3, number % 5, number % 4

    async def pass_time(self, number: int) -> None:
        await self.world.pass_s(number % 16)

    async def heal(self) -> None:
        log = self.world.log
        log.hold_appends = False
        log.lose_appends = log.lose_answers = log.repeat_appends = 0
        for member in self.world.members:
            member.link.cut = False
        while log.held:
            log.arrive()
        await settle()
        await self.world.pass_s(4 * SILENT_BEATS)


ACTS: list[Act] = [Run.start, Run.start, Run.kill, Run.cut, Run.hold, Run.fail, Run.pass_time, Run.pass_time]


def check_fences(outcomes: list[ControlOutcome]) -> None:
    """A6: behind the last sign of life of a node stand ten beats of the one that fences it."""
    for at, outcome in enumerate(outcomes):
        record = outcome.record
        if record is None or not isinstance(record.item, Fence) or not outcome.counts:
            continue
        silent = 0
        for earlier in reversed(outcomes[:at]):
            before = earlier.record
            if before is None or not earlier.counts or not isinstance(before.item, (Beat, Join)):
                continue
            if before.node == record.item.node:
                break
            silent += before.node == record.node and isinstance(before.item, Beat)
        assert silent >= SILENT_BEATS


async def check_end(run: Run) -> None:
    outcomes = await run.world.outcomes()
    check_fences(outcomes)
    running = {member.node: member for member in run.world.members if member.runs}
    assert len(running) == sum(member.runs for member in run.world.members), "of two processes of a node one runs"
    assert await run.world.live() == sorted(running), "who runs is a member, and who does not is fenced"
    for node, member in running.items():
        life = member.membership.life
        assert life is not None
        assert member.notes.lives[-1] == life.epoch
        assert sorted(set(member.notes.lives)) == member.notes.lives, "epochs only grow"
        heard = dict(sorted(closing for closing in member.notes.closings if closing[0] != node))
        closed: dict[int, int] = {}
        for outcome in outcomes:
            if outcome.closed is not None and outcome.closed[0] != node and outcome.sequence > life.epoch:
                closed[outcome.closed[0]] = outcome.closed[1]
        assert all(heard.get(other, 0) >= before for other, before in closed.items())


async def play(acts: list[tuple[int, int]]) -> None:
    async with asyncio.timeout(60), member_world() as world:
        run = Run(world)
        for act, number in acts:
            await ACTS[act](run, number)
        await run.heal()
        if not any(member.runs for member in world.members):
            # With no node, there is none that fences.
            await run.start(0)
            await world.pass_s(4 * SILENT_BEATS)
        await check_end(run)


@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink])
@given(st.lists(st.tuples(st.integers(0, len(ACTS) - 1), st.integers(0, 100)), min_size=5, max_size=40))
def test_nodes_agree_on_members_whatever_happens_to_them_and_to_the_log(acts: list[tuple[int, int]]) -> None:
    asyncio.run(play(acts))
