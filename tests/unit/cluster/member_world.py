"""Nodes that join a cluster over one control log in memory, with a clock that a test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count

from holdfast.cluster.membership.membership import Closing, Membership, NodeProfile, control_applier
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import Answered, LogEnds, LogReader, LogReading, UnknownOutcome
from holdfast.durable.state_machine.control import ControlMachine, ControlOutcome, all_members
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.durable.takeover.registry import NodeLife
from holdfast.model.clock import Clock
from holdfast.records.cluster.control import LINEAR, Beat
from tests.unit.cluster.node_world import FakeTimers, settle
from tests.unit.durable.state_machine.control_log import FOUND, control_record, id_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, T


class TimersClock(Clock):
    """The time of the timers."""

    def __init__(self, timers: FakeTimers) -> None:
        self._timers = timers

    def wall_us(self) -> int:
        return T + self.monotonic_us()

    def monotonic_us(self) -> int:
        return round(self._timers.now_s * 1_000_000)


class Notes:
    """A `MembershipListener` that notes what it is told."""

    def __init__(self) -> None:
        self.lives: list[int] = []
        self.closings: list[Closing] = []
        self.refusals: list[str] = []
        self.fences = 0
        self.changes = 0
        self.ends: list[str] = []

    def joined(self, life: NodeLife, closings: list[Closing]) -> None:
        self.lives.append(life.epoch)
        self.closings.extend(closings)

    def refused(self, why: str) -> None:
        self.refusals.append(why)

    def closed(self, closing: Closing) -> None:
        self.closings.append(closing)

    def changed(self) -> None:
        self.changes += 1

    def fenced(self) -> None:
        self.fences += 1

    def ended(self, why: str) -> None:
        self.ends.append(why)


class NodeLink:
    """The log as one node reaches it: `cut` loses what it appends."""

    def __init__(self, log: MemoryOrderedLog) -> None:
        self._log = log
        self.cut = False
        self.appended = 0

    def append(self, record: bytes, answered: Answered) -> None:
        self.appended += 1
        if self.cut:
            answered(UnknownOutcome("cut off"))
        else:
            self._log.append(record, answered)

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        return self._log.read(from_sequence, reader)

    async def ends(self) -> LogEnds:
        return await self._log.ends()

    async def trim(self, before_sequence: int) -> None:
        await self._log.trim(before_sequence)


class Member:
    """A node: one process of it."""

    def __init__(self, world: "MemberWorld", node: int, folder: int, tables: MemoryTables, mode: int) -> None:
        self.node = node
        self.notes = Notes()
        self.tables = tables
        self.link = NodeLink(world.log)
        self.beat = Beat(ready=True)
        profile = NodeProfile(node, f"n{node}", id_of(folder), mode)
        self.membership = Membership(
            self.link,
            CLUSTER_ID,
            tables,
            profile,
            self.notes,
            lambda: self.beat,
            world.clock,
            world.timers,
            world.new_life,
            lambda before: world.trims.append(before),
        )
        self.task = world.group.create_task(control_applier(self.link, CLUSTER_ID, tables, self.membership).run())

    @property
    def runs(self) -> bool:
        return not self.membership.over

    def kill(self) -> None:
        """The process ends, and says nothing."""
        self.membership.close()
        self.task.cancel()


class MemberWorld:
    """The cluster. Nothing happens unless `pass_s` lets time pass."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.timers = FakeTimers()
        self.clock = TimersClock(self.timers)
        self.log = MemoryOrderedLog(self.clock)
        self.group = group
        self.members: list[Member] = []
        self._lives = count(1)
        #: Before which sequences nodes want the log to be trimmed.
        self.trims: list[int] = []
        self.log.append(control_record(0, 0, 0, FOUND), lambda _result: None)

    def new_life(self) -> bytes:
        """Never the same."""
        return next(self._lives).to_bytes(16, "big")

    async def begin(
        self, node: int, *, folder: int = 0, tables: MemoryTables | None = None, mode: int = LINEAR
    ) -> Member:
        """Start a process."""
        member = Member(self, node, folder or node, tables or MemoryTables(), mode)
        self.members.append(member)
        await settle()
        member.membership.start()
        await settle()
        return member

    async def pass_s(self, seconds: float) -> None:
        """Time passes, in steps in which all that can go on does so."""
        for _step in range(round(seconds * 2)):
            self.timers.advance(0.5)
            await settle()
            while self.trims:
                await self.log.trim(self.trims.pop(0))

    async def outcomes(self) -> list[ControlOutcome]:
        """What became of every record, decided again from the first one."""
        tables = MemoryTables()
        machine = ControlMachine(CLUSTER_ID, tables)
        found: list[ControlOutcome] = []
        ends = await self.log.ends()

        class Again:
            def entries(self, entries: list) -> None:  # type: ignore[type-arg]
                for entry in entries:
                    outcome = machine.apply(entry)
                    assert isinstance(outcome, ControlOutcome)
                    tables.write(outcome.changes, outcome.steps)
                    found.append(outcome)

            def stopped(self, why: str) -> None:
                raise AssertionError(why)

        self.log.read(ends.first, Again()).close()
        return found

    async def live(self) -> list[int]:
        """The members that live, by the log alone."""
        tables = MemoryTables()
        for outcome in await self.outcomes():
            tables.write(outcome.changes, outcome.steps)
        return [node for node, member in all_members(tables).items() if member.lives]


@asynccontextmanager
async def member_world() -> AsyncIterator[MemberWorld]:
    async with asyncio.TaskGroup() as group:
        world = MemberWorld(group)
        try:
            yield world
        finally:
            for member in world.members:
                member.kill()
                with suppress(asyncio.CancelledError):
                    await member.task
