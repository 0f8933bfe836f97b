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

from holdfast.durable.log import NO_END
from holdfast.durable.ring import Ring
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.messages import decode_message
from holdfast.records.positions import ShardHead
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.zone_generations import LiveGeneration, ZoneGenerations

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
        """Find out what is missing between live generations: a record in place of those that were dropped."""
        self.dropped.clear()
        number, end_us = 0, 0
        for live in self.live:
            record = live.record
            if record.number > number + 1:
                serial = self._serial_before(live, families)
                self.dropped.append(
                    Generation(
                        self.zone,
                        record.number - 1,
                        record.layout,
                        {},
                        end_us,
                        record.shards,
                        0,
                        end_us=max(record.start_us, 1),
                        last_serials=(serial,),
                    )
                )
            number, end_us = record.number, record.end_us

    def _serial_before(self, live: LiveGeneration, families: ColumnFamilies) -> int:
        """The last serial before a generation: that of its first message tells."""
        record = live.record
        piece = live.by_shard[self.id]
        try:
            for value in piece.layout.read(families.family(piece.family), (), record.start_us, NO_END):
                if value:
                    return decode_message(value).serial - 1
        except PermanentError:
            # Whoever reads what is damaged is told. The count is an upper bound.
            pass
        return record.last_serial(self.id) if record.end_us else self.head_serial
