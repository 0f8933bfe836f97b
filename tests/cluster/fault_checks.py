"""What the nodes of a cluster have stored, and whether it is right, from copies of their folders.

1. `holdfast verify` finds nothing, so serials are dense from the first that is kept to the head.
2. At the same place of a log all nodes have the same digest: the same tables.
3. Who is connected has one registration, which names its node; nobody else has one that counts.
4. No registration that counts is of an epoch that its node has left.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from holdfast.cluster.administration import replay_control
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.vnodes.applier import ApplierStop, VnodeApplier
from holdfast.durable.ordered_log import INSTALL, LogEntry, OrderedLog
from holdfast.durable.state_machine.control import all_members
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import CLUSTER
from holdfast.model.errors import TransientError
from holdfast.node.system_clock import SystemClock
from holdfast.records.cluster.rows import (
    LEADER_KEY,
    RegistrationRow,
    decode_leader,
    decode_registration,
    registrations_after,
    session_of_registration,
)
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from tests.cluster.fault_cluster import VNODES, FaultCluster

_Found = TypeVar("_Found")

_MANY = 100_000
_PATIENCE_S = 30.0
#: A node that is behind its log in all of them is wrong.
_ATTEMPTS = 5


@dataclass
class VnodeState:
    """A vnode as one node has it, at a place of its log that is the same for all nodes."""

    digest: bytes
    #: Node and epoch; (0, 0) if nobody leads in an epoch that is open.
    leader: tuple[int, int] = (0, 0)
    #: Those that were not released.
    registrations: dict[str, RegistrationRow] = field(default_factory=dict)


@dataclass
class NodeState:
    """What one node has stored."""

    node: int
    vnodes: list[VnodeState]
    #: What `verify` and opening the folder found.
    problems: list[str] = field(default_factory=list)
    #: Whether a log no longer has what follows the copy of its folder.
    is_trimmed: bool = False


def judge_states(states: list[NodeState], online: dict[str, int], epochs: dict[int, int]) -> list[str]:
    """What is wrong. `online` has the node of each client that is connected, `epochs` the present one of each node."""
    found = [f"verify, node {state.node}: {problem}" for state in states for problem in state.problems]
    for vnode in range(len(states[0].vnodes)):
        digests = {state.node: state.vnodes[vnode].digest.hex() for state in states}
        if len(set(digests.values())) > 1:
            found.append(f"digests of vnode {vnode} differ: {digests}")
    for state in states:
        registered = {name: row for vnode in state.vnodes for name, row in vnode.registrations.items()}
        for name, row in registered.items():
            if epochs.get(row.node) != row.epoch:
                found.append(
                    f"node {state.node}: {name} is registered at node {row.node} in epoch {row.epoch}, which is over"
                )
            elif name not in online:
                found.append(f"node {state.node}: {name} is registered at node {row.node}, and not connected")
            elif online[name] != row.node:
                found.append(f"node {state.node}: {name} is registered at node {row.node}, connected to {online[name]}")
        found += [f"node {state.node}: {name} is connected and not registered" for name in online.keys() - registered]
    return found


async def _answered(ask: Callable[[], Awaitable[_Found]]) -> _Found:
    """What servers say that were killed a moment ago, once they say something."""
    while True:
        try:
            return await ask()
        except TransientError:
            await asyncio.sleep(0.2)


async def read_states(cluster: FaultCluster, folder: Path) -> tuple[list[NodeState], dict[int, int]]:
    """What all nodes have stored, and their epochs. Read again if a log was trimmed beyond a copy meanwhile."""
    for _attempt in range(_ATTEMPTS):
        states, epochs = await _read_copies(cluster, folder)
        if not any(state.is_trimmed for state in states):
            break
    return states, epochs


async def _read_copies(cluster: FaultCluster, folder: Path) -> tuple[list[NodeState], dict[int, int]]:
    """Nodes stand still while their folders are copied."""
    copies = [folder / f"copy-{node.number}" for node in cluster.nodes]
    for node in cluster.nodes:
        node.stop_now()
    try:
        for node, copy in zip(cluster.nodes, copies, strict=True):
            shutil.copytree(node.data, copy, ignore=shutil.ignore_patterns("*.sock"))
    finally:
        for node in cluster.nodes:
            node.go_on()
    try:
        async with (
            asyncio.TaskGroup() as tasks,
            asyncio.timeout(_PATIENCE_S),
            cluster.servers.connected() as connection,
        ):
            clock = SystemClock()
            logs = [
                await _answered(partial(NatsOrderedLog.open, connection, stream, tasks, clock))
                for stream in cluster.streams
            ]
            try:
                founded, control = await _answered(partial(replay_control, logs[0]))
                epochs = {number: member.epoch for number, member in all_members(control).items()}
                # All copies are at these places or before them.
                places = [(await _answered(log.ends)).last for log in logs[1:]]
                states = [
                    await _read_state(node.number, copy, founded.cluster_id, [*logs[1:]], places)
                    for node, copy in zip(cluster.nodes, copies, strict=True)
                ]
            finally:
                for log in logs:
                    await log.close()
    finally:
        for copy in copies:
            shutil.rmtree(copy, ignore_errors=True)
    return states, epochs


class _UpTo:
    """An `OutcomeListener` that notes the digest at one place."""

    def __init__(self, store: RocksVnode, place: int) -> None:
        self._store = store
        self._place = place
        self.state: VnodeState | None = None
        self.reached = asyncio.Event()

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        if entry.sequence == self._place:
            self.note(outcome.digest)

    def stopped(self, stop: ApplierStop) -> None:
        self.reached.set()

    def note(self, digest: bytes) -> None:
        """Read the tables as they are here: what is applied later may have changed them."""
        tables = self._store
        state = VnodeState(digest)
        value = tables.get(CLUSTER, LEADER_KEY)
        if value is not None:
            row = decode_leader(value)
            if closed_at(tables, row.node, row.epoch) == OPEN:
                state.leader = row.node, row.epoch
        for key, registration in tables.scan(CLUSTER, *registrations_after(""), _MANY):
            found = decode_registration(registration)
            # A closed epoch is carried out in slices: until then its registrations count as released.
            if not found.released_us and closed_at(tables, found.node, found.epoch) == OPEN:
                state.registrations[session_of_registration(key)] = found
        self.state = state
        self.reached.set()


async def _read_state(
    number: int, folder: Path, cluster_id: bytes, logs: list[OrderedLog], places: list[int]
) -> NodeState:
    problems = [str(problem) for problem in verify_folder(folder).problems]
    is_trimmed = False
    engine = Engine.open(folder, reserve_bytes=0)
    try:
        stores = VnodeStores(engine, SystemClock(), VNODES)
        vnodes: list[VnodeState] = []
        for vnode, (log, place) in enumerate(zip(logs, places, strict=True)):
            store = stores.vnodes[vnode]
            up_to = _UpTo(store, place)
            applier = VnodeApplier(log, cluster_id, store, up_to)
            if applier.place.sequence == place:
                up_to.note(applier.place.digest)
            task = asyncio.create_task(applier.run())
            try:
                await up_to.reached.wait()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            if applier.stop is not None:
                problems.append(f"vnode {vnode} is applied no further: {applier.stop}")
                is_trimmed |= applier.stop.reason == INSTALL
            vnodes.append(up_to.state or VnodeState(b""))
        return NodeState(number, vnodes, problems, is_trimmed)
    finally:
        engine.close()
