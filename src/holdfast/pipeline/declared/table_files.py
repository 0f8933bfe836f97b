"""What a task of Spark does with the rows of a step: it writes them to files, one for each table and day.

A step has one table for its rows, and may have one for those that did not pass. A row says in `_rule` why it did not,
null if it did; rules that drop or fail are only counted. What comes back to the driver is names of files, and counts.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.pipeline.lake.delta_files import DataFile, DeltaFiles
from holdfast.pipeline.lake.store import LakeStore

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
    rows: list[DataFile]
    quarantine: list[DataFile]
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
        [DataFile(*file) for each in found for file in each["rows"]],
        [DataFile(*file) for each in found for file in each["quarantine"]],
        sum(each["passed"] for each in found),
        sum(each["messages"] for each in found),
        failed,
        examples,
    )


def _write(job: WriteTask, batches: Iterator[Any]) -> dict[str, Any]:
    passed = messages = 0
    failed: dict[str, int] = {}
    examples: dict[str, list[Any]] = {}
    with ExitStack() as stack:
        rows, quarantine = (
            None if target is None else stack.enter_context(DeltaFiles(LakeStore(target.folder), _HELD_BYTES, True))
            for target in (job.rows, job.quarantine)
        )
        for batch in batches:
            if FIRST in batch.schema.names:
                messages += pc.sum(batch.column(FIRST)).as_py() or 0
            good = batch
            if RULE in batch.schema.names:
                rules = batch.column(RULE)
                good = batch.filter(rules.is_null())
                _count(batch, failed, examples)
                _add(quarantine, job.quarantine, _kept(batch, job.kept))
            passed += good.num_rows
            _add(rows, job.rows, good)
        return {
            "rows": rows.close() if rows else [],
            "quarantine": quarantine.close() if quarantine else [],
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


def _add(files: DeltaFiles | None, target: TableTarget | None, batch: Any) -> None:
    """Rows into the files of their days, if they are to be written."""
    if files is None or target is None or not batch.num_rows:
        return
    kept = batch.select(list(target.columns))
    days = kept.column(target.time).cast(pa.date32())
    for day in pc.unique(days).to_pylist():
        if day is None:
            files.add(day_folder(None), {DAY: None}, (), kept.filter(days.is_null()))
        else:
            own = kept.filter(pc.equal(days, pa.scalar(day, pa.date32())))
            files.add(day_folder(day.isoformat()), {DAY: day.isoformat()}, (target.time,), own)
    files.limit_memory()


def day_folder(day: str | None) -> str:
    """Where the files of a day lie within the table; of rows without a time, if it is None."""
    return f"{DAY}={_NO_DAY if day is None else day}"
