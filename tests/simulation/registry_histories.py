"""Histories of registrations, reads and removals over three nodes and one log with faults, from a seed.

Registries, writers, appliers and the state machine are the real ones; clients are none: each operation is called as a
broker would call it, and noted with its moments. Answers are lost, records come late, twice and in any order, nodes
are behind each other, die and come back with a new epoch.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from holdfast.cluster.cluster_log import ClusterLog
from holdfast.cluster.registry.log_registry import LogRegistry
from holdfast.cluster.vnodes.applier import VnodeApplier
from holdfast.cluster.vnodes.vnode_leader import registration_of
from holdfast.cluster.vnodes.writer import VnodeWriter
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.durable.takeover.registry import (
    NOBODY,
    PATIENCE_S,
    CommitLost,
    Committed,
    NodeLife,
    Registration,
    Unsettled,
    VersionClock,
)
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.records.cluster.items import ChangeSettings, Tick
from holdfast.records.cluster.rows import RegistrationRow
from tests.linearizability import NEVER, Channel, Operation, Read, Register, Remove
from tests.unit.cluster.node_world import FakeTimers, record
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, ZONES

CLIENTS = 40
NODES = 3
#: Few operations have so little that they are without an answer.
PATIENCES_S = (0.05, 100.0, 100.0, 100.0)
#: Makes the registry of a node; a defect can be planted here.
MakeRegistry = Callable[[ClusterLog, Callable[[str], RegistrationRow | None], FakeTimers], LogRegistry]


def name_of(registration: Registration | None) -> Channel:
    return None if registration is None else "{}.{}.{}".format(*registration.channel)


class HistoryNode:
    """One life of one node: a registry over the log."""

    def __init__(self, run: "RegistryRun", number: int, epoch: int, tables: MemoryTables | None) -> None:
        self.life = NodeLife(number, epoch)
        self.tables = tables or MemoryTables()
        self.writer = VnodeWriter(run.log, CLUSTER_ID, number, epoch, run.clock, run.timers, lambda: 0)
        self.log = ClusterLog(1, lambda _session: {}, {}, {}, run.timers)
        self.log.begin([self.writer])
        self.versions = VersionClock(run.clock, number, epoch=epoch)
        self.registry = run.make_registry(self.log, self._registration, run.timers)
        self.applier = VnodeApplier(run.log, CLUSTER_ID, self.tables, self.log.listener(0), run.wait)
        self.task = asyncio.get_running_loop().create_task(self.applier.run())
        self.connections = 0
        #: Its channels that are, or may be, registered.
        self.channels: list[Registration] = []

    def _registration(self, session_id: str) -> RegistrationRow | None:
        row = registration_of(self.tables, session_id)
        return None if row is None or closed_at(self.tables, row.node, row.epoch) != OPEN else row

    async def stop(self) -> None:
        self.writer.close()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class RegistryRun:
    """One history. `operations` has it when `run` has ended."""

    def __init__(self, seed: int, count: int, make_registry: MakeRegistry = LogRegistry) -> None:
        self.random = Random(seed)
        self.count = count
        self.make_registry = make_registry
        self.clock = ManualClock()
        self.timers = FakeTimers()
        self.log = MemoryOrderedLog(self.clock)
        self.log.append(record(9, 1, ChangeSettings(1, ZONES)), lambda _result: None)
        self.nodes: list[HistoryNode] = []
        self.operations: list[Operation] = []
        self._moment = 0
        self._epoch = 0
        self._revisions: dict[int, str] = {}
        #: Operations without an answer, by a number: how each ends if its node dies.
        self._open: dict[int, tuple[HistoryNode, Callable[[], Operation]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[BaseException] = []

    async def wait(self, _delay_s: float) -> None:
        await asyncio.sleep(0)

    async def run(self) -> list[Operation]:
        for number in range(1, NODES + 1):
            self._start(number, None)
        await self._settle()
        self.log.hold_appends = self.log.hold_reads = True
        while len(self.operations) + len(self._open) < self.count:
            await self._step()
        self.log.hold_appends = self.log.hold_reads = False
        for _round in range(20):
            while self.log.held:
                self.log.arrive()
            for reading in self.log.readings():
                self.log.deliver(reading)
            await self._settle()
            self._pass(1.0)
        for number in list(self._open):
            self._give_up(number)
        for node in self.nodes:
            await node.stop()
        await asyncio.gather(*self._tasks)
        if self._failures:
            raise self._failures[0]
        return self.operations

    def _start(self, number: int, tables: MemoryTables | None) -> HistoryNode:
        self._epoch += 1
        node = HistoryNode(self, number, self._epoch, tables)
        node.writer.add(Tick())  # closes its earlier epoch
        node.writer.flush()
        self.nodes.append(node)
        return node

    # ---- what happens

    async def _step(self) -> None:
        chance = self.random.random()
        if chance < 0.45:
            self._call()
        elif chance < 0.75:
            while self.log.held and self.random.random() < 0.8:
                self.log.arrive(self.random.randrange(len(self.log.held)))
        elif chance < 0.97:
            for reading in self.log.readings():
                if self.random.random() < 0.7:
                    self.log.deliver(reading, self.random.choice([0, 0, 1, 3]))
        elif chance < 0.985:
            self._pass(self.random.choice([0.001, 0.1, 1.0]))
        elif chance < 0.9997:
            setattr(self.log, self.random.choice(["lose_answers", "lose_appends", "repeat_appends"]), 1)
        else:
            await self._restart()
        await self._settle(6)

    def _pass(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1_000_000))
        self.timers.advance(seconds)

    async def _settle(self, turns: int = 40) -> None:
        for _turn in range(turns):
            await asyncio.sleep(0)

    async def _restart(self) -> None:
        """A node dies, and comes back with what it had applied; its channels are closed at some moment."""
        node = self.random.choice(self.nodes)
        self.nodes.remove(node)
        for number in [number for number, (of, _end) in self._open.items() if of is node]:
            self._give_up(number)  # before its writer says that it knows nothing of them
        await node.stop()
        for channel in node.channels:
            name = name_of(channel)
            assert name is not None
            self.operations.append(Remove(channel.client_id, self._next_moment(), channel=name))
        self._start(node.life.node, node.tables)

    # ---- operations

    def _next_moment(self) -> int:
        self._moment += 1
        return self._moment

    def _call(self) -> None:
        node = self.random.choice(self.nodes)
        client_id = ClientId(f"c{self.random.randrange(CLIENTS)}")
        kind = self.random.random()
        own = [channel for channel in node.channels if channel.client_id == client_id]
        if kind < 0.25:
            self._spawn(node, self._read(node, client_id))
        elif kind < 0.5 and own:
            channel = self.random.choice(own)
            node.channels.remove(channel)
            self._spawn(node, self._remove(node, channel))
        else:
            self._spawn(node, self._register(node, client_id))

    def _spawn(self, node: HistoryNode, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = task.exception()
        if error is not None:
            self._failures.append(error)

    def _give_up(self, number: int) -> None:
        """An operation has no answer, and will have none."""
        _node, end = self._open.pop(number)
        self.operations.append(end())

    def _begin(self, node: HistoryNode, end: Callable[[int], Operation]) -> int:
        """Note a call; `end` makes the operation that has no answer, from the moment of the call."""
        called = self._next_moment()
        self._open[called] = (node, lambda: end(called))
        return called

    async def _register(self, node: HistoryNode, client_id: ClientId) -> None:
        """As a takeover does: against what the node knows, or against what a refusal has told."""
        node.connections += 1
        version = node.versions.next()
        parts = (version.connected_at_ms, version.node, version.counter)
        registration = Registration(client_id, node.life.node, node.connections, version, node.life.epoch)
        name = name_of(registration)
        assert name is not None
        known = node.registry.local_newest(client_id)
        if known is not None:
            self._note(known)
            if version < known.version:
                return
        expected = known
        node.channels.append(registration)

        def unanswered(called: int) -> Operation:
            return Register(client_id, called, NEVER, name, parts, name_of(expected))

        called = self._begin(node, unanswered)
        revision = NOBODY if known is None else known.revision
        result = await node.registry.commit(registration, revision, self.random.choice(PATIENCES_S))
        if self._open.pop(called, None) is None:
            return
        moment = self._next_moment()
        if isinstance(result, Committed):
            self._note(registration.at_revision(result.revision))
            done = Register(client_id, called, moment, name, parts, name_of(expected), committed=True)
        elif isinstance(result, CommitLost):
            if registration in node.channels:  # else it has left meanwhile
                node.channels.remove(registration)
            self._note(result.current)
            found = name_of(result.current)
            done = Register(client_id, called, moment, name, parts, name_of(expected), committed=False, found=found)
        else:
            done = Register(client_id, called, NEVER, name, parts, name_of(expected))
        self.operations.append(done)

    async def _read(self, node: HistoryNode, client_id: ClientId) -> None:
        called = self._begin(node, lambda called: Read(client_id, called))
        newest = await node.registry.read_newest(client_id, self.random.choice(PATIENCES_S))
        if self._open.pop(called, None) is None:
            return
        if isinstance(newest, Unsettled):
            self.operations.append(Read(client_id, called))
            return
        self._note(newest)
        self.operations.append(Read(client_id, called, self._next_moment(), name_of(newest)))

    async def _remove(self, node: HistoryNode, channel: Registration) -> None:
        name = name_of(channel)
        assert name is not None
        called = self._begin(node, lambda called: Remove(channel.client_id, called, channel=name))
        began_s = self.timers.now_s
        removed = await node.registry.remove(channel)
        if self._open.pop(called, None) is None:
            return
        # False stands for "it was not in", and later for "no answer".
        if removed or self.timers.now_s < began_s + PATIENCE_S:
            done = Remove(channel.client_id, called, self._next_moment(), name, removed=removed)
        else:
            done = Remove(channel.client_id, called, channel=name)
        self.operations.append(done)

    def _note(self, registration: Registration | None) -> None:
        """One revision is one channel, whoever tells of it."""
        if registration is not None and registration.revision:
            name = name_of(registration)
            assert name is not None
            assert self._revisions.setdefault(registration.revision, name) == name
