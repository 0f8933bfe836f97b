"""A log on disk in this process, without a broker around it: batches in, receipts out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from rocksdict import BottommostLevelCompaction, CompactOptions

from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.zones import Zone
from holdfast.model.clock import Clock
from holdfast.model.message import Message
from holdfast.node.system_clock import SystemClock
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.storage.rocks.log.startup import open_log

#: Messages of a commit under load.
BATCH = 500
#: Commits without a receipt, at most, when they overlap.
OUTSTANDING = 8


class Store:
    """The default zone with fsync, in one folder; with the default layout, unless another one is named.

    Segments are made in this process, where a broker has another one for them. Messages are stored at the time of
    `clock`, without one at that of the system.
    """

    def __init__(self, folder: Path, layout: str = "paged", clock: Clock | None = None) -> None:
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        self.engine = Engine.open(folder)
        self.engine_open_s = time.perf_counter() - began_s
        self.log = open_log(self.engine, [], Zone("default", layout=layout), [], clock or SystemClock(), "bench")
        self.open_s = time.perf_counter() - began_s
        self.open_cpu_s = time.process_time() - began_cpu_s
        self.maintenance = Maintenance(self.log)
        self.segments = SegmentWriter(self.log)
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._number = 0
        self._receipt = 0
        self.log.attach(self._posted.put, self._committed)

    def _committed(self, receipt: Receipt) -> None:
        self._receipt = receipt.number

    def write(self, messages: list[Message], *, outstanding: int = 0) -> None:
        """Commit a batch; when it returns, at most `outstanding` batches have no receipt."""
        self._number += 1
        batch = Batch(self._number)
        batch.messages.extend(messages)
        receipt = self.log.write(batch)
        if receipt is not None:
            self._committed(receipt)
        while not self.log.idle():
            time.sleep(0.01)  # RocksDB has to catch up
            self.log.retry()
        self.wait(outstanding)

    def wait(self, outstanding: int = 0) -> None:
        while self._number - self._receipt > outstanding:
            self._posted.get()()
        while not self._posted.empty():
            self._posted.get()()

    def fill(
        self, messages: Iterator[Message], tell: Callable[[int], None], *, segments: bool = True
    ) -> tuple[float, float]:
        """Write all messages as a busy node would, and the segments that are due; how long making the messages took,
        and how long all of it, in CPU s.
        """
        making_s = 0.0
        done = 0
        all_s = time.process_time()
        while True:
            before_s = time.thread_time()
            batch = list(islice(messages, BATCH))
            making_s += time.thread_time() - before_s
            if not batch:
                break
            self.write(batch, outstanding=OUTSTANDING)
            self.maintenance.write_index_slice()
            if segments:
                self.segments.write_all()
            done += len(batch)
            if done % (40 * BATCH) == 0:
                tell(done)
        self.wait()
        return making_s, time.process_time() - all_s

    def compact(self) -> int:
        """Seal what is there, make its index or its segments, and compact it; the bytes of its tables."""
        zone_log = self.log.zone_logs["default"]
        families = zone_log.live[-1].record.families()
        self.maintenance.rotate(zone_log)
        while zone_log.pending_indexes:
            self.maintenance.write_index_slice()
            self.engine.sync_now()
            self.wait()
        self.segments.write_all()
        self.engine.flush()
        # A file that overlaps no other would be moved down as it is, without the compression of its new place.
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
        size_bytes = 0
        for name in [name for name in families if name in self.engine.families()]:
            family = self.engine.family(name)
            family.compact_range(None, None, options)
            size_bytes += family.property_int_value("rocksdb.live-sst-files-size") or 0
        return size_bytes

    def close(self) -> None:
        self.wait()
        self.log.close()
