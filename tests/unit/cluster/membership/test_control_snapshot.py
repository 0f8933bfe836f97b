"""A control log that is trimmed: nodes begin with its snapshot, and come to the same tables as all others."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.cluster.administration import replay_control
from holdfast.cluster.membership import membership
from holdfast.cluster.membership.control_snapshot import install_snapshot
from holdfast.cluster.membership.founding import find_founding
from holdfast.durable.changes import Changes
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.control import all_members, last_snapshot, state_rows
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.tables import CLUSTER, MemoryTables
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.records.cluster.control import Beat
from holdfast.records.cluster.control_rows import beat_key
from tests.unit.cluster.member_world import MemberWorld, member_world
from tests.unit.cluster.node_world import settle
from tests.unit.durable.state_machine.control_log import FOUND, control_record

EVERY = 30


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "SNAPSHOT_EVERY", EVERY)


def play(act: Callable[[MemberWorld], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(30), member_world() as world:
            await act(world)

    asyncio.run(within())


async def until_trimmed(world: MemberWorld) -> None:
    first = (await world.log.ends()).first
    while (await world.log.ends()).first == first:
        await world.pass_s(1)


def test_the_log_is_trimmed_before_the_last_snapshot_but_one_and_nodes_go_on() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await until_trimmed(world)
        await until_trimmed(world)
        ends = await world.log.ends()
        assert 2 * EVERY > ends.last - ends.first >= EVERY - 1
        await world.pass_s(15)
        assert one.notes.fences == two.notes.fences == 0
        assert applied_row(one.tables) == applied_row(two.tables)
        assert sorted(one.membership.live()) == [1, 2]

    play(act)


def test_a_node_without_anything_begins_with_the_snapshot() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(5)
        two.kill()
        await until_trimmed(world)
        three = await world.begin(3)
        await world.pass_s(2)
        assert len(three.notes.lives) == 1
        assert applied_row(three.tables) == applied_row(one.tables)
        assert all_members(three.tables) == all_members(one.tables)
        closed = next(before for node, before in one.notes.closings if node == 2)
        assert (2, closed) in three.notes.closings, "it hears of what was closed before the snapshot"

    play(act)


def test_a_node_that_is_behind_the_snapshot_takes_it_over_when_it_starts() -> None:
    async def act(world: MemberWorld) -> None:
        one, two = [await world.begin(node) for node in (1, 2)]
        await world.pass_s(3)
        two.kill()
        await settle()
        behind = applied_row(two.tables).sequence
        await until_trimmed(world)
        assert behind < (await world.log.ends()).first - 1
        stale = Changes()
        stale.into(CLUSTER).put(beat_key(7), b"of a node that has joined again since")
        two.tables.write(stale, ())
        again = await world.begin(2, tables=two.tables)
        await world.pass_s(2)
        assert len(again.notes.lives) == 1
        assert again.notes.ends == []
        assert applied_row(again.tables) == applied_row(one.tables)
        assert all_members(again.tables) == all_members(one.tables)
        assert state_rows(again.tables) == state_rows(one.tables)

    play(act)


def test_the_founding_and_the_status_are_read_from_a_trimmed_log() -> None:
    async def act(world: MemberWorld) -> None:
        one = await world.begin(1)
        founded = await find_founding(world.log)
        await until_trimmed(world)
        assert await find_founding(world.log) == founded
        again, tables = await replay_control(world.log)
        assert again == founded
        assert applied_row(tables) == applied_row(one.tables)
        assert all_members(tables) == all_members(one.tables)

    play(act)


def test_of_several_members_one_writes_snapshots_and_beats_between_attempts() -> None:
    async def act(world: MemberWorld) -> None:
        two, three = [await world.begin(node) for node in (2, 3)]
        # Whenever node 2 writes, a foreign record comes before: its snapshots are all late.
        append = two.link.append

        def late(record: bytes, answered: Callable[[object], None]) -> None:
            world.log.append(b"foreign", lambda _result: None)
            append(record, answered)

        two.link.append = late  # type: ignore[assignment, method-assign]
        await world.pass_s(EVERY)
        assert last_snapshot(two.tables) == 0
        assert two.notes.fences == three.notes.fences == 0, "who tries in vain is not fenced"
        two.link.append = append  # type: ignore[method-assign]
        await world.pass_s(5)
        assert last_snapshot(three.tables) > 0

    play(act)


def test_tables_of_another_log_and_a_log_without_a_snapshot_are_left_alone() -> None:
    async def act() -> None:
        log = MemoryOrderedLog(ManualClock(), "other")
        for record in (control_record(0, 0, 0, FOUND), b"foreign", control_record(1, 2, 1, Beat())):
            log.append(record, lambda _result: None)
        assert not await install_snapshot(log, MemoryTables())
        await log.trim(3)
        with pytest.raises(PermanentError, match="no snapshot"):
            await install_snapshot(log, MemoryTables())
        with pytest.raises(PermanentError, match="no snapshot"):
            await find_founding(log)

    asyncio.run(act())

    async def of_another(world: MemberWorld) -> None:
        one = await world.begin(1)
        await world.pass_s(3)
        one.kill()
        other = MemoryOrderedLog(world.clock, "other")
        for _record in range(EVERY):
            other.append(b"foreign", lambda _result: None)
        await other.trim(EVERY)
        before = one.tables.rows()
        assert not await install_snapshot(other, one.tables), "the applier stops: the log has lost what was applied"
        assert one.tables.rows() == before

    play(of_another)
