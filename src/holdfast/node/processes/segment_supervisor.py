"""Has segments built by a process beside the broker, and stores them in slices between the commits of the loop.

1. The process is started when there is something to build. Its failure never ends the broker: it is started again,
   after longer and longer pauses, and until then commit pages stay what they are.
2. A stretch during which the process has ended three times is left as it is.
3. On a machine with few processors the broker and its clients come first: segments wait while the broker is busy,
   unless too many messages wait for them.
"""

import asyncio
import os
import time
from typing import Final, Protocol

import structlog

from holdfast.durable.commit import SegmentCounts
from holdfast.durable.segment_patterns import SegmentPatterns
from holdfast.model.errors import PermanentError, TransientError
from holdfast.node.processes.child_process import child_process
from holdfast.node.processes.segment_main import (
    LENGTH,
    Built,
    Failed,
    Frame,
    Pages,
    StretchEnd,
    decode_frame,
    encode_frame,
)
from holdfast.records.lanes import zone_of_lane
from holdfast.records.pages.segment_index import decode_directory
from holdfast.storage.rocks.layouts.paged import SEGMENT_SIZE, SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter, Stretch, WrittenLog

_log = structlog.get_logger()

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 60.0
#: Between two looks for something to build.
_LOOK_S: Final = 0.1
#: While the log has to write something else first.
_WAIT_S: Final = 0.01
_MAX_FAILURES: Final = 3
#: What the process may take to read or to answer; one that takes longer is ended. A full disk is waited for.
_PATIENCE_S: Final = 60.0
_READ_AHEAD_BYTES: Final = 1 << 20
#: The share of one processor from which on the broker counts as busy, where there are few.
_BUSY: Final = 0.7
_FEW_PROCESSORS: Final = 2
#: Messages that may wait for segments while the broker is busy.
_MAX_WAITING: Final = 1_000_000


class SegmentedStorage(Protocol):
    """What a node has on disk, as far as segments are made of it."""

    @property
    def segment_counts(self) -> SegmentCounts: ...

    @property
    def segmented_log(self) -> WrittenLog:
        """The log whose commit pages become segments."""

    def segment_writer(self, size: SegmentSize) -> SegmentWriter: ...

    def is_short_of_space(self) -> bool: ...


class SegmentSupervisor:
    """Requires: the event loop of the broker."""

    def __init__(self, storage: SegmentedStorage, size: SegmentSize = SEGMENT_SIZE) -> None:
        self._storage: Final = storage
        self._log: Final = storage.segmented_log
        self._segments: Final = storage.segment_writer(size)
        #: The process, while there is one.
        self.process: asyncio.subprocess.Process | None = None
        self._load: Final = ProcessorLoad()
        #: How often the process has ended during a stretch, by family and first position.
        self._failures: Final[dict[tuple[str, int], int]] = {}

    def pids(self) -> dict[str, int]:
        """The process that builds segments, while there is one."""
        return {} if self.process is None else {"segments": self.process.pid}

    async def run(self) -> None:
        """Make segments until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            stretch: Stretch | None = None
            try:
                stretch = await self._next()
                async with child_process("holdfast.node.processes.segment_main", {}, _READ_AHEAD_BYTES) as process:
                    self.process = process
                    while True:
                        await self._make(stretch, process)
                        pause_s = _FIRST_PAUSE_S
                        stretch = await self._next()
            except PermanentError as damage:
                if stretch is not None:
                    self._segments.note_damage(stretch, str(damage))
            except TransientError as error:
                _log.warning("a segment waits", why=str(error))
            except Exception as error:
                self._note_failure(stretch, str(error) or type(error).__name__)
            finally:
                self.process = None
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    async def _next(self) -> Stretch:
        """The next stretch there is, once the broker has time for it."""
        while True:
            ready = self._log.idle() and not self._storage.is_short_of_space()
            stretch = self._segments.next_stretch() if ready else None
            counts = self._storage.segment_counts
            counts.by_zone = self._waiting()
            counts.waiting = sum(counts.by_zone.values())
            counts.unreadable = self._segments.unreadable
            if stretch is not None and (not self._load.is_busy() or counts.waiting > _MAX_WAITING):
                return stretch
            await asyncio.sleep(_LOOK_S)

    def _waiting(self) -> dict[str, int]:
        """Messages in commit pages of generations that are written to, by zone."""
        waiting: dict[str, int] = {}
        for name, zone_log in self._log.zone_logs.items():
            zone = zone_of_lane(name)
            for generation in zone_log.live[-1:]:
                messages = sum(piece.layout.sink.messages for piece in generation.by_shard.values())
                waiting[zone] = waiting.get(zone, 0) + messages
        return waiting

    async def _make(self, stretch: Stretch, process: asyncio.subprocess.Process) -> None:
        """Have one segment built, and store it."""
        assert process.stdin is not None
        assert process.stdout is not None
        for values in self._segments.read(stretch):
            process.stdin.write(encode_frame(Pages(0, values)))
            async with asyncio.timeout(_PATIENCE_S):
                await process.stdin.drain()
            await asyncio.sleep(0)
        if stretch.is_empty():
            await asyncio.sleep(0)
            return
        known = self._segments.known_patterns(stretch)
        end = StretchEnd() if known is None else StretchEnd(list(known.thresholds), known.records)
        process.stdin.write(encode_frame(end))
        while True:
            frame = await _receive(process.stdout)
            while not self._log.idle():  # noqa: ASYNC110 (what makes it idle is not told)
                await asyncio.sleep(_WAIT_S)
            if self._store(stretch, frame):
                return
            await asyncio.sleep(0)

    def _store(self, stretch: Stretch, frame: Frame) -> bool:
        """Store what was built, if its generation is still there; whether that was the last of it."""
        if isinstance(frame, Failed):
            self._segments.note_damage(stretch, frame.why)
            return True
        stays = self._segments.can_store(stretch)
        if isinstance(frame, Built):
            if stays:
                directory = decode_directory(frame.first_us, frame.directory)
                self._segments.finish(stretch, directory, frame.map, frame.index, SegmentPatterns(*frame.patterns))
                self._storage.segment_counts.made += 1
                self._failures.clear()
            return True
        if isinstance(frame, Pages) and stays:
            self._segments.store_pages(stretch, frame.first, frame.values)
        return False

    def _note_failure(self, stretch: Stretch | None, why: str) -> None:
        _log.warning("segments could not be built; the process is started again", why=why)
        if stretch is None or stretch.first_us < 0:
            return  # it did not even begin
        place = (stretch.piece.family, stretch.first_us)
        self._failures[place] = self._failures.get(place, 0) + 1
        if self._failures[place] == _MAX_FAILURES:
            self._segments.give_up(stretch, f"the process ended {_MAX_FAILURES} times over them")


async def _receive(source: asyncio.StreamReader) -> Frame:
    async with asyncio.timeout(_PATIENCE_S):
        length = LENGTH.unpack(await source.readexactly(LENGTH.size))[0]
        return decode_frame(await source.readexactly(length))


class ProcessorLoad:
    """How much of a processor the broker uses, looked at now and then."""

    def __init__(self) -> None:
        self._few: Final = len(os.sched_getaffinity(0)) <= _FEW_PROCESSORS
        self._wall_s = time.monotonic()
        self._used_s = time.process_time()
        self._share = 0.0

    def is_busy(self) -> bool:
        wall_s, used_s = time.monotonic(), time.process_time()
        if wall_s - self._wall_s >= _LOOK_S / 2:
            self._share = (used_s - self._used_s) / (wall_s - self._wall_s)
            self._wall_s, self._used_s = wall_s, used_s
        return self._few and self._share > _BUSY
