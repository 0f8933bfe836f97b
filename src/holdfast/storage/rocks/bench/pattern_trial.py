"""Tries out what a generation would be like: the same messages, written and read with one structure after another.

Everything is real but the folder: a layout, an engine, RocksDB, compacted when it is measured. Times are processor time
of all threads of this process. What is asked for is counted besides: positions that RocksDB has to find, by a seek or
by the key of a message. That does not depend on the machine.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from rocksdict import BottommostLevelCompaction, CompactOptions, Rdict, RdictIter, ReadOptions

from holdfast.model.errors import MisuseError
from holdfast.records.messages import stored_position, stored_topic
from holdfast.storage.rocks.bench.layout_bench import Writer
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.learned import LearnedLayout
from holdfast.storage.rocks.log.zone_generations import ShardGeneration
from holdfast.topics.filters import levels_match
from holdfast.topics.learned import LearnedTopics
from holdfast.topics.names import SEPARATOR, is_dollar

_FAMILY: Final = "log-00000-00000001"
_BATCH: Final = 500

Levels = tuple[bytes, ...]


class TrialQuestion(NamedTuple):
    """Filters of one kind, each asked for once."""

    name: str
    filters: tuple[Levels, ...]


class TrialAnswer(NamedTuple):
    """What a filter of the kind costs, on average."""

    name: str
    messages: float
    cpu_ms: float
    #: Cursors that were set, and messages that were fetched by their key.
    seeks: float
    fetches: float


class PatternTrial(NamedTuple):
    """What a structure makes of the messages."""

    streams: int
    bytes_per_message: float
    write_cpu_us: float
    answers: tuple[TrialAnswer, ...]


class _Cursor:
    def __init__(self, cursor: RdictIter, counting: "_CountingFamily") -> None:
        self._cursor: Final = cursor
        self._family: Final = counting
        # Not counted, and called for each message.
        self.valid: Final[Callable[[], bool]] = cursor.valid
        self.key: Final[Callable[[], Any]] = cursor.key
        self.value: Final[Callable[[], Any]] = cursor.value
        self.next: Final[Callable[[], None]] = cursor.next
        self.status: Final[Callable[[], None]] = cursor.status

    def seek(self, key: bytes) -> None:
        self._family.seeks += 1
        self._cursor.seek(key)

    def seek_for_prev(self, key: bytes) -> None:
        self._family.seeks += 1
        self._cursor.seek_for_prev(key)


class _CountingFamily:
    """A column family that counts what its readers ask for."""

    def __init__(self, family: Rdict) -> None:
        self._family: Final = family
        self.seeks = 0
        self.fetches = 0

    def get(self, key: Any) -> Any:
        self.fetches += len(key) if isinstance(key, list) else 1
        return self._family.get(key)

    def iter(self, read_opt: ReadOptions | None = None) -> Any:
        return _Cursor(self._family.iter(read_opt), self)


def try_out(
    folder: Path, topics: LearnedTopics, values: Sequence[bytes], questions: Sequence[TrialQuestion]
) -> PatternTrial:
    """Requires: `folder` is empty, and `values` are encoded messages of one shard in their order."""
    engine = Engine.open(folder, reserve_bytes=0)
    try:
        engine.create_family(_FAMILY)
        layout = LearnedLayout(topics)
        writer = Writer(engine, ShardGeneration(_FAMILY, layout))
        began_s = time.process_time()
        for batch in _batches(values):
            writer.write(batch)
        writer.finish()
        write_s = time.process_time() - began_s
        family = engine.family(_FAMILY)
        # A file that overlaps no other is moved down as it is, without the compression of its new place.
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
        family.compact_range(None, None, options)
        size_bytes = int(family.property_int_value("rocksdb.live-sst-files-size") or 0)
        hi_us = stored_position(values[-1]) + 1
        counting = _CountingFamily(family)
        answers = tuple(_ask(layout, counting, question, values, hi_us) for question in questions)
        count = len(values)
        return PatternTrial(topics.stream_count, size_bytes / count, write_s / count * 1e6, answers)
    finally:
        # Handles of a family have to go before their engine.
        layout = writer = family = counting = None  # type: ignore[assignment]
        engine.close()


def _batches(values: Sequence[bytes]) -> Iterator[list[tuple[bytes, int, bytes]]]:
    for begin in range(0, len(values), _BATCH):
        yield [(stored_topic(value), stored_position(value), value) for value in values[begin : begin + _BATCH]]


def _ask(
    layout: LearnedLayout, counting: _CountingFamily, question: TrialQuestion, values: Sequence[bytes], hi_us: int
) -> TrialAnswer:
    counting.seeks = counting.fetches = 0
    spent_s = 0.0
    found = 0
    for levels in question.filters:
        began_s = time.process_time()
        count = sum([1 for value in layout.read(counting, levels, 0, hi_us) if value])
        spent_s += time.process_time() - began_s
        owed = _matching(levels, values)
        if count != owed:
            asked = SEPARATOR.join(levels).decode()
            raise MisuseError(f"{asked} found {count} messages; {owed} would be right")
        found += count
    asked_for = len(question.filters)
    return TrialAnswer(
        question.name,
        found / asked_for,
        spent_s / asked_for * 1e3,
        counting.seeks / asked_for,
        counting.fetches / asked_for,
    )


def _matching(levels: Levels, values: Sequence[bytes]) -> int:
    topics = map(stored_topic, values)
    return sum(1 for topic in topics if levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic)))
