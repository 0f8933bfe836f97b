"""The log as the copy of another, and as the one that is copied. A `ReplicatedLog` by shape.

    generation    4 [………)         5 [……
    shard 0       ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒           has passed the border
    shard 1       ▒▒▒▒▒                           writes to generation 4 still, though 5 is there

1. A shard writes to one slice at a time, and moves on when it has all that the record of a sealed generation says it
   had. Then, and not before, the next slice inherits what this one has learnt, and its last index entries are due.
2. What is given is checked before anything changes: an error leaves the log as it was.
3. Borders come from outside. A zone that follows does not rotate by itself (`Maintenance` must not be asked to).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.replication import Chunk, Handover
from holdfast.durable.shard import Shard
from holdfast.durable.zones import FSYNC
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.message import Message
from holdfast.records.messages import decode_message, encode_message
from holdfast.records.meta import applied_key
from holdfast.records.positions import AppliedMark, decode_applied, encode_applied
from holdfast.storage.rocks.borders import Borders
from holdfast.storage.rocks.contents import META
from holdfast.storage.rocks.log import RocksLog
from holdfast.storage.rocks.snapshot import CHUNK_BYTES, Snapshot
from holdfast.storage.rocks.zone_log import ZoneLog


class _Applied:
    """The marks of one shard: the durable one, and those on their way (with the engine's number)."""

    def __init__(self, durable: AppliedMark | None) -> None:
        self.durable = durable
        self.written = durable
        self.pending: Final[deque[tuple[int, AppliedMark]]] = deque()


class RocksReplication:
    """See the module. Belongs to the loop, as the log does."""

    def __init__(self, log: RocksLog, name: str, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """`name` stands in the marks of whoever copies this log, unless it follows another one itself."""
        self._log: Final = log
        self._name: Final = name
        self._chunk_bytes: Final = chunk_bytes
        self._applied: Final[dict[int, _Applied]] = {}
        self._borders: Final[dict[str, Borders]] = {}

    # ---- where the shards are

    def head(self, shard: int) -> tuple[int, int]:
        _zone_log, state = self._find(shard)
        return state.head_us, state.head_serial

    def applied(self, shard: int) -> AppliedMark | None:
        marks = self._marks(shard)
        while marks.pending and marks.pending[0][0] <= self._log.settled_mark:
            marks.durable = marks.pending.popleft()[1]
        return marks.durable

    def _marks(self, shard: int) -> _Applied:
        marks = self._applied.get(shard)
        if marks is None:
            self._find(shard)
            value = self._log.engine.family(META).get(applied_key(shard))
            marks = self._applied[shard] = _Applied(None if value is None else decode_applied(value))
        return marks

    def _find(self, shard: int) -> tuple[ZoneLog, Shard]:
        for zone_log in self._log.zone_logs.values():
            state = zone_log.shards.get(shard)
            if state is not None:
                return zone_log, state
        raise MisuseError(f"no zone has shard {shard}; both logs need the same zones, with as many shards")

    def _borders_of(self, zone_log: ZoneLog) -> Borders:
        name = zone_log.zone.name
        borders = self._borders.get(name)
        if borders is None:
            borders = self._borders[name] = Borders(
                self._log.engine, zone_log, follows=any(self._marks(shard).written for shard in zone_log.shards)
            )
        return borders

    # ---- out

    def snapshot(self, shard: int, after_us: int = 0) -> Iterator[Chunk]:
        zone_log, state = self._find(shard)

        def mark() -> AppliedMark:
            return self.applied(shard) or AppliedMark(state.head_serial, self._name)

        return iter(Snapshot(self._log, zone_log, shard, after_us, mark, self._chunk_bytes))

    # ---- in

    def append(self, batch: Batch, handover: Handover) -> Receipt | None:
        zone_log, shard = self._find(handover.shard)
        changes = Changes()
        if self._is_known(handover.shard, handover.mark):
            self._take_borders(zone_log, shard, handover, changes)
            return self._log.write_given(batch.number, changes, [], strict=len(changes) > 0)
        places = handover.places
        if len(places) != len(batch.messages):
            raise MisuseError(f"an entry has {len(batch.messages)} messages and {len(places)} places")
        _check_places(shard, places, goes_on=True)
        borders = self._borders_of(zone_log)
        borders.check_places(shard.id, places, handover.generations)
        self._take_borders(zone_log, shard, handover, changes)
        for i, message in enumerate(batch.messages):
            position_us, serial = places[i]
            self._put(borders, shard, message, position_us, serial, changes)
        borders.move_on(shard, changes)
        self._log.add_companions(batch, changes)
        changes.into(META).put(applied_key(shard.id), encode_applied(handover.mark))
        strict = zone_log.zone.durability == FSYNC or bool(batch.steps or batch.retained)
        receipt = self._log.write_given(batch.number, changes, [shard] if places else [], strict=strict)
        self._note(handover.shard, handover.mark)
        return receipt

    def _take_borders(self, zone_log: ZoneLog, shard: Shard, handover: Handover, changes: Changes) -> None:
        if handover.generations:
            borders = self._borders_of(zone_log)
            borders.check(handover.generations)
            for record in handover.generations:
                borders.take(record, changes)
            borders.move_on(shard, changes)

    def install(self, shard: int, chunks: Iterable[Chunk]) -> None:
        _zone_log, state = self._find(shard)
        if self._marks(shard).written is not None:
            raise MisuseError(f"shard {shard} follows another log already; a snapshot is for an empty shard")
        for chunk in chunks:
            if chunk.shard != shard:
                raise MisuseError(f"a chunk of shard {chunk.shard} was given for shard {shard}")
            if self._log.obstacle is not None:
                raise self._log.obstacle
            self._install(state, chunk)

    def _install(self, shard: Shard, chunk: Chunk) -> None:
        zone_log, _shard = self._find(shard.id)
        changes = Changes()
        borders = self._borders_of(zone_log)
        before = shard.serial
        borders.check(chunk.live)
        for record in chunk.live:
            borders.take(record, changes)
        if chunk.generation is not None:
            borders.check([chunk.generation])
            stored = [decode_message(value) for value in chunk.values]
            stored = [entry for entry in stored if entry.serial > shard.serial]
            places = [(entry.position_us, entry.serial) for entry in stored]
            _check_places(shard, places, goes_on=shard.serial > 0)
            borders.take(chunk.generation, changes)
            borders.enter(shard, chunk.generation.number, changes, chunk.structure)
            for entry in stored:
                self._put(borders, shard, entry.message, entry.position_us, entry.serial, changes)
        for gone in chunk.dropped:
            borders.take_dropped(gone, changes)
        if chunk.mark is not None:
            if shard.serial > chunk.serial or (before and shard.serial < chunk.serial):
                raise PermanentError(
                    f"shard {shard.id} has {shard.serial} messages and the snapshot {chunk.serial}: it is of another "
                    "log, or a part of it is missing; install it into an empty store"
                )
            shard.serial = chunk.serial
            if chunk.done_us > shard.clock.last_us:
                shard.clock.take(chunk.done_us)
            borders.move_on(shard, changes)
            changes.into(META).put(applied_key(shard.id), encode_applied(chunk.mark))
        moved = shard.serial != before
        self._log.write_given(0, changes, [shard] if moved else [], strict=True)
        if chunk.mark is not None:
            self._note(shard.id, chunk.mark)

    def _put(
        self, borders: Borders, shard: Shard, message: Message, position_us: int, serial: int, changes: Changes
    ) -> None:
        piece = borders.piece_at(shard, position_us, changes)
        shard.clock.take(position_us)
        shard.serial = serial
        message.shard = shard.id
        message.position_us = position_us
        value = encode_message(message, position_us, serial)
        piece.layout.put(message.topic, position_us, value, changes.into(piece.family))
        shard.ring.append(message)

    def _is_known(self, shard: int, mark: AppliedMark) -> bool:
        """Whether an entry is in the shard already."""
        known = self._marks(shard).written
        if known is None:
            return False
        if known.source != mark.source:
            raise MisuseError(f"shard {shard} follows {known.source!r}, and an entry of {mark.source!r} was given")
        return mark.sequence <= known.sequence

    def _note(self, shard: int, mark: AppliedMark) -> None:
        marks = self._marks(shard)
        marks.written = mark
        marks.pending.append((self._log.mark, mark))


def _check_places(shard: Shard, places: list[tuple[int, int]], *, goes_on: bool) -> None:
    """MisuseError unless the places follow each other and, if it `goes_on`, the shard's end."""
    last_us, last = shard.clock.last_us, shard.serial
    for position_us, serial in places:
        if position_us <= last_us:
            raise MisuseError(f"position {position_us} was given, and shard {shard.id} is at {last_us} already")
        if goes_on and serial != last + 1:
            raise PermanentError(
                f"shard {shard.id} ends with serial {last}, and {serial} was given: messages between them are missing; "
                f"ask for a snapshot after position {last_us}"
            )
        last_us, last, goes_on = position_us, serial, True
