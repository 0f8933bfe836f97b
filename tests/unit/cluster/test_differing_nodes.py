"""Whole nodes over logs in memory, of which one has come to other tables than the rest."""

import asyncio

from holdfast.cluster.vnodes.digest_watch import DIGEST_EVERY
from holdfast.durable.state_machine.tables import CLUSTER, TableChanges
from holdfast.records.cluster.rows import APPLIED_KEY, AppliedRow, decode_applied_row, encode_applied_row
from tests.unit.cluster.whole_node_world import WholeNode, WholeWorld, whole_world


def differ(node: WholeNode, vnode: int) -> None:
    """Make the digest of a vnode another one, as a row would that was decided otherwise. The node must not run."""
    tables = node.tables[vnode]
    value = tables.get(CLUSTER, APPLIED_KEY)
    assert value is not None
    row = decode_applied_row(value)
    wrong = bytes(byte ^ 1 for byte in row.digest)
    changed = TableChanges(tables)
    changed.put(CLUSTER, APPLIED_KEY, encode_applied_row(AppliedRow(row.sequence, row.checksum, wrong)))
    tables.write(changed.changes, [])


async def differing(world: WholeWorld, members: int) -> list[WholeNode]:
    """Nodes of which the last one has another digest of vnode 0, which is compared with the others' now."""
    nodes = [await world.begin(number) for number in range(1, members + 1)]
    await nodes[-1].kill()
    differ(nodes[-1], 0)
    again = await world.begin(members, before=nodes[-1])
    await world.fill(0, DIGEST_EVERY)
    await world.pass_s(3)
    return [*nodes[:-1], again]


def test_a_node_that_differs_from_the_majority_writes_nothing_more_and_is_to_be_installed() -> None:
    """A10: no divergence stays silent. What it says last is why, for `cluster status`."""

    async def story() -> None:
        async with whole_world() as world:
            first, second, third = await differing(world, 3)
            ((why, differs),) = third.installs
            told = f"its tables of vnode 0 differ from those of nodes (1, 2) at {DIGEST_EVERY}; it is installed again"
            assert why == told
            assert differs
            assert not third.node.is_ready
            assert third.node.caught_up() is None, "it serves no checkpoint"
            assert not third.ends
            for other in (first, second):
                assert other.beat(of=3).reasons == (why,)
                assert not other.beat(of=3).ready
                assert other.node.is_ready
            written = [(await log.ends()).last for log in world.logs]
            for other in (first, second):
                other.cut_off()
            await world.pass_s(5)
            assert [(await log.ends()).last for log in world.logs] == written

    asyncio.run(story())


def test_of_two_nodes_that_differ_both_end_and_say_why() -> None:
    """Without a majority no one knows who is right."""

    async def story() -> None:
        async with whole_world() as world:
            for node in await differing(world, 2):
                (why,) = node.ends
                assert "there is no majority that says which are right" in why
                assert node.installs == []
                assert not node.node.is_ready

    asyncio.run(story())
