"""Whole nodes over logs in memory: membership, appliers, writers and leaders are the real ones, and so is their second.

A test moves the clock, cuts a node off from a log, holds back what it reads, or sets its clock wrong.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.cluster.cluster_node import ClusterNode, NodeStores, NodeVnode
from holdfast.cluster.membership.membership import NodeProfile
from holdfast.cluster.membership.readiness import MQTT, NodeBounds
from holdfast.cluster.vnodes.trim_rules import TrimLimits
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.ordered_log import (
    Answered,
    LogEnds,
    LogEntry,
    LogReader,
    LogReading,
    OrderedLog,
    UnknownOutcome,
)
from holdfast.durable.state_machine.control import last_beat
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.clock import Clock
from holdfast.records.cluster.control import Beat
from holdfast.records.cluster.control_rows import FoundedRow
from holdfast.records.cluster.vnode_keys import vnode_of
from tests.memory_requests import MemoryNetwork
from tests.unit.cluster.member_world import TimersClock
from tests.unit.cluster.node_world import FakeTimers, settle
from tests.unit.durable.state_machine.control_log import FOUND, control_record, id_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID

VNODES = 2


def client_of(vnode: int) -> str:
    """A client id of a vnode."""
    return next(f"c{number}" for number in range(99) if vnode_of(f"c{number}", VNODES) == vnode)


class SkewedClock(Clock):
    """The clock of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead_us = 0

    def wall_us(self) -> int:
        return self._clock.wall_us() + self.ahead_us

    def monotonic_us(self) -> int:
        return self._clock.monotonic_us()


class _HeldReader:
    """A reader that is given its entries when its link says so."""

    def __init__(self, link: "LogLink", reader: LogReader) -> None:
        self._link = link
        self._reader = reader
        self.waiting: list[LogEntry] = []

    def entries(self, entries: list[LogEntry]) -> None:
        self.waiting.extend(entries)
        self.deliver()

    def stopped(self, why: str) -> None:
        self._reader.stopped(why)

    def deliver(self, most: int = 0) -> None:
        if most or not self._link.holds_reads:
            taken = self.waiting[: most or len(self.waiting)]
            del self.waiting[: len(taken)]
            if taken:
                self._reader.entries(taken)


class LogLink(OrderedLog):
    """A log as one node reaches it."""

    def __init__(self, log: MemoryOrderedLog) -> None:
        self._log = log
        self._readers: list[_HeldReader] = []
        #: What it appends is lost.
        self.cut = False
        #: What it reads waits, until `deliver`.
        self.holds_reads = False

    def append(self, record: bytes, answered: Answered) -> None:
        if self.cut:
            answered(UnknownOutcome("cut off"))
        else:
            self._log.append(record, answered)

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        held = _HeldReader(self, reader)
        self._readers = [held]
        return self._log.read(from_sequence, held)

    def deliver(self, most: int = 0) -> None:
        for reader in self._readers:
            reader.deliver(most)

    def go_on(self) -> None:
        self.cut = self.holds_reads = False
        self.deliver()

    async def ends(self) -> LogEnds:
        return await self._log.ends()

    async def trim(self, before_sequence: int) -> None:
        await self._log.trim(before_sequence)


class WholeNode:
    """One process of a node."""

    def __init__(self, world: "WholeWorld", node: int, bounds: NodeBounds, before: "WholeNode | None" = None) -> None:
        """With the tables that an earlier process of the node has left, if there was one."""
        self.world = world
        self.clock = SkewedClock(world.clock)
        self.control = LogLink(world.control)
        self.links = [LogLink(log) for log in world.logs]
        self.control_tables: MemoryTables = MemoryTables() if before is None else before.control_tables
        self.tables: list[MemoryTables] = [MemoryTables() for _log in world.logs] if before is None else before.tables
        self.ends: list[str] = []
        #: Why it has to be installed, and whether its tables differ.
        self.installs: list[tuple[str, bool]] = []
        self.step_downs: list[int | None] = []
        vnodes = [
            NodeVnode(link, tables, tables.sessions) for link, tables in zip(self.links, self.tables, strict=True)
        ]
        stores = NodeStores(lambda _session: {}, {}, {}, lambda: 0, lambda synced: synced())
        address = ((MQTT, f"10.0.0.{node}:1883"),)
        self.node = ClusterNode(
            world.founded,
            self.control,
            self.control_tables,
            vnodes,
            stores,
            NodeProfile(node, f"n{node}", id_of(node), addresses=address),
            self.clock,
            world.timers,
            self.ends.append,
            MemoryNetwork(world.timers).of(node),
            wait=world.wait,
            bounds=bounds,
            step_down=lambda vnode, _why: self.step_downs.append(vnode),
            trim_limits=world.trim_limits,
            install=lambda why, differs: self.installs.append((why, differs)),
        )
        self._tasks: list[asyncio.Task[object]] = []
        self.starting = world.group.create_task(self.node.start(self._spawn))

    def _spawn(self, work: object) -> None:
        self._tasks.append(self.world.group.create_task(work))  # type: ignore[arg-type]

    def beat(self, of: int = 0) -> Beat:
        """The last beat of a node, as this one has applied it."""
        row = last_beat(self.control_tables, of or self.node.life.node)
        assert row is not None
        return row.beat

    @property
    def has_started(self) -> bool:
        return self.starting.done()

    def cut_off(self, *, cut: bool = True) -> None:
        """From all logs, in what it appends."""
        for link in (self.control, *self.links):
            link.cut = cut

    async def kill(self) -> None:
        """The process ends, and says nothing."""
        self.cut_off()
        self.node.close()
        for task in (self.starting, *self._tasks):
            task.cancel()
        await asyncio.gather(self.starting, *self._tasks, return_exceptions=True)


class WholeWorld:
    """The cluster. Nothing happens unless `pass_s` lets time pass."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self.group = group
        self.timers = FakeTimers()
        self.clock = TimersClock(self.timers)
        self.control = MemoryOrderedLog(self.clock, "control")
        self.logs = [MemoryOrderedLog(self.clock, f"vnode-{vnode}") for vnode in range(VNODES)]
        self.control.append(control_record(0, 0, 0, FOUND), lambda _result: None)
        self.founded = FoundedRow(1, CLUSTER_ID, FOUND)
        self.nodes: list[WholeNode] = []
        self.trim_limits = TrimLimits(1 << 30, 1 << 30)

    async def wait(self, delay_s: float) -> None:
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.timers.call_later(delay_s, lambda: None if passed.done() else passed.set_result(None))
        await passed

    async def begin(
        self, node: int, bounds: NodeBounds | None = None, seconds: float = 3, before: WholeNode | None = None
    ) -> WholeNode:
        """Start a node, perhaps with the tables of an earlier process, and let time pass until it serves."""
        made = WholeNode(self, node, bounds or NodeBounds(), before)
        self.nodes.append(made)
        await self.pass_s(seconds)
        return made

    async def pass_s(self, seconds: float, step_s: float = 0.25) -> None:
        """In steps: who waits for less than one waits for one."""
        for _step in range(round(seconds / step_s)):
            self.timers.advance(step_s)
            await settle()

    async def fill(self, vnode: int, records: int, size_bytes: int = 100) -> None:
        """Records that no node decides, and all pass over: a log grows by them as by others."""
        for _record in range(records):
            self.logs[vnode].append(b"\0" * size_bytes, lambda _result: None)
            await asyncio.sleep(0)
        await settle()

    def leaders(self) -> list[int]:
        """Who leads each vnode, as the first node that runs has applied it."""
        return [self.nodes[0].node.leader_of(vnode) for vnode in range(VNODES)]


@asynccontextmanager
async def whole_world() -> AsyncIterator[WholeWorld]:
    async with asyncio.TaskGroup() as group:
        world = WholeWorld(group)
        try:
            yield world
        finally:
            for node in world.nodes:
                await node.kill()
