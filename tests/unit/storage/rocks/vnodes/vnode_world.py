"""A cluster with two vnodes: its logs, and nodes that apply them on RocksDB."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.machine import StateMachine, applied_row
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.model.clock import ManualClock
from holdfast.model.message import Message
from holdfast.records.cluster.items import ChangeSettings, Claim, Item, Lead
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, encode_record, revision_of
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from tests.replays import replay_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, S, T

VNODES = 2
#: Zones of every vnode; each has a shard of its own in each.
ZONES = {"default": (), "audit": (b"audit/#",)}


def client_of(vnode: int, vnodes: int = VNODES) -> str:
    """A client id that is in a vnode."""
    return next(f"c{number}" for number in range(100) if vnode_of(f"c{number}", vnodes) == vnode)


def shard_of(vnode: int, zone: str = "default") -> int:
    return len(ZONES) * vnode + list(ZONES).index(zone)


def settings_of(vnode: int, layout: str = "paged") -> VnodeSettings:
    return VnodeSettings(tuple(VnodeZone(name, shard_of(vnode, name), layout, {}, ZONES[name]) for name in ZONES))


class Logs:
    """The ordered logs of all vnodes. Each has settings, a leader, and a client that node 1 has claimed."""

    def __init__(self, vnodes: int = VNODES, layout: str = "paged", *, apart_us: int = 0) -> None:
        """The clock of each vnode is `apart_us` behind that of the one before."""
        self.apart_us = apart_us
        self.entries: list[list[LogEntry]] = [[] for _vnode in range(vnodes)]
        self.now_us = T
        self.sessions: list[list[SessionEntry]] = [[] for _vnode in range(vnodes)]
        for vnode in range(vnodes):
            self.write(vnode, ChangeSettings(1, settings_of(vnode, layout)), Lead())
            self.claim(vnode, client_of(vnode, vnodes))

    def claim(self, vnode: int, client: str) -> int:
        """A client that is connected at node 1; the number of its session in later records."""
        entry = self.write(vnode, Claim(client, 1, (1, 1, 1), 0))
        self.sessions[vnode].append(SessionEntry(client, revision_of(entry.sequence, 0)))
        return len(self.sessions[vnode]) - 1

    def write(self, vnode: int, *items: Item, passed_us: int = S, seen: int = 0) -> LogEntry:
        self.now_us += passed_us
        time_us = self.now_us - vnode * self.apart_us
        entries = self.entries[vnode]
        number = len(entries) + 1
        record = ClusterRecord(CLUSTER_ID, 1, 1, number, time_us, seen, self.sessions[vnode], list(items))
        entries.append(LogEntry(number, time_us, encode_record(record)))
        return entries[-1]


class Node:
    """Applies logs, as far as it is told to."""

    def __init__(self, engine: Engine, vnodes: int = VNODES) -> None:
        self.engine = engine
        self.clock = ManualClock(T)
        self.stores = VnodeStores(engine, self.clock, vnodes)
        self.machines = {number: StateMachine(CLUSTER_ID, vnode) for number, vnode in self.stores.vnodes.items()}

    def apply(self, vnode: int, entry: LogEntry) -> Outcome:
        outcome = self.machines[vnode].apply(entry)
        self.stores.vnodes[vnode].write(outcome.changes, outcome.steps, outcome.published)
        return outcome

    def applied(self, vnode: int) -> int:
        return applied_row(self.stores.vnodes[vnode]).sequence

    def catch_up(self, logs: Logs) -> list[Outcome]:
        """Apply all that it has not applied yet."""
        return [
            self.apply(vnode, entry) for vnode, log in enumerate(logs.entries) for entry in log[self.applied(vnode) :]
        ]

    def restarted(self) -> "Node":
        """The same node after it was killed: what it had in memory is gone."""
        return Node(self.engine, len(self.stores.vnodes))

    def replay(self, levels: tuple[bytes, ...] = (), since_us: int = 1) -> dict[int, list[Message]]:
        """What a replay finds, by shard."""
        found: dict[int, list[Message]] = {shard: [] for shard in self.stores.log.heads()}
        replay = replay_of(self.stores.log, levels, since_us)
        while True:
            page = replay.next(3)
            for message in page.messages:
                found[message.shard].append(message)
            if page.at_end:
                return found


@contextmanager
def opened(folder: Path) -> Iterator[Engine]:
    engine = Engine.open(folder, reserve_bytes=0)
    try:
        yield engine
    finally:
        engine.close()


def log_families(engine: Engine) -> list[str]:
    return [name for name in engine.families() if name.startswith(("log-", "segments-"))]
