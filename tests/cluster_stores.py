"""What a node of `cluster_world` has stored: the messages and sessions of all vnodes, in memory."""

from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.sessions.session_store import MemorySessions, StoredSession, StoredShares
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.model.message import Message
from holdfast.model.owed import Owed, OwedShared
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.session.session_record import SessionRecord
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar


class MemoryScan:
    """A `ShardScan` over a list of messages."""

    def __init__(self, messages: list[Message], levels: tuple[bytes, ...], from_us: int) -> None:
        self._messages = messages
        self._levels = levels
        self.from_us = from_us
        self.lost: list[LostRange] = []

    def next(self, limit: int, before_us: int) -> list[Message]:
        found: list[Message] = []
        for message in self._messages:
            if not self.from_us <= message.position_us < before_us:
                continue
            dollar = is_dollar(message.topic)
            if not self._levels or levels_match(self._levels, message.topic.split(SEPARATOR), dollar=dollar):
                found.append(message)
                if len(found) == limit:
                    self.from_us = message.position_us + 1
                    return found
        self.from_us = before_us
        return found


class MemoryMessages:
    """The messages of a node's tables, as a `MessageLog`."""

    def __init__(self, tables: list[MemoryTables]) -> None:
        self._tables = tables

    def of(self, shard: int) -> list[Message]:
        return [stored.message for stored in self._tables[shard].messages]

    def shards_for(self, levels: tuple[bytes, ...]) -> list[int]:
        return list(range(len(self._tables)))

    def heads(self) -> dict[int, int]:
        return {shard: max((one.position_us for one in self.of(shard)), default=0) for shard in self.shards_for(())}

    def boundary_after(self, position_us: int) -> int:
        return NO_END

    def scan(self, shard: int, levels: tuple[bytes, ...], from_us: int) -> MemoryScan:
        return MemoryScan(self.of(shard), levels, from_us)

    def at(self, shard: int, position_us: int) -> Message | None:
        return next((one for one in self.of(shard) if one.position_us == position_us), None)


class VnodesInMemory:
    """A `SessionStore` by shape: the sessions of all vnodes of a node. What is in flight is looked up in the log."""

    def __init__(self, tables: list[MemoryTables], messages: MemoryMessages) -> None:
        self._tables = tables
        self._messages = messages

    def _of(self, client_id: str) -> MemorySessions:
        return self._tables[vnode_of(client_id, len(self._tables))].sessions

    def record(self, client_id: str) -> SessionRecord | None:
        return self._of(client_id).record(client_id)

    def load(self, client_id: str, limit: int = 0) -> StoredSession | None:
        stored = self._of(client_id).load(client_id)
        if stored is None:
            return None
        for packet_id, owed in list(stored.inflight.items()):
            message = owed.message
            if message.position_us:
                found = self._messages.at(message.shard, message.position_us)
                assert found is not None, "what is in flight is applied before its session is opened"
                stored.inflight[packet_id] = _with_message(owed, found)
        for entry in () if stored.progress is None else stored.progress.unacknowledged:
            found = self._messages.at(entry.shard, entry.position_us)
            if found is not None and entry.qos == 1:
                stored.unacknowledged[entry.packet_id] = found
        return stored

    def shares(self, client_id: str) -> StoredShares | None:
        return self._of(client_id).shares(client_id)

    def positions(self, client_id: str) -> dict[int, int]:
        """The places that a session names, by shard the last one."""
        stored = self._of(client_id).load(client_id)
        found: dict[int, int] = {}
        if stored is None:
            return found
        places = [(owed.message.shard, owed.message.position_us) for owed in stored.inflight.values()]
        places += stored.done
        if stored.progress is not None:
            places += stored.progress.sent.items()
        for record in stored.subscriptions.values():
            places += (record.since_heads or {}).items()
        for shard, position_us in places:
            found[shard] = max(found.get(shard, 0), position_us)
        return found

    def expiring(self, before_us: int, limit: int) -> list[str]:
        return [one for tables in self._tables for one in tables.sessions.expiring(before_us, limit)][:limit]

    def connected(self, after: str, limit: int) -> list[str]:
        return sorted([one for tables in self._tables for one in tables.sessions.connected(after, limit)])[:limit]

    def with_external_queue(self, after: str, limit: int) -> list[str]:
        return []

    def waiting_wills(self, after_us: int, after: str, limit: int) -> list[tuple[int, str]]:
        found = [one for tables in self._tables for one in tables.sessions.waiting_wills(after_us, after, limit)]
        return sorted(found)[:limit]

    def count(self) -> int:
        return sum(tables.sessions.count() for tables in self._tables)


def _with_message(owed: Owed, message: Message) -> Owed:
    if not isinstance(owed, OwedShared):
        return Owed(message, 2, retain=owed.retain, identifiers=owed.identifiers)
    return OwedShared(
        message,
        2,
        identifiers=owed.identifiers,
        group=owed.group,
        source=message,
        past=False,
        due_us=0,
        vnode=owed.vnode,
        revision=owed.revision,
    )
