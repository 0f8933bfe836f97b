"""A shard as a sequence of chunks, for another log (`durable/replication.py`).

What is copied is decided at the beginning: the durable head, the generations, and what the open one has learnt. Then it
is read chunk by chunk; messages that are written meanwhile are above the head.
"""

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.replication import Chunk
from holdfast.model.errors import PermanentError
from holdfast.records.generations import Generation
from holdfast.records.messages import stored_position, stored_serial
from holdfast.records.positions import AppliedMark
from holdfast.storage.rocks.failures import StalledError
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE
from holdfast.storage.rocks.layouts.scan import scan_items
from holdfast.storage.rocks.layouts.streams import keep_structure
from holdfast.storage.rocks.log import RocksLog
from holdfast.storage.rocks.zone_generations import LiveGeneration, Slice
from holdfast.storage.rocks.zone_log import ZoneLog

#: A chunk ends with the message that goes beyond this.
CHUNK_BYTES: Final = 1 << 20

Structure = list[tuple[bytes, bytes]]


class Snapshot:
    """One walk over a shard. An iterator of chunks."""

    def __init__(
        self,
        log: RocksLog,
        zone_log: ZoneLog,
        shard: int,
        after_us: int,
        mark: Callable[[], AppliedMark],
        chunk_bytes: int,
    ) -> None:
        """`mark` tells the last entry up to the durable head."""
        self._log: Final = log
        self._zone_log: Final = zone_log
        self._shard: Final = shard
        self._chunk_bytes: Final = chunk_bytes
        self._from_us = after_us + 1
        #: Of the last message read; 0 before the first.
        self._serial = 0
        self._settle()
        state = zone_log.shards[shard]
        self._head_us: Final = state.head_us
        self._head_serial: Final = state.head_serial
        self._mark: Final = mark()
        self._dropped: Final = [record for record in zone_log.dropped if shard in record.shards]
        self._generations: Final[list[tuple[Generation, Structure | None]]] = [
            (generation.record, self._structure_now(generation))
            for generation in zone_log.live
            if shard in generation.slices
        ]

    def _settle(self) -> None:
        """Make durable what is known of generations and structures, so that it may leave."""
        log = self._log
        changes = Changes()
        for generation in self._zone_log.live[-1:]:
            piece = generation.slices.get(self._shard)
            if piece is not None:
                keep_structure(piece.layout, changes.into(piece.family))
        log.write_own(changes)
        if not log.idle():
            raise StalledError(f"no snapshot while writing waits: {log.obstacle}; try again")
        if log.engine.synced < log.engine.written:
            log.engine.sync_now()

    def _structure_now(self, generation: LiveGeneration) -> Structure | None:
        """Of an open generation; a sealed one learns no more and is read when its turn comes."""
        return None if generation.record.end_us else self._read_structure(generation.slices[self._shard])

    def _read_structure(self, piece: Slice) -> Structure:
        records = scan_items(self._log.engine.family(piece.family), STRUCTURE, MESSAGES)
        return [(key[len(STRUCTURE) :], value) for key, value in records]

    # ---- chunks

    def __iter__(self) -> Iterator[Chunk]:
        live = [record for record, _structure in self._generations]
        yield Chunk(self._shard, None, done_us=min(self._from_us - 1, self._head_us), serial=0, live=live)
        for record, structure in self._generations:
            if not record.end_us or record.end_us >= self._from_us:
                yield from self._generation(record, structure)
        yield Chunk(
            self._shard,
            None,
            done_us=self._head_us,
            serial=self._head_serial,
            dropped=self._dropped,
            mark=self._mark,
        )

    def _generation(self, record: Generation, structure: Structure | None) -> Iterator[Chunk]:
        """At least one chunk: a generation without messages has a border too."""
        beyond_us = self._head_us + 1
        self._from_us = max(self._from_us, min(record.start_us, beyond_us))
        before_us = min(record.end_us or beyond_us, beyond_us)
        first = True
        while first or self._from_us < before_us:
            piece = self._piece(record.number)
            values = self._read(piece, before_us)
            if not first and not values:
                break
            learnt = [] if not first else self._read_structure(piece) if structure is None else structure
            first = False
            done_us = self._from_us - 1
            yield Chunk(self._shard, record, done_us=done_us, serial=self._serial, structure=learnt, values=values)

    def _piece(self, number: int) -> Slice:
        for generation in self._zone_log.live:
            if generation.record.number == number:
                return generation.slices[self._shard]
        raise PermanentError(
            f"generation {number} of zone {self._zone_log.zone.name!r} was dropped while shard {self._shard} was "
            "copied; begin a new snapshot, into an empty store"
        )

    def _read(self, piece: Slice, before_us: int) -> list[bytes]:
        """The values of one chunk. Requires: nothing is left open when it returns."""
        values: list[bytes] = []
        size_bytes = 0
        found = piece.layout.read(self._log.engine.family(piece.family), (), self._from_us, before_us)
        for value in found:
            if not value:
                continue
            serial = stored_serial(value)
            if self._serial and serial != self._serial + 1:
                raise PermanentError(
                    f"shard {self._shard} has serial {serial} behind {self._serial}: messages between them are "
                    f"missing in {piece.family}; run: holdfast verify"
                )
            self._serial = serial
            self._from_us = stored_position(value) + 1
            values.append(value)
            size_bytes += len(value)
            if size_bytes >= self._chunk_bytes:
                return values
        self._from_us = max(self._from_us, before_us)
        return values
