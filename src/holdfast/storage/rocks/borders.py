"""The generations of a zone that follows another log: borders come from outside, and each shard passes them alone."""

from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.shard import Shard
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.records.generations import Generation, encode_generation
from holdfast.records.meta import generation_key
from holdfast.storage.rocks.contents import META
from holdfast.storage.rocks.engine import Engine
from holdfast.storage.rocks.layouts.layout import STRUCTURE
from holdfast.storage.rocks.layouts.streams import keep_structure
from holdfast.storage.rocks.zone_generations import LiveGeneration, Slice
from holdfast.storage.rocks.zone_log import Finishing, ZoneLog


class Borders:
    """Which slice each shard of a zone writes to.

    1. A shard's slice is the first whose generation is open, or has more messages of the shard than the shard has.
    2. A slice that is written to is not among those that are being finished.
    """

    def __init__(self, engine: Engine, zone_log: ZoneLog, *, follows: bool) -> None:
        """`follows` tells that a shard of the zone has an applied mark already."""
        self._engine: Final = engine
        self._zone_log: Final = zone_log
        self._writing: Final[dict[int, LiveGeneration]] = {}
        #: Whether nothing was copied yet. The generations that are here are of no use then.
        self._fresh = not follows
        for shard in zone_log.shards.values():
            self._find_writing(shard)

    def _find_writing(self, shard: Shard) -> None:
        for generation in self._zone_log.live:
            if shard.id in generation.slices and not _has_all(generation.record, shard):
                self._writing[shard.id] = generation
                if generation.record.end_us:
                    # Open for this shard, though sealed: whoever opened the log could not know.
                    piece = generation.slices[shard.id]
                    finishing = self._zone_log.finishing
                    finishing[:] = [entry for entry in finishing if entry.piece is not piece]
                    generation.forget_writing(piece)
                    piece.layout.load(self._engine.family(piece.family))
                return

    # ---- records

    def check(self, records: list[Generation]) -> None:
        """PermanentError if a record does not fit to what is here."""
        zone_log = self._zone_log
        for record in records:
            if record.zone != zone_log.zone.name or not set(record.shards) <= set(zone_log.shards):
                raise PermanentError(
                    f"generation {record.number} of zone {record.zone!r} has shards {record.shards}, and here zone "
                    f"{zone_log.zone.name!r} has {tuple(zone_log.shards)}; both logs need the same zones"
                )
            known = self._live(record.number)
            if known is not None and not self._is_fresh() and not _same(known.record, record):
                raise PermanentError(
                    f"generation {record.number} of zone {record.zone!r} is another one here: it begins at "
                    f"{known.record.start_us} with layout {known.record.layout}, not at {record.start_us} with "
                    f"{record.layout}; install a snapshot into an empty store"
                )

    def take(self, record: Generation, changes: Changes) -> None:
        """A generation as the other log has it: new, or sealed by now. Requires: it was checked."""
        if self._is_fresh():
            self._clear(changes)
        self._fresh = False
        known = self._live(record.number)
        if known is None:
            if any(record.number <= gone.number for gone in self._zone_log.dropped):
                return
            self._make(record)
        elif record.end_us and not known.record.end_us:
            known.record = record
        else:
            return
        changes.into(META).put(generation_key(record.zone, record.number), encode_generation(record))

    def take_dropped(self, record: Generation, changes: Changes) -> None:
        """A generation that the other log has dropped. If it is here, it stays until its time comes."""
        dropped = self._zone_log.dropped
        if self._live(record.number) is None and record.number not in [gone.number for gone in dropped]:
            dropped.append(record)
            dropped.sort(key=_number)
            changes.into(META).put(generation_key(record.zone, record.number), encode_generation(record))

    def _make(self, record: Generation) -> None:
        generation = LiveGeneration(record)
        there = self._engine.families()
        for piece in generation.slices.values():
            if piece.family not in there:
                self._engine.create_family(piece.family)
        self._zone_log.live.append(generation)
        self._zone_log.live.sort(key=lambda live: live.record.number)

    def _is_fresh(self) -> bool:
        return self._fresh and not any(shard.serial for shard in self._zone_log.shards.values())

    def _clear(self, changes: Changes) -> None:
        """Take away the generations that the log began with when it was opened on nothing."""
        zone_log = self._zone_log
        for generation in zone_log.live:
            changes.into(META).delete(generation_key(zone_log.zone.name, generation.record.number))
            for piece in generation.slices.values():
                self._engine.drop_family(piece.family)
        zone_log.live.clear()
        zone_log.finishing.clear()
        self._writing.clear()

    def _live(self, number: int) -> LiveGeneration | None:
        for generation in self._zone_log.live:
            if generation.record.number == number:
                return generation
        return None

    # ---- shards

    def check_places(self, shard: int, places: list[tuple[int, int]], records: list[Generation]) -> None:
        """MisuseError if a message is on the wrong side of a border; `records` are those that come with it."""
        writing = self._writing.get(shard)
        after = 0 if writing is None or self._is_fresh() else writing.record.number
        known = {} if self._is_fresh() else {live.record.number: live.record for live in self._zone_log.live}
        known.update({record.number: record for record in records})
        own = [known[number] for number in sorted(known) if number >= after and shard in known[number].shards]
        for position_us, serial in places:
            before = [record for record in own if record.end_us and serial > _last_serial(record, shard)]
            rest = own[len(before) :]
            if not rest or own[: len(before)] != before or not _holds(rest[0], position_us):
                raise MisuseError(
                    f"message {serial} of shard {shard}, at {position_us}, is in no generation that has room for it; "
                    "a border has to be given before the first message behind it"
                )

    def enter(self, shard: Shard, number: int, changes: Changes, structure: list[tuple[bytes, bytes]]) -> None:
        """A snapshot goes on with this generation, which had learnt `structure`."""
        generation = self._live(number)
        assert generation is not None
        writing = self._writing.get(shard.id)
        if writing is None and shard.serial and _has_all(generation.record, shard):
            return
        if writing is not None and writing is not generation:
            if writing.record.number > number:
                return
            self._leave(shard, writing)
        self._writing[shard.id] = generation
        piece = generation.slices[shard.id]
        topics = piece.layout.learned()
        if topics is not None:
            puts = changes.into(piece.family)
            new = [(key, value) for key, value in structure if key >= topics.next_key()]
            topics.load(new)
            for key, value in new:
                puts.put(STRUCTURE + key, value)

    def piece_at(self, shard: Shard, position_us: int, changes: Changes) -> Slice:
        """The slice for the shard's next message."""
        writing = self._writing.get(shard.id)
        if writing is None or not _holds(writing.record, position_us):
            self.move_on(shard, changes)
            writing = self._writing.get(shard.id)
        if writing is None or not _holds(writing.record, position_us):
            raise MisuseError(f"position {position_us} of shard {shard.id} is in no generation that it writes to")
        return writing.slices[shard.id]

    def move_on(self, shard: Shard, changes: Changes) -> None:
        """Leave slices that have all they will get, for those that follow."""
        while True:
            writing = self._writing.get(shard.id)
            if writing is not None and not _has_all(writing.record, shard):
                return
            after = 0 if writing is None else writing.record.number
            following = [
                generation
                for generation in self._zone_log.live
                if generation.record.number > after
                and shard.id in generation.slices
                and (writing is not None or not _has_all(generation.record, shard))
            ]
            if not following:
                return
            self._inherit(shard, writing, following[0], changes)
            if writing is not None:
                self._leave(shard, writing)
            self._writing[shard.id] = following[0]

    def _inherit(self, shard: Shard, old: LiveGeneration | None, new: LiveGeneration, changes: Changes) -> None:
        piece = new.slices[shard.id]
        topics = piece.layout.learned()
        if old is None or topics is None or topics.stream_count or new.record.inherits != old.record.number:
            return
        learnt = old.slices[shard.id].layout.learned()
        if learnt is not None:
            topics.adopt(learnt.inherit())
            # At once: in memory alone it would not survive until the shard's next message.
            keep_structure(piece.layout, changes.into(piece.family))

    def _leave(self, shard: Shard, generation: LiveGeneration) -> None:
        piece = generation.slices[shard.id]
        piece.layout.finish()
        self._zone_log.finishing.append(Finishing(generation, piece, loaded=True))


def _has_all(record: Generation, shard: Shard) -> bool:
    """Whether the shard has every message that it had in a sealed generation."""
    return bool(record.end_us) and shard.serial >= _last_serial(record, shard.id)


def _last_serial(record: Generation, shard: int) -> int:
    return record.last_serials[record.shards.index(shard)]


def _holds(record: Generation, position_us: int) -> bool:
    return record.start_us <= position_us and (not record.end_us or position_us < record.end_us)


def _same(one: Generation, other: Generation) -> bool:
    return (one.start_us, one.layout, one.parameters, one.shards) == (
        other.start_us,
        other.layout,
        other.parameters,
        other.shards,
    )


def _number(record: Generation) -> int:
    return record.number
