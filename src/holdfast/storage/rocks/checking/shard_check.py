"""Checks the messages of one shard: every record, the keys that lead to it, and whether one is missing."""

from typing import Final

from holdfast.model.errors import HoldfastError
from holdfast.records.generations import Generation
from holdfast.records.messages import stored_position, stored_serial
from holdfast.records.positions import ShardHead
from holdfast.storage.rocks.checking.layout_keys import slice_keys
from holdfast.storage.rocks.checking.segment_check import SegmentCheck
from holdfast.storage.rocks.checking.verify_report import REPORT, RESTORE, CheckedReader
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.layout import MESSAGES
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, read_mark
from holdfast.storage.rocks.layouts.segments import SegmentFamilies
from holdfast.storage.rocks.log.zone_generations import LiveGeneration

_END_US: Final = 2**63 - 1
_INDEX: Final = f"no message is lost, a replay of # has them all; {REPORT}"


class ShardCheck:
    """Follows a shard from its oldest live generation to its head."""

    def __init__(self, engine: Engine, reader: CheckedReader, shard: int, head: ShardHead | None) -> None:
        self._engine: Final = engine
        self._segments: Final = SegmentFamilies(engine)
        self._reader: Final = reader
        self._report: Final = reader.report
        self._shard: Final = shard
        self._head: Final = head or ShardHead(0, 0, 0)
        #: Serial and position of the last message; -1 as long as it is not known where the serials begin.
        self._serial = -1
        self._last_us = -1
        #: First serials of what is lost because pages are damaged, and the last serial of each.
        self._lost: dict[int, int] = {}

    def begin(self) -> None:
        """All generations are known, from the first one on: so is the first serial."""
        self._serial = 0

    def passed(self, record: Generation) -> None:
        """A generation whose messages are not looked at: what follows begins behind it."""
        self._serial = record.last_serials[record.shards.index(self._shard)] if record.end_us else -1
        self._last_us = -1

    def check(self, record: Generation) -> None:
        name = record.family(self._shard)
        lost = record.lost_pages(self._shard)
        self._lost = {one.first_serial: one.last_serial() for one in lost}
        damaged = len(self._report.problems)
        count = self._by_keys(name, record)
        self._report.messages += count
        if len(self._report.problems) == damaged:
            self._by_time(name, record, count)
        else:
            # It would only say the same again.
            self.passed(record)
        for one in lost:
            what = f"{one}: the page that held them is damaged"
            self._report.add(name, "lost", what, f"look into {self._engine.folder / 'quarantine'}; {RESTORE}")

    def _by_keys(self, name: str, record: Generation) -> int:
        """Read everything once, in the order of the keys; how many messages there are."""
        family = self._engine.family(name)
        count = 0
        try:
            keys = slice_keys(record, read_mark(family))
        except Exception as error:
            self._report.add(name, "unreadable", f"cannot be read: {error}", RESTORE)
            return 0
        for key, value in self._reader.items(name, family):
            try:
                if key[:1] == MESSAGES:
                    count += keys.messages(key, value)
                else:
                    keys.other(key, value)
            except HoldfastError as error:
                self._report.add(name, f"tag {key[:1].hex()}", f"key {key.hex()}: {error}", RESTORE)
        for problem in keys.problems():
            self._report.add(name, "postings", problem, _INDEX)
        return count + self._in_segments(name, record)

    def _in_segments(self, name: str, record: Generation) -> int:
        """Read the segments of a shard once; how many messages they hold."""
        family = self._engine.family(name)
        mark_us = read_mark(family)
        if record.layout != "paged" or mark_us == NOTHING_INDEXED:
            return 0
        segments = record.segments_family()
        if segments not in self._engine.families():
            self._report.add(name, "segments", f"messages up to {mark_us} are in {segments}, which is missing", RESTORE)
            return 0
        lost = [one.last_us for one in record.lost_pages(self._shard)]
        check = SegmentCheck(family, self._engine.family(segments), mark_us, max(lost, default=-1))
        for problem in check.problems():
            self._report.add(segments, "segments", problem, RESTORE)
        return check.messages

    def _by_time(self, name: str, record: Generation, count: int) -> None:
        """Read it once more, as a replay does: positions and serials must go on, and none may be missing."""
        layout = LiveGeneration(record, segments=self._segments).by_shard[self._shard].layout
        read = 0
        first = self._serial
        end_us = record.end_us or _END_US
        try:
            for value in layout.read(self._engine.family(name), (), 0, _END_US):
                if not value:
                    continue
                read += 1
                self._follow(name, stored_serial(value), stored_position(value), record.start_us, end_us)
        except HoldfastError as error:
            self._report.add(name, "unreadable", str(error), RESTORE)
            return
        if read != count:
            self._report.add(name, "short", f"it holds {count} messages, and a replay finds {read}", REPORT)
        self._skip_lost()
        if record.end_us:
            self._sealed(name, record, first, read)

    def _follow(self, name: str, serial: int, position_us: int, start_us: int, end_us: int) -> None:
        self._skip_lost()
        if self._serial >= 0 and serial != self._serial + 1:
            what = (
                f"messages {self._serial + 1} to {serial - 1} of shard {self._shard} are missing"
                if serial > self._serial
                else f"message {serial} of shard {self._shard} comes behind {self._serial}"
            )
            self._report.add(name, "serials", f"{what} (position {position_us})", RESTORE)
        if position_us <= self._last_us:
            self._report.add(name, "positions", f"position {position_us} comes behind {self._last_us}", REPORT)
        if not start_us <= position_us < end_us:
            what = f"position {position_us} is outside of its generation, [{start_us}, {end_us})"
            self._report.add(name, "positions", what, REPORT)
        self._serial = serial
        self._last_us = position_us

    def _skip_lost(self) -> None:
        """What is known to be lost is not missing."""
        self._serial = self._lost.get(self._serial + 1, self._serial)

    def _sealed(self, name: str, record: Generation, first: int, read: int) -> None:
        # A shard that copies another log may not have all of a sealed generation yet.
        last = min(record.last_serials[record.shards.index(self._shard)], self._head.serial)
        if not read and first < 0:
            self._serial = last
        elif self._serial < last:
            what = f"messages {self._serial + 1} to {last} of shard {self._shard} are missing at its end"
            self._report.add(name, "serials", what, RESTORE)
            self._serial = last

    def end(self) -> None:
        """Requires: all live generations were checked, without damage."""
        head = self._head
        where = f"shard {self._shard}"
        if 0 <= self._serial != head.serial:
            what = (
                f"messages {self._serial + 1} to {head.serial} are missing at its end"
                if self._serial < head.serial
                else f"its head says {head.serial} messages, and there is message {self._serial}"
            )
            self._report.add(where, "head", what, RESTORE)
        elif 0 <= self._last_us != head.position_us:
            what = f"its head is at {head.position_us}, and its last message at {self._last_us}"
            self._report.add(where, "head", what, REPORT)
