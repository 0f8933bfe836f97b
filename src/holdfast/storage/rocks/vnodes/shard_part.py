"""A shard of a node in a cluster: the part of a zone in one vnode, as the rows of that vnode say.

    dropped        sealed           open
    [1) [2)        [3)  [4)         [5 …
    no row         a row and a column family each

1. A generation is live while it has a row. The row of one that was dropped is gone, so how much a reader lost follows
   from what is left: the serials around the gap.
2. The head is what was applied: it moves when the batch of a record is written.
3. Serials and positions come from the state machine. Nothing is decided here.
"""

from typing import Final

from holdfast.durable.ring import Ring
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.positions import ShardHead
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ZoneGenerations
from holdfast.storage.rocks.vnodes.stored_parts import missing_generations, serial_before

#: Layouts that write everything with the message. The others keep an index in memory, which nothing writes behind here.
STORED_LAYOUTS: Final = ("paged", "timeline", "bitmask")
#: Memory for the newest messages of a shard: with 16 shards as much as a node without a cluster has.
RING_BYTES: Final = 4 << 20


class ShardPart(ZoneGenerations):
    """The generations of one shard, its head, and its newest messages. A `ScannedShard` by shape."""

    def __init__(self, vnode: int, zone: str, number: int, segments: SegmentFamilies) -> None:
        super().__init__()
        self.vnode: Final = vnode
        self.zone: Final = zone
        self.id: Final = number
        self._segments: Final = segments
        self.ring = Ring(RING_BYTES, 0)
        #: The last position and serial that were applied; 0 if there is none.
        self.head_us = 0
        self.head_serial = 0

    def start_at(self, head: ShardHead) -> None:
        """Begin behind what is stored."""
        self.head_us, self.head_serial = head.position_us, head.serial
        self.ring = Ring(RING_BYTES, head.position_us)

    def readable(self, record: Generation) -> LiveGeneration:
        """A generation for writing and reading. PermanentError if this node cannot store its layout."""
        if record.layout not in STORED_LAYOUTS:
            raise PermanentError(
                f"generation {record.number} of zone {record.zone!r} has the layout {record.layout!r}; a node of a "
                f"cluster stores {', '.join(STORED_LAYOUTS)}"
            )
        return LiveGeneration(record, segments=self._segments)

    def put(self, generation: LiveGeneration) -> None:
        """A generation that is new, or the row of one that has changed."""
        record = generation.record
        for known in self.live:
            if known.record.number == record.number:
                known.record = record
                return
        self.live.append(generation)
        self.live.sort(key=lambda one: one.record.number)

    def remove(self, record: Generation) -> None:
        """A generation was dropped: what is still in memory of it goes as well."""
        self.live[:] = [one for one in self.live if one.record.number != record.number]
        if record.end_us > self.ring.evicted_us:
            self.ring = Ring(RING_BYTES, self.head_us)

    def note_gaps(self, families: ColumnFamilies) -> None:
        """Find out what is missing between live generations."""
        self.dropped[:] = missing_generations(self.live, lambda one: serial_before(one, self.head_serial, families))
