"""Rules 11 and 12, and retained messages: where messages go, and when the generations of a shard change.

A shard is the part of a zone in one vnode. Its positions increase and its serials are dense, and both follow from the
log alone:

    position = max(last position + 1, record time, start of the open generation)
    serial   = last serial + 1

1. The zone of a topic follows from the last settings of this vnode. A vnode without settings takes no message.
2. The first generation of a shard begins at 0 with the settings that name its zone. A border begins the next one at the
   position that the next message would get, or at a later one if the border says so.
3. What a publisher said about the time of a message does not count: it arrived, and begins to age, at record time.
4. A retained message has the version max(position, greatest version that the writer has seen + 1, last version of this
   vnode + 1). So one that answers another one wins over it, in whichever vnode that lies, and versions of one vnode
   never go back, whichever of its shards a topic is in. A removal is a message without payload: it has a version as
   well, and stays until a horizon takes out exactly that version.
5. Generations of a zone that the settings name no longer go on: they can be sealed and dropped.
"""

from typing import Final

from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.scope import Scope
from holdfast.durable.state_machine.tables import META, RETAINED
from holdfast.durable.zones import UNSTORED, Zone, Zones
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.items import Border, DropGeneration, Horizon
from holdfast.records.cluster.settings import VnodeSettings
from holdfast.records.generations import Generation, decode_generation, encode_generation
from holdfast.records.messages import StoredMessage, expiry_seconds
from holdfast.records.meta_keys import GENERATION, all_of, generation_key, generations_of, head_key
from holdfast.records.positions import ShardHead, decode_head, encode_head
from holdfast.records.retained import RetainedRecord, decode_retained, encode_retained, expiry_key, retained_key


class _OpenShard:
    """A shard while a record is decided: its end, and its open generation."""

    def __init__(self, shard: int, head: ShardHead, generation: Generation) -> None:
        self.id: Final = shard
        self.position_us = head.position_us
        self.serial = head.serial
        self.commits: Final = head.commits
        self.generation = generation
        self.used = False

    def next_position(self, time_us: int) -> int:
        return max(self.position_us + 1, time_us, self.generation.start_us)


class Shards:
    """The shards of a vnode while a record is decided."""

    def __init__(self, scope: Scope, zones: Zones | None) -> None:
        self._scope: Final = scope
        self._zones = zones
        self._open: Final[dict[str, _OpenShard]] = {}

    def takes_messages(self) -> bool:
        return self._zones is not None

    def publish(self, index: int, message: Message, session_id: str, *, is_will: bool = False) -> None:
        """Give a message of a session its place, and make it the retained one of its topic if it asks for that.

        Requires: the vnode takes messages.
        """
        zones = self._zones
        assert zones is not None
        scope = self._scope
        zone = zones.of(message.topic)
        # Messages of one session share its id, in memory too: columns of publishers are told apart by identity first.
        publisher = ClientId(session_id) if message.publisher == session_id else message.publisher
        message = _at_record_time(message, publisher, scope.time_us)
        serial = 0
        position_us = scope.time_us
        if zone is not UNSTORED:
            shard = self._shard(zone)
            position_us = shard.next_position(scope.time_us)
            if message.qos or zone.store_qos0:
                shard.used = True
                shard.position_us = position_us
                shard.serial += 1
                serial = shard.serial
                message.shard, message.position_us = shard.id, position_us
        version = 0
        if message.retain and zone is not UNSTORED:
            version = max(position_us, scope.record.seen_version + 1, scope.version + 1)
            scope.version = version
            self._retain(message, serial, self._shard(zone).id, version)
        scope.outcome.published.append(PublishedMessage(index, message, serial, version, is_will=is_will))

    def _retain(self, message: Message, serial: int, shard: int, version: int) -> None:
        topic = message.topic
        tables = self._scope.tables
        self._forget_expiry(topic)
        record = RetainedRecord(StoredMessage(message, message.position_us, serial), shard, version)
        tables.put(RETAINED, retained_key(topic), encode_retained(record))
        if message.expires_us:
            tables.put(RETAINED, expiry_key(message.expires_us, topic), b"")

    def _forget_expiry(self, topic: bytes) -> None:
        """Take the entry of a topic, which is about to go, out of the list of those that expire."""
        tables = self._scope.tables
        value = tables.get(RETAINED, retained_key(topic))
        expires_us = 0 if value is None else decode_retained(value).stored.message.expires_us
        if expires_us:
            tables.delete(RETAINED, expiry_key(expires_us, topic))

    def horizon(self, item: Horizon) -> bool:
        """Take exactly this version out. Requires: the leader asks."""
        if not is_topic(item.topic):
            return False
        tables = self._scope.tables
        value = tables.get(RETAINED, retained_key(item.topic))
        if value is None or decode_retained(value).stored_us != item.version:
            return False
        self._forget_expiry(item.topic)
        tables.delete(RETAINED, retained_key(item.topic))
        return True

    # ---- generations

    def change_zones(self, settings: VnodeSettings, zones: Zones) -> None:
        """Other zones from here on. Requires: `may_have` them."""
        self.flush()
        self._open.clear()
        self._zones = zones
        for zone in settings.zones:
            if self._last_generation(zone.name) is None:
                shards = (zone.shard,)
                first = Generation(zone.name, 1, zone.layout, zone.parameters, 0, shards, self._scope.time_us)
                self._put_generation(first)
                self._scope.outcome.begun.append(first)

    def may_have(self, settings: VnodeSettings) -> bool:
        """Whether every zone keeps the shard that it ever had, and none takes that of another one."""
        owners: dict[int, str] = {}
        for key, value in self._scope.tables.scan(META, *all_of(GENERATION), 0):
            generation = decode_generation(key, value)
            owners[generation.shards[0]] = generation.zone
        names = set(owners.values())
        return all(
            owners.get(zone.shard) == zone.name if zone.name in names else zone.shard not in owners
            for zone in settings.zones
        )

    def border(self, item: Border) -> bool:
        """Rule 11. Requires: the leader asks."""
        shard = self._named(item.zone)
        if shard is None or item.number != shard.generation.number + 1:
            return False
        before = shard.generation
        start_us = max(shard.next_position(self._scope.time_us), item.not_before_us)
        self._put_generation(before.sealed(start_us, (shard.serial,)))
        now_us, shards = self._scope.time_us, before.shards
        shard.generation = Generation(
            item.zone, item.number, item.layout, item.parameters, start_us, shards, now_us, inherits=before.number
        )
        self._put_generation(shard.generation)
        self._scope.outcome.begun.append(shard.generation)
        return True

    def drop(self, item: DropGeneration) -> bool:
        """A sealed generation goes. Requires: the leader asks."""
        shard = self._named(item.zone)
        if shard is None or item.number >= shard.generation.number:
            return False
        key = generation_key(item.zone, item.number)
        value = self._scope.tables.get(META, key)
        if value is None:
            return False
        self._scope.tables.delete(META, key)
        self._scope.outcome.dropped.append(decode_generation(key, value))
        return True

    def flush(self) -> None:
        """Write the ends of the shards that got messages."""
        for shard in self._open.values():
            if shard.used:
                head = ShardHead(shard.position_us, shard.serial, shard.commits + 1)
                self._scope.tables.put(META, head_key(shard.id), encode_head(head))

    def _put_generation(self, generation: Generation) -> None:
        key = generation_key(generation.zone, generation.number)
        self._scope.tables.put(META, key, encode_generation(generation))

    def _named(self, name: str) -> _OpenShard | None:
        """The shard of a zone that has generations, whether the settings still name it or not."""
        if not name or "\0" in name:
            return None
        return self._open.get(name) or self._load(name)

    def _shard(self, zone: Zone) -> _OpenShard:
        shard = self._open.get(zone.name) or self._load(zone.name)
        assert shard is not None, "every zone of the settings has a generation"
        return shard

    def _load(self, name: str) -> _OpenShard | None:
        generation = self._last_generation(name)
        if generation is None:
            return None
        number = generation.shards[0]
        value = self._scope.tables.get(META, head_key(number))
        head = ShardHead(0, 0, 0) if value is None else decode_head(value)
        shard = self._open[name] = _OpenShard(number, head, generation)
        return shard

    def _last_generation(self, zone: str) -> Generation | None:
        rows = self._scope.tables.scan(META, *generations_of(zone), 0)
        return decode_generation(*rows[-1]) if rows else None


def is_topic(topic: bytes) -> bool:
    """Whether it can be the topic of a stored message."""
    return bool(topic) and 0 not in topic


def _at_record_time(message: Message, publisher: ClientId, time_us: int) -> Message:
    """The same message, as it came at record time."""
    expires_us = time_us + max(expiry_seconds(message) * SECOND_US, 1) if message.expires_us else 0
    return Message(
        message.topic,
        message.payload,
        message.qos,
        publisher,
        time_us,
        retain=message.retain,
        properties=message.properties,
        expires_us=expires_us,
    )
