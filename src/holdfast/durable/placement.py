"""Messages of a batch get their places: positions and serials in their shard, and keys in its layout."""

from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.durable.shard import Shard
from holdfast.durable.tails import MessageSink
from holdfast.durable.zones import FSYNC, Zone, Zones
from holdfast.model.message import Message


class Slot:
    """Where the messages of one shard go within one batch."""

    def __init__(self, shard: Shard, sink: MessageSink, puts: FamilyChanges) -> None:
        self.shard: Final = shard
        self.sink: Final = sink
        self.puts: Final = puts
        self.messages: Final[list[Message]] = []


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
        zone = zones.of(message.topic)
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
        slot.messages.append(message)
    for writer in writers.values():
        for slot in writer.slots.values():
            if slot.messages:
                _place_commit(slot, now_us)
    return strict


def _place_commit(slot: Slot, now_us: int) -> None:
    """The messages of one shard: their positions follow each other, as their serials do."""
    shard, messages = slot.shard, slot.messages
    position_us = shard.clock.next_many(now_us, len(messages))
    for message in messages:
        message.shard = shard.id
        message.position_us = position_us
        position_us += 1
    slot.sink.put_commit(messages, shard.serial + 1, slot.puts)
    shard.serial += len(messages)
    shard.ring.append(messages)
