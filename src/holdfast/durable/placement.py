"""Messages of a batch get their places: a position and a serial in their shard, and a key in its layout."""

from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.shard import Shard
from holdfast.durable.tails import MessageSink
from holdfast.durable.zones import FSYNC, Zone, Zones
from holdfast.model.message import Message
from holdfast.records.messages import encode_message


class Slot:
    """Where the messages of one shard go within one batch."""

    def __init__(self, shard: Shard, sink: MessageSink, puts: FamilyChanges) -> None:
        self.shard: Final = shard
        self.sink: Final = sink
        self.puts: Final = puts
        self.used = False


class ZoneWriter:
    """A zone within one batch."""

    def __init__(self, zone: Zone, slots: dict[int, Slot]) -> None:
        self.zone: Final = zone
        self.slots: Final = slots
        #: The one shard that most zones have.
        self.only: Final[Slot | None] = next(iter(slots.values())) if len(slots) == 1 else None
        self.strict: Final = zone.durability == FSYNC
        self.stores_qos0: Final = zone.store and zone.store_qos0


def place(messages: list[Message], zones: Zones, writers: dict[str, ZoneWriter], now_us: int) -> bool:
    """Put messages into their shards; whether one of them is in a zone that has to be synced.

    Requires: a writer for every zone that stores anything.
    """
    strict = False
    for message in messages:
        topic = message.topic
        zone = zones.of(topic)
        writer = writers.get(zone.name)
        if writer is None:
            continue
        if message.qos:
            if writer.strict:  # QoS 0 is not acknowledged
                strict = True
        elif not writer.stores_qos0:
            continue
        slot = writer.only
        if slot is None:
            slot = writer.slots[zones.shard_of(zone, message.publisher)]
        shard = slot.shard
        slot.used = True
        position_us = shard.clock.next(now_us)
        shard.serial += 1
        message.shard = shard.id
        message.position_us = position_us
        slot.sink.put(topic, position_us, encode_message(message, position_us, shard.serial), slot.puts)
        shard.ring.append(message)
    return strict
