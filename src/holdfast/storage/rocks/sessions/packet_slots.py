"""Where the QoS 2 records of one session lie: in numbered slots, whose keys are used again and again.

Packet ids and positions only move forward. Keys made of them would leave a tombstone for every message, and the scan
that loads a session at CONNECT would visit them all. A slot is given to a record for as long as it is stored, lowest
number first, so that a session has as many keys as it ever had records at once.

    in flight     PUBLISH of QoS 2 was sent, or is about to be
    released      PUBREC came for it
    incoming      a packet id that the client has used and not released
    done          a message that is finished, above the progress

Records of earlier versions have keys made of packet ids and positions. They are known here by those keys, until they
are deleted.
"""

from heapq import heappop, heappush
from typing import Final

from holdfast.durable.changes import FamilyChanges
from holdfast.records.session.session_keys import (
    DONE,
    INCOMING,
    INFLIGHT,
    RELEASED,
    SLOT,
    client_prefix,
    slot_key,
    slot_number,
)
from holdfast.records.session.sessions import InflightRecord, SlotRecord, encode_slot


class PacketSlots:
    """The keys of one session's QoS 2 records. It knows every one that is stored.

    1. No key is in two places, and no free slot is in any.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id: Final = client_id
        self._kind_at: Final = len(client_prefix(client_id))
        self._inflight: Final[dict[int, bytes]] = {}
        self._released: Final[dict[int, bytes]] = {}
        self._incoming: Final[dict[int, bytes]] = {}
        #: For each shard a heap of (position, key).
        self._done: Final[dict[int, list[tuple[int, bytes]]]] = {}
        self._free: Final[list[int]] = []
        self._used = 0

    def found(self, key: bytes, slot: SlotRecord) -> None:
        """Learn of a stored record. Requires: they come in the order of their keys, before any step."""
        if self._is_slot(key):
            number = slot_number(key)
            self._free.extend(range(self._used, number))  # ascending, so that it stays a heap
            self._used = number + 1
        if slot.kind == INFLIGHT:
            self._inflight[slot.packet_id] = key
        elif slot.kind == RELEASED:
            self._released[slot.packet_id] = key
        elif slot.kind == INCOMING:
            self._incoming[slot.packet_id] = key
        else:
            shard, position_us = slot.place
            heappush(self._done.setdefault(shard, []), (position_us, key))

    def used(self) -> bool:
        """Whether anything is stored."""
        return bool(self._inflight or self._released or self._incoming or self._done)

    # ---- steps

    def send(self, packet_id: int, record: InflightRecord, puts: FamilyChanges) -> None:
        key = self._inflight.get(packet_id)
        if key is None or not self._is_slot(key):
            if key is not None:
                puts.delete(key)
            key = self._inflight[packet_id] = self._take()
        puts.put(key, encode_slot(SlotRecord(INFLIGHT, packet_id, inflight=record)))

    def release(self, packet_id: int, puts: FamilyChanges) -> None:
        self._note(self._released, RELEASED, packet_id, puts)

    def finish(self, packet_id: int, shard: int, position_us: int, puts: FamilyChanges) -> None:
        """The message is done. Its slot takes the done marker, if it has a place in the log."""
        self._forget(self._released, packet_id, puts)
        key = self._inflight.pop(packet_id, None)
        if key is not None and (not position_us or not self._is_slot(key)):
            self._delete(key, puts)
            key = None
        if position_us:
            if key is None:
                key = self._take()
            heappush(self._done.setdefault(shard, []), (position_us, key))
            puts.put(key, encode_slot(SlotRecord(DONE, place=(shard, position_us))))

    def receive(self, packet_id: int, puts: FamilyChanges) -> None:
        self._note(self._incoming, INCOMING, packet_id, puts)

    def received(self, packet_id: int, puts: FamilyChanges) -> None:
        self._forget(self._incoming, packet_id, puts)

    def advance(self, sent: dict[int, int], puts: FamilyChanges) -> None:
        """Delete the done markers that the progress has passed."""
        for shard in [shard for shard in self._done if shard in sent]:
            done = self._done[shard]
            while done and done[0][0] <= sent[shard]:
                self._delete(heappop(done)[1], puts)
            if not done:
                del self._done[shard]

    # ---- slots

    def _note(self, keys: dict[int, bytes], kind: int, packet_id: int, puts: FamilyChanges) -> None:
        if packet_id not in keys:
            key = keys[packet_id] = self._take()
            puts.put(key, encode_slot(SlotRecord(kind, packet_id)))

    def _forget(self, keys: dict[int, bytes], packet_id: int, puts: FamilyChanges) -> None:
        key = keys.pop(packet_id, None)
        if key is not None:
            self._delete(key, puts)

    def _take(self) -> bytes:
        if self._free:
            number = heappop(self._free)
        else:
            number = self._used
            self._used += 1
        return slot_key(self._client_id, number)

    def _delete(self, key: bytes, puts: FamilyChanges) -> None:
        puts.delete(key)
        if self._is_slot(key):
            heappush(self._free, slot_number(key))

    def _is_slot(self, key: bytes) -> bool:
        return key[self._kind_at] == SLOT

    def check_invariants(self) -> None:
        keys = [*self._inflight.values(), *self._released.values(), *self._incoming.values()]
        keys += [key for done in self._done.values() for _position_us, key in done]
        keys += [slot_key(self._client_id, number) for number in self._free]
        assert len(keys) == len(set(keys))
