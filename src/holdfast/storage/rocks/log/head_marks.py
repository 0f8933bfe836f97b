"""The files `marks/SHARD`: once a minute how far each shard has come, messages or not, for those who look at the past.

    12:00  position, serial      the difference of two serials: how many messages there are between two moments
    12:01  position, serial
           ── no marks ──        the broker did not run
    12:07  position, serial

Processes beside the broker read them (`history/past`). Marks are hints: nothing is lost with them but time.

1. A mark fits the log for good (`records/head_marks.py`). It names the durable head. While nothing waits for its
   receipt, it names the present, and the shard's clock is told to go on behind it.
2. What is not so any more is cut when a file is opened: the torn end, marks above the head, and marks in the future of
   the shard's clock. After a power loss the same serials come again at other positions.
3. Marks are written by the loop, without a sync: 16 bytes for each shard and minute.
4. A file keeps as many marks as there are messages to look at, and 400 days at most. It is written again when it has
   twice as many.
5. What is loaded into a lane comes at positions of the past, so lanes have no marks.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.files.folders import write_all
from holdfast.files.private import FILE_MODE, FOLDER_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.errors import PermanentError
from holdfast.model.time import DAY_US, MINUTE_US, SECOND_US
from holdfast.records.head_marks import MARK_BYTES, HeadMark, HeadMarks, decode_mark, encode_mark
from holdfast.records.lanes import is_lane
from holdfast.storage.rocks.log.commit_log import RocksLog

FOLDER_NAME: Final = "marks"
INTERVAL_US: Final = MINUTE_US
#: Two marks that are further apart: the broker did not run in between.
GAP_US: Final = 2 * MINUTE_US
#: No mark is kept for longer.
MAX_AGE_US: Final = 400 * DAY_US
#: A file with fewer marks is not written again: one day.
_FEW: Final = DAY_US // INTERVAL_US


class ShardMark(NamedTuple):
    """The mark of a shard, to be written."""

    shard: int
    position_us: int
    serial: int
    #: Older marks of the shard are of no use.
    keep_from_us: int


class ShardEnd(NamedTuple):
    """Where a shard goes on: its last serial, and the least position that the next message can have."""

    serial: int
    next_us: int


class MarkFiles:
    """The broker's side. One process at a time; files are closed between two marks."""

    def __init__(self, folder: Path, ends: dict[int, ShardEnd]) -> None:
        """Cuts what does not fit to the ends of the shards; a shard that comes later has no marks yet."""
        self._folder: Final = folder / FOLDER_NAME
        self._ends: Final = ends
        #: By shard: marks in its file, its last mark, and from how many on it is written again.
        self._files: Final[dict[int, tuple[int, HeadMark, int]]] = {}

    def append(self, marks: Iterable[ShardMark]) -> None:
        """OSError if a file cannot be written: that mark is missing, and the next one is written in its place."""
        self._folder.mkdir(FOLDER_MODE, exist_ok=True)
        for mark in marks:
            self._append(mark)

    def _append(self, mark: ShardMark) -> None:
        known = self._files.get(mark.shard)
        count, last, limit = self._open(mark.shard) if known is None else known
        if mark.position_us <= last.position_us or mark.serial < last.serial:
            return
        if count >= limit:
            count = self._shorten(mark.shard, mark.keep_from_us)
            limit = max(_FEW, 2 * count)
        descriptor = os.open(self._path(mark.shard), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            write_all(descriptor, encode_mark(mark.position_us, mark.serial), count * MARK_BYTES)
        finally:
            os.close(descriptor)
        self._files[mark.shard] = (count + 1, HeadMark(mark.position_us, mark.serial), limit)

    def _open(self, shard: int) -> tuple[int, HeadMark, int]:
        """Cut what does not hold (rule 2)."""
        path = self._path(shard)
        marks = read_marks(self._folder.parent, shard)
        end = self._ends.get(shard, ShardEnd(0, 0))
        marks.cut(marks.count_covered(end.serial, end.next_us))
        if path.exists():
            os.truncate(path, len(marks) * MARK_BYTES)
        last = marks.mark(len(marks) - 1) if len(marks) else HeadMark(0, 0)
        return len(marks), last, max(_FEW, 2 * len(marks))

    def _shorten(self, shard: int, keep_from_us: int) -> int:
        """Write a file again without its oldest marks; how many are left."""
        content = self._path(shard).read_bytes()
        marks = HeadMarks(content)
        # One before that: what lies between it and the next one is looked at, too.
        first = max(0, marks.count_until(keep_from_us) - 1)
        if first:
            replace_file(self._path(shard), content[first * MARK_BYTES : len(marks) * MARK_BYTES], sync=False)
        return len(marks) - first

    def _path(self, shard: int) -> Path:
        return self._folder / str(shard)


def read_marks(folder: Path, shard: int) -> HeadMarks:
    """The marks of a shard in a data folder; none if there is no file.

    Those above the durable head, as its reader knows it, do not count: `HeadMarks.count_covered`.
    """
    path = folder / FOLDER_NAME / str(shard)
    try:
        return HeadMarks(path.read_bytes())
    except FileNotFoundError:
        return HeadMarks(b"")
    except OSError as error:
        raise PermanentError(
            f"{path} cannot be read: {error.strerror}; it can be removed, and is written again"
        ) from error


def read_span(folder: Path, shard: int) -> tuple[int, int] | None:
    """The positions of the first and the last mark of a shard; None if it has none. Those in between are not read."""
    try:
        with (folder / FOLDER_NAME / str(shard)).open("rb") as file:
            first = file.read(MARK_BYTES)
            whole = file.seek(0, os.SEEK_END) // MARK_BYTES * MARK_BYTES
            file.seek(max(0, whole - MARK_BYTES))
            last = file.read(MARK_BYTES)
    except OSError:
        return None
    return (decode_mark(first).position_us, decode_mark(last).position_us) if whole else None


class MinuteMarks:
    """Writes marks once a minute, and one at the end."""

    def __init__(
        self, files: MarkFiles, take: Callable[[], Iterable[ShardMark]], monotonic_us: Callable[[], int]
    ) -> None:
        """`take` gives the marks of the present moment."""
        self._files: Final = files
        self._take: Final = take
        self._monotonic_us: Final = monotonic_us
        self._due_us = monotonic_us()

    def look(self) -> None:
        """Write marks if a minute has passed. OSError: they cannot be written; the next ones come in a minute."""
        if self._monotonic_us() >= self._due_us:
            self.write()

    def write(self) -> None:
        """Write marks now: also before the first message of a life and behind its last one, so that a gap is exact."""
        self._due_us = self._monotonic_us() + INTERVAL_US
        self._files.append(self._take())


def open_marks(log: RocksLog, monotonic_us: Callable[[], int]) -> MinuteMarks:
    """The marks of a log on one node. Requires: it was opened just now, and nothing was written to it."""
    now_us = log.now_us()
    ends = {
        number: ShardEnd(shard.serial, shard.clock.earliest(now_us))
        for zone_log in log.zone_logs.values()
        for number, shard in zone_log.shards.items()
    }
    return MinuteMarks(MarkFiles(log.engine.folder, ends), lambda: _marks_of(log), monotonic_us)


def _marks_of(log: RocksLog) -> list[ShardMark]:
    """Where the shards of a log are now. Ensures: no position up to there is given out any more."""
    now_us = log.now_us()
    found: list[ShardMark] = []
    for name, zone_log in log.zone_logs.items():
        if is_lane(name) or not zone_log.live:
            continue
        kept_us = zone_log.zone.retention_s * SECOND_US or MAX_AGE_US
        first_us = min(now_us - kept_us, zone_log.live[0].record.start_us)
        keep_from_us = max(first_us, now_us - MAX_AGE_US)
        for number, shard in zone_log.shards.items():
            position_us = shard.head_us
            if not shard.awaiting():
                position_us = max(position_us, now_us)
                if shard.clock.earliest(now_us) <= position_us:
                    shard.clock.raise_floor(position_us + 1)
            if position_us > 0:
                found.append(ShardMark(number, position_us, shard.head_serial, keep_from_us))
    return found
