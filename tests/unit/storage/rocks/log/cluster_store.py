"""A `Store` by shape over a cluster: the ordered logs of its vnodes, and one node that applies them on RocksDB.

What is written is a record of the vnode of its publisher. It is read from when the node has applied it: `settle` does
that, and so does `reopen`, which is a restart. A zone has a shard in every vnode; publisher `p` is in shard 0.
"""

from collections.abc import Iterable
from pathlib import Path

from holdfast.durable.log import NO_END
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.replay import LogReplay
from holdfast.durable.state_machine.machine import StateMachine, applied_row
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.zones import Zone
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.cluster.items import Border, ChangeSettings, Claim, DropGeneration, Item, Lead, MessageItem
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, encode_record, revision_of
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.generations import Generation
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.shard_scan import matches
from holdfast.storage.rocks.vnodes.node_store import VnodeStores
from holdfast.storage.rocks.vnodes.shard_part import ShardPart
from holdfast.storage.rocks.vnodes.vnode_log import VnodeLog
from tests.replays import replay_of
from tests.unit.durable.state_machine.vnode import CLUSTER_ID
from tests.unit.storage.rocks.log.store import drain, levels

#: The node that writes.
NODE = 1


class ClusterStore:
    """Requires: `close` at the end."""

    def __init__(
        self,
        folder: Path,
        *zones: Zone,
        default: Zone | None = None,
        mounts: Iterable[str] = (),
        vnodes: int = 2,
    ) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.vnodes = vnodes
        self.written: list[Message] = []
        self._entries: list[list[LogEntry]] = [[] for _vnode in range(vnodes)]
        self._sessions: list[dict[str, SessionEntry]] = [{} for _vnode in range(vnodes)]
        #: Names of zones by the number of their shard in the first vnode.
        self._names: list[str] = []
        self._settings: tuple[VnodeSettings, ...] = ()
        self._changes = 0
        self._open()
        for vnode in range(vnodes):
            self._write(vnode, Lead())
        self._change(list(zones), default or Zone("default"), list(mounts))

    def _open(self) -> None:
        self.engine = Engine.open(self.folder, reserve_bytes=0)
        self.stores = VnodeStores(self.engine, self.clock, self.vnodes)
        self._machines = [StateMachine(CLUSTER_ID, self.stores.vnodes[number]) for number in range(self.vnodes)]
        self.settle()

    def reopen(self, *zones: Zone, default: Zone | None = None, mounts: Iterable[str] = ()) -> None:
        """With new settings; with none at all, those of before."""
        self.close()
        self._open()
        if zones or default or mounts:
            self._change(list(zones), default or Zone("default"), list(mounts))

    def close(self) -> None:
        self.engine.close()

    # ---- records

    def _change(self, zones: list[Zone], default: Zone, mounts: list[str]) -> None:
        """Settings that every vnode takes on, as a change of the cluster's settings would have it."""
        self._names += [zone.name for zone in [default, *zones] if zone.name not in self._names]
        settings = tuple(self._settings_of(vnode, [default, *zones], mounts) for vnode in range(self.vnodes))
        if settings == self._settings:
            return
        self._settings = settings
        self._changes += 1
        for vnode in range(self.vnodes):
            self._write(vnode, ChangeSettings(self._changes, settings[vnode]))
            for zone in settings[vnode].zones:
                part = self._part(zone.shard)
                if part is not None and part.live[-1].record.layout != zone.layout:
                    self._write(vnode, Border(zone.name, part.live[-1].record.number + 1, zone.layout, {}))
        self.settle()

    def _settings_of(self, vnode: int, zones: list[Zone], mounts: list[str]) -> VnodeSettings:
        kept = [
            VnodeZone(
                zone.name,
                self.shard_of(vnode, zone.name),
                zone.layout,
                {},
                tuple(b"/".join(levels) for levels in zone.filters),
            )
            for zone in zones
        ]
        return VnodeSettings(tuple(kept), tuple(mount.encode() for mount in mounts))

    def shard_of(self, vnode: int, zone: str = "default") -> int:
        first = (vnode - vnode_of("p", self.vnodes)) % self.vnodes
        return self._names.index(zone) * self.vnodes + first

    def _write(self, vnode: int, *items: Item) -> LogEntry:
        entries = self._entries[vnode]
        number = len(entries) + 1
        now_us = self.clock.wall_us()
        sessions = list(self._sessions[vnode].values())
        record = ClusterRecord(CLUSTER_ID, NODE, 1, number, now_us, 0, sessions, list(items))
        entries.append(LogEntry(number, now_us, encode_record(record)))
        return entries[-1]

    def _session(self, vnode: int, publisher: str) -> int:
        """The place of a publisher's session in the records of its vnode; it is claimed with its first message."""
        sessions = self._sessions[vnode]
        if publisher not in sessions:
            entry = self._write(vnode, Claim(publisher, 1, (len(sessions) + 1, NODE, 1), 0))
            sessions[publisher] = SessionEntry(publisher, revision_of(entry.sequence, 0))
        return list(sessions).index(publisher)

    def write(self, *messages: Message) -> None:
        """One batch: a record in the log of each vnode that a publisher of it is in. Nobody has applied it."""
        by_vnode: dict[int, list[Item]] = {}
        for message in messages:
            vnode = vnode_of(message.publisher, self.vnodes)
            session = self._session(vnode, message.publisher)
            by_vnode.setdefault(vnode, []).append(MessageItem(session, message))
        for vnode, items in by_vnode.items():
            self._write(vnode, *items)

    def message(self, topic: str, publisher: str = "p", payload: bytes = b"") -> Message:
        return Message(topic.encode(), payload, 1, ClientId(publisher), self.clock.wall_us())

    def publish(self, *topics: str, publisher: str = "p") -> list[Message]:
        """A record with a message to each topic, applied."""
        self.write(*[self.message(topic, publisher) for topic in topics])
        before = len(self.written)
        self.settle()
        return self.written[before:]

    def settle(self) -> None:
        """Every record is applied by the node, and once only."""
        for vnode, entries in enumerate(self._entries):
            for entry in entries[applied_row(self.stores.vnodes[vnode]).sequence :]:
                self._apply(vnode, entry)

    def _apply(self, vnode: int, entry: LogEntry) -> None:
        outcome: Outcome = self._machines[vnode].apply(entry)
        assert all(outcome.accepted), "a record of this store counts"
        self.stores.vnodes[vnode].write(outcome.changes, outcome.steps, outcome.published)
        self.written += [one.message for one in outcome.published]

    # ---- generations

    def _part(self, shard: int) -> ShardPart | None:
        return next((part for part in self.stores.log.parts() if part.id == shard), None)

    def parts(self, zone: str = "default") -> list[ShardPart]:
        return [part for part in self.stores.log.parts() if part.zone == zone]

    def layouts(self) -> list[str]:
        """The layouts of the generations of the default zone, which are the same in all vnodes."""
        (found,) = {tuple(live.record.layout for live in part.live) for part in self.parts()}
        return list(found)

    def end_behind(self, messages: list[Message]) -> int:
        """Where a generation that was dropped is known to end: where the next one that is there begins."""
        last = messages[-1]
        part = self._part(last.shard)
        assert part is not None
        return min(live.record.start_us for live in part.live if live.record.start_us > last.position_us)

    def rotate(self, name: str = "default") -> None:
        """The generation of each shard of a zone ends."""
        for part in self.parts(name):
            record = part.live[-1].record
            self._write(part.vnode, Border(name, record.number + 1, record.layout, {}))
        self.settle()

    def drop_oldest(self, name: str = "default") -> list[Generation]:
        """What is gone then: a generation of each shard."""
        records = [part.live[0].record for part in self.parts(name)]
        for part, record in zip(self.parts(name), records, strict=True):
            self._write(part.vnode, DropGeneration(name, record.number))
        self.settle()
        return records

    def zone_names(self, *, sealed: bool = False) -> list[str]:
        """All zones; with `sealed` those that have a generation which can be dropped."""
        return [name for name in self._names if not sealed or self.parts(name)[0].live[0].record.end_us]

    def index(self) -> None:
        """Nothing is written behind in a cluster."""

    # ---- reading

    @property
    def reader(self) -> VnodeLog:
        return self.stores.log

    def reader_over(self, families: ColumnFamilies) -> VnodeLog:
        """A reader that sees the families as a test does."""
        reader = VnodeLog(families)
        for part in self.stores.log.parts():
            reader.add(part)
        return reader

    def replay(self, text: str = "#", since_us: int = 0, until_us: int = NO_END, **how: bool) -> LogReplay:
        return replay_of(self.reader, levels(text), since_us, until_us, **how)

    def read(self, text: str = "#", since_us: int = 0, until_us: int = NO_END, **how: bool) -> list[Message]:
        return drain(self.replay(text, since_us, until_us, **how))[0]

    def expected(self, text: str = "#", since_us: int = 0, until_us: int = NO_END) -> list[Message]:
        """Brute force: what was applied and matches, in the order of applying."""
        wanted = levels(text)
        return [
            message
            for message in self.written
            if matches(wanted, message.topic) and since_us <= message.position_us < until_us
        ]
