"""The log on RocksDB: batches in, receipts out, and everything in between that has to be committed together.

    write(batch) ─▶ places and positions ─▶ Changes ─▶ Engine.write ─▶ … sync … ─▶ receipt ─▶ durable heads

1. Batches are written in the order of their numbers. One that the engine refuses for now is kept and tried again, and
   later ones wait behind it. While the database is being opened again, nothing can be read, so they wait as they came.
2. A batch whose zones are all `os` or `memory` needs no sync for its receipt; it still waits for the receipts of
   earlier ones, so that acknowledgements keep their order.
3. No reader sees a position above its shard's ceiling: a batch that carries a new ceiling waits for its own sync.
4. A small batch may be synced on the loop, and has its receipt at once (`engine/loop_sync.py`).
5. Everything here runs on the loop, except the call of `_synced`, which only posts.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

import structlog

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch, CommitCounts, Receipt
from holdfast.durable.placement import Slot, ZoneWriter, place
from holdfast.durable.positions import TrustedTime
from holdfast.durable.shard import Shard
from holdfast.durable.zones import FSYNC, Zone, Zones
from holdfast.model.clock import Clock
from holdfast.model.errors import TransientError
from holdfast.model.time import SECOND_US
from holdfast.records.meta_keys import ceiling_key, head_key
from holdfast.records.positions import ShardHead, encode_ceiling, encode_head
from holdfast.storage.rocks.engine.column_families import META
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import DiskFullError
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.log_reader import RocksLogReader
from holdfast.storage.rocks.log.published_heads import Head, PublishedHeads
from holdfast.storage.rocks.log.zone_log import ZoneLog

_log = structlog.get_logger()

Post = Callable[[Callable[[], None]], object]


class Companion(Protocol):
    """Something that is committed together with messages: sessions, retained messages."""

    def add(self, batch: Batch, changes: Changes) -> None:
        """Put what the batch holds for it into the changes."""
        ...


class _Pending:
    """Changes on their way to their receipt."""

    def __init__(self, number: int, mark: int, changes: Changes) -> None:
        #: The batch; 0 for changes of the log itself, whose receipt is not waited for.
        self.number: Final = number
        #: The engine's number of it.
        self.mark: Final = mark
        self.changes: Final = changes
        self.shards: list[Shard] = []
        self.ceilings: Final[list[tuple[Shard, int]]] = []
        #: Whether its receipt needs a sync, and whether that is asked for when the one under way has ended.
        self.strict = False
        self.patient = False
        #: How many messages and other changes the batch had.
        self.size = 0
        #: Monotonic time at which the batch was taken.
        self.taken_us = 0


class RocksLog:
    """The commit log of a node, and the way to its readers. A `CommitLog` by shape.

    Survives: `fsync` zones a power loss, `os` and `memory` zones a crash of the broker. Of a batch all or nothing.
    """

    def __init__(
        self,
        engine: Engine,
        zones: Zones,
        zone_logs: dict[str, ZoneLog],
        clock: Clock,
        companions: list[Companion],
        segments: SegmentFamilies,
    ) -> None:
        self.engine: Final = engine
        self.zones: Final = zones
        self.zone_logs: Final = zone_logs
        #: For generations that come while the log is open.
        self.segments: Final = segments
        self.reader: Final = RocksLogReader(engine, zones, list(zone_logs.values()))
        self._clock: Final = clock
        self.time: Final = TrustedTime(clock.wall_us(), clock.monotonic_us())
        self._companions: Final = companions
        self.counts: Final = CommitCounts()
        self._heads: Final = PublishedHeads(
            engine.folder,
            {shard.id: Head(shard.head_us, shard.head_serial) for shard in self._shards()},
        )
        #: What is not about messages follows the strictest durability there is.
        self._strict_steps: Final = any(zone.durability == FSYNC for zone in zones.all)
        #: Batches whose changes depend on what is stored, taken while that cannot be read; they follow all others.
        self._unbuilt: Final[deque[Batch]] = deque()
        self._unwritten: Final[deque[_Pending]] = deque()
        self._awaiting: Final[deque[_Pending]] = deque()
        #: The engine's number of what was taken last.
        self.mark = engine.written
        self._synced_mark = engine.synced
        #: The last one that the commit thread was asked to sync: until then a sync is under way.
        self._requested_mark = engine.synced
        #: Whether the last batch with more than progress in it needs a sync.
        self._last_strict = False
        self._receipt_number = 0
        #: Why writing does not go on at the moment; None if it does.
        self.obstacle: TransientError | None = None
        #: Told when a write finds no room, and when writing goes on after that. Called inside `write`, too.
        self.on_full: Callable[[bool], None] | None = None
        self._told_full = False
        self._post: Post | None = None
        self._on_receipt: Callable[[Receipt], None] | None = None
        engine.on_synced(self._synced)
        engine.on_reopened(self.reader.revoke)

    def attach(self, post: Post, on_receipt: Callable[[Receipt], None]) -> None:
        """Late receipts go to `on_receipt`, on the loop: `post` brings a call there from any thread."""
        self._post = post
        self._on_receipt = on_receipt
        self._settle(self.engine.synced)

    # ---- writing

    def write(self, batch: Batch) -> Receipt | None:
        """Take a batch. The receipt is returned if it is there at once, else it is handed over later."""
        if self._unbuilt or not self.engine.is_open():
            self._unbuilt.append(batch)
        else:
            self._unwritten.append(self._built(batch))
        return self._advance()

    def busy(self) -> bool:
        """A sync is under way, or about to begin: what is written now is covered by the next one only."""
        return self._synced_mark < self._requested_mark and self._last_strict and self.idle()

    def write_own(self, changes: Changes) -> None:
        """Take changes of the log's own, in their order between the batches."""
        if len(changes):
            # No receipt is waited for, and what follows in the WAL is lost with it or not at all: it needs no sync.
            self._unwritten.append(self._pending(0, changes))
            self._hand_over(self._advance())

    def retry(self) -> None:
        """Try again what the engine refused."""
        if not self.idle():
            self._hand_over(self._advance())

    def idle(self) -> bool:
        """Whether everything that was taken is written."""
        return not self._unwritten and not self._unbuilt

    def waits_for(self, family: str) -> bool:
        """Whether changes of a family are still to be written, or may be."""
        return bool(self._unbuilt) or any(
            name == family for pending in self._unwritten for name, _changes in pending.changes.families()
        )

    def now_us(self) -> int:
        """The time by which positions are given out."""
        return self.time.now_us(self._clock.wall_us(), self._clock.monotonic_us())

    def _built(self, batch: Batch) -> _Pending:
        """A batch that cannot be built is lost: no later one may be written, as its receipt would cover this one."""
        try:
            return self._build(batch)
        except Exception as error:
            self.engine.fail(error)
            raise

    def _build(self, batch: Batch) -> _Pending:
        """Give every message its place."""
        changes = Changes()
        touched: dict[int, Shard] = {}
        strict = False
        now_us = batch.time_us or self.now_us()
        if batch.messages:
            strict = self._place(batch, changes, touched, now_us)
        for companion in self._companions:
            companion.add(batch, changes)
        if batch.strict or (self._strict_steps and (batch.steps or batch.retained)):
            strict = True
        pending = self._pending(batch.number, changes)
        pending.size = len(batch)
        pending.taken_us = self._clock.monotonic_us()
        self.counts.messages.add(len(batch.messages))
        pending.patient = batch.patient
        if touched:
            pending.shards = list(touched.values())
            self._close_shards(pending, now_us)
        # What changes nothing is never written, so no sync would ever cover it.
        pending.strict = (strict or bool(pending.ceilings)) and len(changes) > 0
        return pending

    def _pending(self, number: int, changes: Changes) -> _Pending:
        self.mark += 1
        return _Pending(number, self.mark, changes)

    def _place(self, batch: Batch, changes: Changes, touched: dict[int, Shard], now_us: int) -> bool:
        """Put messages into their shards; whether one of them is in a zone that has to be synced."""
        writers = {zone.name: self._writer(zone, changes) for zone in self.zones.all if zone.store}
        strict = place(batch.messages, self.zones, writers, now_us)
        for writer in writers.values():
            for number, slot in writer.slots.items():
                if slot.messages:
                    touched[number] = slot.shard
                    batch.ends[number] = slot.shard.clock.last_us
                    if slot.sink.new_topics:
                        piece = self.zone_logs[writer.zone.name].live[-1].by_shard[number]
                        piece.layout.keep_up(self.engine.family(piece.family), slot.puts)
        return strict

    def _writer(self, zone: Zone, changes: Changes) -> ZoneWriter:
        zone_log = self.zone_logs[zone.name]
        slots: dict[int, Slot] = {}
        for number, piece in zone_log.live[-1].by_shard.items():
            slots[number] = Slot(zone_log.shards[number], piece.layout.sink, changes.into(piece.family))
        return ZoneWriter(zone, slots)

    def _close_shards(self, pending: _Pending, now_us: int) -> None:
        """Note where each shard is now, and a higher ceiling where one is wanted."""
        meta = pending.changes.into(META)
        for shard in pending.shards:
            shard.wrote(pending.mark)
            meta.put(head_key(shard.id), encode_head(ShardHead(shard.clock.last_us, shard.serial, shard.commits)))
            ceiling_us = shard.clock.wanted_ceiling(now_us)
            if ceiling_us:
                meta.put(ceiling_key(shard.id), encode_ceiling(ceiling_us))
                pending.ceilings.append((shard, ceiling_us))

    def _advance(self) -> Receipt | None:
        """Write what waits, as far as the engine takes it."""
        while not self.idle():
            if self.obstacle is not None:
                # The engine may have to open its database again, which it cannot while readers hold on to it.
                self.reader.revoke()
            try:
                if not self._unwritten:
                    self.engine.make_ready()
                    self._unwritten.append(self._built(self._unbuilt.popleft()))
                pending = self._unwritten[0]
                if len(pending.changes):
                    self.engine.write(pending.mark, pending.changes)
            except TransientError as error:
                if self.obstacle is None:
                    _log.warning("writing waits", why=str(error))
                self.obstacle = error
                if isinstance(error, DiskFullError):
                    self._tell_full(full=True)
                break
            self._unwritten.popleft()
            self._awaiting.append(pending)
            if pending.size:
                self._last_strict = pending.strict
            if pending.strict:
                self._sync(pending)
        else:
            if self.obstacle is not None:
                _log.info("writing goes on")
            self.obstacle = None
            self._tell_full(full=False)
        return self._receipt()

    def _sync(self, pending: _Pending) -> None:
        if pending.patient and self._synced_mark < self._requested_mark:
            return  # a sync is under way: what is written until it ends shares the next one
        if not self._unwritten and self.engine.sync_on_loop(pending.size):
            self._synced_mark = pending.mark
        else:
            self._request_sync(pending.mark)

    def _request_sync(self, mark: int) -> None:
        self._requested_mark = mark
        self.engine.request_sync()

    def _sync_rest(self) -> None:
        """Sync what was patient, unless another batch has asked for it."""
        if self._awaiting and self._synced_mark >= self._requested_mark:
            # Not up to the last mark: what changes nothing has one and is never written, so no sync reaches it.
            self._request_sync(self.engine.written)

    def _tell_full(self, *, full: bool) -> None:
        if self._told_full != full:
            self._told_full = full
            if self.on_full is not None:
                self.on_full(full)

    # ---- receipts

    def _synced(self, mark: int) -> None:
        """The commit thread tells that everything up to `mark` is synced."""
        if self._post is not None:
            self._post(lambda: self._settle(mark))

    def _settle(self, mark: int) -> None:
        self._synced_mark = max(self._synced_mark, mark)
        self._hand_over(self._receipt())
        if self._awaiting and self._synced_mark >= self._requested_mark and self._post is not None:
            # Behind the iteration that the receipt has led to: what that writes is synced, too.
            self._post(self._sync_rest)

    def _hand_over(self, receipt: Receipt | None) -> None:
        if receipt is not None and self._on_receipt is not None:
            self._on_receipt(receipt)

    def _receipt(self) -> Receipt | None:
        """A receipt for every batch that has come far enough, if there is a new one."""
        before = self._receipt_number
        now_us = 0
        awaiting = self._awaiting
        while awaiting and (not awaiting[0].strict or awaiting[0].mark <= self._synced_mark):
            pending = awaiting.popleft()
            if pending.number:
                self._receipt_number = pending.number
                now_us = now_us or self._clock.monotonic_us()
                self.counts.seconds.add((now_us - pending.taken_us) / SECOND_US)
            for shard in pending.shards:
                shard.receipt(pending.mark)
                self._heads.publish(shard.id, shard.head_us, shard.head_serial)
            for shard, ceiling_us in pending.ceilings:
                shard.clock.raise_ceiling(ceiling_us)
        return Receipt(self._receipt_number) if self._receipt_number > before else None

    def add_zone(self, zone_log: ZoneLog) -> None:
        """A lane that came while the log is open: readers find it from now on."""
        self.zone_logs[zone_log.zone.name] = zone_log
        self.reader.add_zone(zone_log)

    def publish_heads(self, zone_log: ZoneLog) -> None:
        """Of shards that came, or moved on, with what was made elsewhere. Requires: it is synced."""
        self._heads.add({shard.id: Head(shard.head_us, shard.head_serial) for shard in zone_log.shards.values()})

    def close(self) -> None:
        """Sync what was written, and let go of the data."""
        self.reader.revoke()
        try:
            self.engine.close()
            if self.engine.poison is None and self.idle():
                # The last sync covered what no receipt has told yet.
                for shard in self._shards():
                    self._heads.publish(shard.id, shard.position_us, shard.serial)
        finally:
            self._heads.close()

    def _shards(self) -> Iterator[Shard]:
        for zone_log in self.zone_logs.values():
            yield from zone_log.shards.values()
