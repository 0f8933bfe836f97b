"""A bounded pool of readers. A scan has a reader for itself while it lasts.

    view     ──▶ the pool's own reader, refreshed each time
    scan     ──▶ a free reader that sees the part already ──▶ else one that is refreshed ──▶ else a new one

1. A client that was shown a head can read up to it: a reader that does not see so far is refreshed first.
2. A reader serves one scan at a time, and is not refreshed meanwhile: the scan sees one state, also if retention drops
   it. So a scan whose client stops reading keeps disk space. Its reader is revoked after `stall_s`, or after
   WAITED_FOR_S if another scan waits for a reader.
3. A reader that was not used for `idle_s` is closed: it keeps files open that the broker may have removed.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.history.reader.reader import HistoryReader, ScanRequest
from holdfast.history.reader.view import BusyError, Part, View
from holdfast.model.errors import PermanentError, TransientError
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.topics.learned import LearnedPattern

if TYPE_CHECKING:
    from holdfast.history.tables.tables import TableQuery

STALL_S: Final = 300.0
#: Less than WAIT_S, so that stalled scans give way to waiting ones.
WAITED_FOR_S: Final = 30.0
IDLE_S: Final = 60.0
#: Seconds that a scan waits for a reader before it is refused.
WAIT_S: Final = 60.0
_SLICES: Final = 32
_END: Final = object()


class _Lent:
    """A reader and the scan that has it."""

    def __init__(self, reader: HistoryReader, now_s: float) -> None:
        self.reader: Final = reader
        self.used_s = now_s
        #: Held while a batch is read.
        self.turn: Final = threading.Lock()
        self.batches: Iterator[Any] = iter(())
        self.revoked = False

    def close(self) -> None:
        self.batches = iter(())  # with its cursors
        self.reader.close()


class ReaderPool:
    """May be used from any thread. Requires: `maintain` now and then, `close` at the end."""

    def __init__(
        self,
        folder: Path,
        most: int,
        *,
        stall_s: float = STALL_S,
        idle_s: float = IDLE_S,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """PermanentError if the folder is no data folder."""
        self.folder: Final = folder
        self._most: Final = most
        self._stall_s: Final = stall_s
        self._idle_s: Final = idle_s
        self._wait_s: Final = wait_s
        self._clock: Final = clock
        self._viewing: Final = threading.Lock()
        self._own: HistoryReader | None = HistoryReader.open(folder)
        self._own_used_s = clock()
        self._changed: Final = threading.Condition()
        #: Free readers, the last used one at the end; and readers in use.
        self._free: list[_Lent] = []
        self._lent: list[_Lent] = []
        #: Readers that are being opened or refreshed.
        self._coming = 0
        #: Scans that wait for a reader.
        self._waiting = 0

    def view(self) -> View:
        """What can be read now: all that was durable when this was called."""
        with self._viewing:
            self._own_used_s = self._clock()
            try:
                if self._own is None:
                    self._own = HistoryReader.open(self.folder)
                else:
                    self._own.refresh()
            except BaseException:
                self._close_own()
                raise
            return self._own.view()

    def scan(self, request: ScanRequest, gone: Callable[[], bool] = lambda: False) -> Iterator[Any]:
        """As `HistoryReader.batches`. BusyError if no reader is free in time, TransientError if it was revoked.

        `gone` says whether the client has left; it is also asked while nothing matches.
        """
        return self._passed_on(request.part, lambda reader: _sliced(reader, request), gone)

    def scan_table(self, query: "TableQuery", now_us: int, gone: Callable[[], bool] = lambda: False) -> Iterator[Any]:
        """The same for a table, as of now."""
        # Imported here: tables need Arrow, and a pool serves readers that have none.
        from holdfast.history.tables.tables import table_batches

        return self._passed_on(None, lambda reader: table_batches(reader, query, now_us), gone)

    def read(
        self, read: Callable[[HistoryReader], Iterator[Any]], gone: Callable[[], bool] = lambda: False
    ) -> Iterator[Any]:
        """What `read` gives of a reader that shows the present state; a None of it lets others have a turn."""
        return self._passed_on(None, read, gone)

    def _passed_on(
        self, part: Part | None, read: Callable[[HistoryReader], Iterator[Any]], gone: Callable[[], bool]
    ) -> Iterator[Any]:
        """The batches of a scan. It gets its reader with the first one."""
        with self._lending(part) as lent:
            lent.batches = read(lent.reader)
            while True:
                with lent.turn:
                    if lent.revoked:
                        raise TransientError(
                            "nothing was taken for a while, and others have the reader now; read again"
                        )
                    try:
                        batch = next(lent.batches, _END)
                    finally:
                        lent.used_s = self._clock()
                if batch is _END or gone():
                    return
                if batch is not None:
                    yield batch

    @contextmanager
    def reading(self, wait_s: float | None = None) -> Iterator[HistoryReader]:
        """A reader that shows the present state, for one question, which alone has it meanwhile.

        BusyError if no reader is free within `wait_s`, or within the pool's own limit.
        """
        with self._lending(None, wait_s) as lent, lent.turn:
            yield lent.reader

    def first(self, part: Part) -> Head | None:
        """As `HistoryReader.first`. TransientError as in `scan`."""
        with self._lending(part) as lent, lent.turn:
            return lent.reader.first(part)

    def cuts(self, part: Part) -> list[Head]:
        """As `HistoryReader.cuts`. TransientError as in `scan`."""
        with self._lending(part) as lent, lent.turn:
            return lent.reader.cuts(part)

    def patterns(self) -> list[LearnedPattern]:
        """As `HistoryReader.patterns`. TransientError as in `scan`."""
        with self._lending(None) as lent, lent.turn:
            return lent.reader.patterns()

    def busy(self) -> int:
        """The number of running scans."""
        return len(self._lent)

    def maintain(self) -> None:
        """Revoke readers of stalled scans, and close idle readers."""
        now_s = self._clock()
        with self._changed:
            idle = [lent for lent in self._free if now_s - lent.used_s > self._idle_s]
            self._free = [lent for lent in self._free if lent not in idle]
            stall_s = WAITED_FOR_S if self._waiting else self._stall_s
            stalled = [lent for lent in self._lent if now_s - lent.used_s > stall_s]
        for lent in idle:
            lent.close()
        for lent in stalled:
            if lent.turn.acquire(blocking=False):
                try:
                    lent.revoked = True
                    lent.close()
                finally:
                    lent.turn.release()
                with self._changed:
                    if lent in self._lent:
                        self._lent.remove(lent)
                        self._changed.notify()
        with self._viewing:
            if now_s - self._own_used_s > self._idle_s:
                self._close_own()

    def close(self) -> None:
        with self._changed:
            free, self._free = self._free, []
        for lent in free:
            lent.close()
        with self._viewing:
            self._close_own()

    def _close_own(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            own.close()

    # ---- readers in use

    @contextmanager
    def _lending(self, part: Part | None, wait_s: float | None = None) -> Iterator[_Lent]:
        """Lend a reader. After an error that may be its own it is closed."""
        lent = self._lend(part, self._wait_s if wait_s is None else wait_s)
        sound = False
        try:
            yield lent
            sound = True
        except (GeneratorExit, PermanentError):
            sound = True
            raise
        finally:
            self._take_back(lent, sound=sound)

    def _lend(self, part: Part | None, wait_s: float) -> _Lent:
        """A reader that sees a part; without a part, one that sees the present state."""
        lent = self._next_free(part, wait_s)
        try:
            if lent is None:
                lent = _Lent(HistoryReader.open(self.folder), self._clock())
            elif part is None:
                lent.reader.refresh()
            if part is not None and not _sees(lent.reader, part):
                lent.reader.refresh()
                _check(lent.reader, part)
        except BaseException as error:
            with self._changed:
                self._coming -= 1
                if lent is not None and isinstance(error, PermanentError):
                    self._free.append(lent)
                    lent = None
                self._changed.notify()
            if lent is not None:
                lent.close()
            raise
        lent.used_s = self._clock()
        with self._changed:
            self._coming -= 1
            self._lent.append(lent)
        return lent

    def _next_free(self, part: Part | None, wait_s: float) -> _Lent | None:
        """A free reader, or None if a new one may be opened, which is then counted."""
        deadline_s = self._clock() + wait_s
        with self._changed:
            while not self._free and len(self._lent) + self._coming >= self._most:
                left_s = deadline_s - self._clock()
                if left_s <= 0 or not self._wait(left_s):
                    raise BusyError(f"all {self._most} readers are busy; come back later, or raise max_readers")
            self._coming += 1
            if not self._free:
                return None
            seeing = [lent for lent in self._free if part is not None and _sees(lent.reader, part)]
            lent = (seeing or self._free)[-1]
            self._free.remove(lent)
            return lent

    def _wait(self, limit_s: float) -> bool:
        self._waiting += 1
        try:
            return self._changed.wait(limit_s)
        finally:
            self._waiting -= 1

    def _take_back(self, lent: _Lent, *, sound: bool) -> None:
        lent.batches = iter(())
        with self._changed:
            if lent not in self._lent:
                return  # revoked, and closed
            self._lent.remove(lent)
            if sound:
                self._free.append(lent)
            self._changed.notify()
        if not sound:
            lent.close()


def _sliced(reader: HistoryReader, request: ScanRequest) -> Iterator[Any]:
    """The batches of a part, with None now and then while nothing matches."""
    part, levels, columns, in_order, rows = request
    # A read without a filter always finds something, and can be checked only if its part is not divided.
    for piece in part.split(_SLICES) if levels else [part]:
        yield from reader.batches(piece, levels, columns, rows=rows, in_order=in_order)
        yield None


def _sees(reader: HistoryReader, part: Part) -> bool:
    """Whether the reader sees the part without a refresh."""
    view = reader.view()
    head = view.heads.get(part.shard)
    live = view.live.get(part.zone, [])
    return (
        head is not None
        and head.position_us + 1 >= part.hi_us
        and any(record.number == part.generation and part.shard in record.shards for record in live)
    )


def _check(reader: HistoryReader, part: Part) -> None:
    """Raise if a part cannot be read to its end. A generation that is gone is noticed when it is read."""
    view = reader.view()
    if view.zone_of(part.shard) != part.zone:
        raise PermanentError(f"shard {part.shard} is not of zone {part.zone!r}, but of {view.zone_of(part.shard)!r}")
    view.check_has(part.shard, part.hi_us)
    head = view.heads.get(part.shard)
    if head is None or head.position_us + 1 < part.hi_us:
        end_us = 0 if head is None else head.position_us + 1
        raise PermanentError(
            f"shard {part.shard} can be read up to {end_us} now, and [{part.lo_us}, {part.hi_us}) was asked for"
        )
