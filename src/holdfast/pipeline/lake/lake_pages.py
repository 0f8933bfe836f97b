"""Pages of a lake: what the history process answers a broker whose log is shorter.

1. An answer is one page. The sweep behind it is kept for the question that goes on there, if that comes soon; any other
   question begins a new one. So no question depends on one before it.
2. Before a version of the lake is read, one of its newest messages has to be in the log at its position, if the log
   still reaches so far. Else it is the lake of another broker.
3. Erased messages are among them until the lake is rewritten: the broker leaves them out, by its own list.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final

from holdfast.durable.lake_page import CONTENT_TYPE, FILTER, RANGES, LakeEnd, LakeQuestion, encode_page, parse_ranges
from holdfast.history.past.export import ExportFile
from holdfast.history.past.questions import Question, wrong_value
from holdfast.history.past.time_scan import ClientGoneError
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake.archive_table import ArchiveTable, newest_row
from holdfast.pipeline.lake.formats import open_lake
from holdfast.pipeline.lake.lake_sweep import LakeFile, lake_files, sweep
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeAddress, LakeStore
from holdfast.pipeline.lake.store_options import is_iceberg

#: Seconds after which an answer is given, though nothing was found yet.
_PATIENCE_S: Final = 2.0
#: Seconds to wait for a reader of the log.
_READER_S: Final = 2.0
#: Sweeps that are kept for the next question, and the seconds for which one is.
_KEPT: Final = 4
_KEPT_S: Final = 60.0


class LakePages:
    """Answers questions. May be used from any thread."""

    def __init__(self, where: LakeAddress) -> None:
        self._where: Final = where
        self._opening: Final = threading.Lock()
        self._lake: ArchiveTable | None = None
        #: The version of the lake that is known to be of this broker.
        self._checked = -1
        self._keeping: Final = threading.Lock()
        #: When each was put here, and the sweep; and how many of them are being continued.
        self._kept: Final[list[tuple[float, _Answers]]] = []
        self._continued = 0

    def answer(self, pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> ExportFile:
        """A `FileEndpoint`. QuestionError for a wrong parameter; any other error is one of the lake."""
        asked = Question(params, (FILTER, RANGES))
        try:
            question = LakeQuestion(asked.filter().levels, parse_ranges(asked.needed(RANGES)))
        except ValueError:
            raise wrong_value(RANGES, "SHARD:FROM:BEFORE,… would be right, with FROM < BEFORE") from None
        # At once: an error is an answer with its own status.
        page = self._page(pool, question, gone)
        return ExportFile(CONTENT_TYPE, iter((page,)))

    def _page(self, pool: ReaderPool, question: LakeQuestion, gone: Callable[[], bool]) -> bytes:
        kept = self._take(question)
        goes_on = False
        answers = kept
        try:
            if answers is None:
                answers = self._begin(pool, question)
            page = answers.next_page(gone)
            goes_on = bool(answers.question.ranges)
        finally:
            self._put(answers if goes_on else None, had_place=kept is not None)
        return page

    def _take(self, question: LakeQuestion) -> "_Answers | None":
        """The sweep that goes on with a question. It has its place until `_put`."""
        key = question.key()
        with self._keeping:
            for place, (_kept_s, answers) in enumerate(self._kept):
                if answers.question.key() == key:
                    del self._kept[place]
                    self._continued += 1
                    return answers
        return None

    def _put(self, answers: "_Answers | None", *, had_place: bool) -> None:
        """Keep a sweep, if it goes on and there is a place. A new one takes none from those that are in use: with more
        replays in turn than places none would find its own again.
        """
        now_s = time.monotonic()
        with self._keeping:
            self._continued -= had_place
            self._kept[:] = [one for one in self._kept if now_s - one[0] <= _KEPT_S]
            if answers is not None and len(self._kept) + self._continued < _KEPT:
                self._kept.append((now_s, answers))

    def _begin(self, pool: ReaderPool, question: LakeQuestion) -> "_Answers":
        with self._opening:
            try:
                if self._lake is None:
                    self._lake = open_lake(self._where)
                else:
                    self._lake.refresh()
                lake = self._lake
                if self._checked != lake.version:
                    _check_owner_by(pool, lake)
                    self._checked = lake.version
                ends = {shard: LakeEnd(done.position_us, max(0, done.serial)) for shard, done in lake.offsets.items()}
                files = lake_files(lake, question)
            except (SettingsError, TransientError):
                self._lake = None
                raise
            except PermanentError as error:
                self._lake = None
                if _may_recover(self._where) and not isinstance(error, ForeignLakeError):
                    raise TransientError(str(error)) from error
                raise
        return _Answers(lake.store, files, question, ends)


class ForeignLakeError(PermanentError):
    """The lake has messages of another broker."""


def _may_recover(where: LakeAddress) -> bool:
    """A store of objects or a catalog that does not answer may do so later."""
    return is_iceberg(where) or bool(LakeStore.at(where).kind)


def check_owner(lake: ArchiveTable, reader: HistoryReader) -> None:
    """ForeignLakeError if a message of the lake is another one in the log, or none, where the log reaches so far."""
    heads = reader.view().heads
    for shard, done in lake.offsets.items():
        head = heads.get(shard)
        if head is not None and head.serial < done.serial:
            raise ForeignLakeError(
                f"the lake {lake.store} has {done.serial} messages of shard {shard}, and the log has {head.serial}: it "
                "belongs to another broker; name the lake that was made from this log"
            )
    row = newest_row(lake)
    if row is None or row.shard not in heads:
        return
    view = reader.view()
    if view.lost(row.shard, row.position_us, row.position_us + 1) is not None:
        return
    parts = view.shard_parts(row.shard, row.position_us, row.position_us + 1)
    first = next(filter(None, map(reader.first, parts)), None)
    if first is None or first.serial != row.serial:
        raise ForeignLakeError(
            f"message {row.serial} of shard {row.shard}, in the lake {lake.store}, is not in this log: the lake "
            "belongs to another broker; name the lake that was made from this log"
        )


def _check_owner_by(pool: ReaderPool, lake: ArchiveTable) -> None:
    """The same by a reader of the pool, or by one more if scans have them all: they may be long."""
    try:
        with pool.reading(_READER_S) as reader:
            check_owner(lake, reader)
    except TransientError:
        with closing(HistoryReader.open(pool.folder)) as reader:
            check_owner(lake, reader)


class _Answers:
    """The answers to a question and to those that go on behind it."""

    def __init__(
        self, store: LakeStore, files: Sequence[LakeFile], question: LakeQuestion, ends: Mapping[int, LakeEnd]
    ) -> None:
        #: What is not answered yet.
        self.question = question
        self._ends: Final = {shard: ends.get(shard, LakeEnd(0, 0)) for shard in question.ranges}
        self._store: Final = store
        self._found: Final = sweep(store, files, question, look=self._look)
        self._gone: Callable[[], bool] = lambda: False

    def _look(self) -> None:
        if self._gone():
            raise ClientGoneError

    def next_page(self, gone: Callable[[], bool]) -> bytes:
        self._gone = gone
        due_s = time.monotonic() + _PATIENCE_S
        up_to_us = 0
        try:
            for found in self._found:
                up_to_us = found.up_to_us
                self._look()
                self.question = self.question.behind(up_to_us)
                if found.records or time.monotonic() >= due_s:
                    ends = None if self.question.ranges else self._ends
                    return encode_page(found.records, up_to_us, ends)
        except STORE_ERRORS as error:
            # A file that is not there was replaced since the sweep began.
            family = TransientError if self._store.kind or isinstance(error, OSError) else PermanentError
            text = f"a file of the lake {self._store} cannot be read"
            raise self._store.translate(error, family, text) from None
        self.question = LakeQuestion(self.question.levels, {})
        return encode_page([], up_to_us, self._ends)
