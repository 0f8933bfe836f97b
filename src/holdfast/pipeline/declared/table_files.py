"""What a task of Spark does with the rows of a step: it writes them to files, one for each table and day.

A step has one table for its rows, and may have one for those that did not pass. A row says in `_rule` why it did not,
null if it did; rules that drop or fail are only counted. What comes back to the driver is names of files, and counts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.files.replacement import sync_path
from holdfast.pipeline.lake.delta_files import DataFile, OpenDeltaFile

DAY: Final = "day"
RULE: Final = "_rule"
WHY: Final = "_why"
#: Whether a row is the first of its message.
FIRST: Final = "_first"
#: What a task holds in memory, about, before it writes its largest row group early.
_HELD_BYTES: Final = 64 * 2**20
_NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
_RESULT: Final = pa.schema([pa.field("result", pa.string())])
RESULT_TYPE: Final = "result string"


class DayFile(NamedTuple):
    file: DataFile
    #: None: of rows without a time.
    day: str | None


@dataclass(frozen=True)
class TableTarget:
    """A table that a task writes to."""

    folder: str
    columns: tuple[str, ...]
    #: The column with the time, whose day is the partition.
    time: str


@dataclass(frozen=True)
class WriteTask:
    """What a task has to write; Spark sends it to the worker."""

    #: None: the table has the batch already, or is not wanted.
    rows: TableTarget | None
    quarantine: TableTarget | None = None
    #: Rules whose rows go into quarantine. Other rules' rows are counted, and one is given as an example.
    kept: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """As `mapInArrow` takes it."""
        result = json.dumps(_write(self, batches))
        yield pa.RecordBatch.from_pylist([{"result": result}], schema=_RESULT)


class StepFiles(NamedTuple):
    """What all tasks of a batch did."""

    rows: list[DayFile]
    quarantine: list[DayFile]
    passed: int
    messages: int
    #: By rule.
    failed: dict[str, int]
    #: A message that failed, by rule: its topic, shard and serial.
    examples: dict[str, list[Any]]


def gather_results(results: Sequence[str]) -> StepFiles:
    found = [json.loads(text) for text in results]
    failed: dict[str, int] = {}
    examples: dict[str, list[Any]] = {}
    for each in found:
        for rule, count in each["failed"].items():
            failed[rule] = failed.get(rule, 0) + count
        examples |= each["examples"]
    return StepFiles(
        [_file(file) for each in found for file in each["rows"]],
        [_file(file) for each in found for file in each["quarantine"]],
        sum(each["passed"] for each in found),
        sum(each["messages"] for each in found),
        failed,
        examples,
    )


def _file(found: list[Any]) -> DayFile:
    return DayFile(DataFile(*found[0]), found[1])


def _write(job: WriteTask, batches: Iterator[Any]) -> dict[str, Any]:
    passed = messages = 0
    failed: dict[str, int] = {}
    examples: dict[str, list[Any]] = {}
    with ExitStack() as stack:
        rows = None if job.rows is None else _Days(job.rows, stack)
        quarantine = None if job.quarantine is None else _Days(job.quarantine, stack)
        for batch in batches:
            if FIRST in batch.schema.names:
                messages += pc.sum(batch.column(FIRST)).as_py() or 0
            good = batch
            if RULE in batch.schema.names:
                rules = batch.column(RULE)
                good = batch.filter(rules.is_null())
                _count(batch, failed, examples)
                if quarantine is not None:
                    quarantine.add(_kept(batch, job.kept))
            passed += good.num_rows
            if rows is not None:
                rows.add(good)
        files = [[] if days is None else days.close() for days in (rows, quarantine)]
        stack.pop_all()
    return {
        "rows": files[0],
        "quarantine": files[1],
        "passed": passed,
        "messages": messages,
        "failed": failed,
        "examples": examples,
    }


def _count(batch: Any, failed: dict[str, int], examples: dict[str, list[Any]]) -> None:
    for counted in batch.column(RULE).drop_null().value_counts().to_pylist():
        rule = counted["values"]
        if rule not in failed:
            first = pc.index(batch.column(RULE), rule).as_py()
            examples[rule] = [batch.column(name)[first].as_py() for name in ("topic", "shard", "serial")]
        failed[rule] = failed.get(rule, 0) + counted["counts"]


def _kept(batch: Any, kept: Sequence[str]) -> Any:
    found = batch.filter(pc.is_in(batch.column(RULE), pa.array(kept, pa.string())))
    names = [{RULE: "rule", WHY: "why"}.get(name, name) for name in found.schema.names]
    return found.rename_columns(names)


class _Days:
    """The files of one table: one for each day."""

    def __init__(self, target: TableTarget, stack: ExitStack) -> None:
        self._target: Final = target
        self._folder: Final = Path(target.folder)
        self._stack: Final = stack
        self._files: Final[dict[date | None, OpenDeltaFile]] = {}

    def add(self, batch: Any) -> None:
        if not batch.num_rows:
            return
        kept = batch.select(list(self._target.columns))
        days = kept.column(self._target.time).cast(pa.date32())
        for day in pc.unique(days).to_pylist():
            chosen = days.is_null() if day is None else pc.equal(days, pa.scalar(day, pa.date32()))
            self._file(day, kept.schema).add(kept.filter(chosen))
        if sum(file.held_bytes for file in self._files.values()) > _HELD_BYTES:
            max(self._files.values(), key=lambda file: file.held_bytes).flush()

    def _file(self, day: date | None, schema: Any) -> OpenDeltaFile:
        file = self._files.get(day)
        if file is None:
            bounds = [] if day is None else [self._target.time]
            place = f"{DAY}={_NO_DAY if day is None else day.isoformat()}"
            file = self._files[day] = OpenDeltaFile(self._folder, place, schema, bounds, repeating=True)
            self._stack.callback(file.abandon)
        return file

    def close(self) -> list[DayFile]:
        """Ensures: files and their names survive a power loss."""
        files = [DayFile(file.close(), None if day is None else day.isoformat()) for day, file in self._files.items()]
        for folder in {(self._folder / file.file.path).parent for file in files}:
            sync_path(folder)
        if files:
            sync_path(self._folder)
        return files


def make_target(folder: Path, types: Mapping[str, str], time: str) -> TableTarget:
    return TableTarget(str(folder), tuple(types), time)
