"""A stream of Spark over a table of a pipeline, version by version: the rows that each transaction has added.

    {"version": 7}      everything up to version 7 of the table was read          in a checkpoint of Spark; never change

1. A version never changes, and neither does the order of its files and rows. So a batch reads the same each time.
2. Files that compaction wrote hold no new rows, and are left out.

Spark itself has no reader of Delta; this one reads what this pipeline has written, and nothing else.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from holdfast.model.errors import PermanentError

NAME: Final = "holdfast-table"
#: Delta's own folder.
LOG: Final = "_delta_log"
_VERSION: Final = "version"
_ENTRY: Final = re.compile(r"(\d{20})\.json")
#: Rows that a task reads, about.
_TASK_ROWS: Final = 200_000


class AddedFile(NamedTuple):
    path: str
    rows: int


@dataclass
class AddedFiles(InputPartition):
    """What one task reads."""

    paths: tuple[str, ...]


class TableSource(DataSource):
    """Options: `path`, and `maxrows` of a batch. The schema is given by who reads."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names, here and below
        return TableStreamReader(schema, Path(self.options["path"]), int(self.options["maxrows"]))


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Holds nothing open."""

    def __init__(self, schema: StructType, folder: Path, most_rows: int) -> None:
        self._schema: Final = to_arrow_schema(schema, timezone="UTC")
        self._folder: Final = folder
        self._most_rows: Final = most_rows
        #: Where a query ends that takes what is available now.
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # The table was made by it, without rows.
        return {_VERSION: 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        end: int = self._last() if self._target is None else self._target
        begun: int = start[_VERSION]
        if not isinstance(limit, ReadMaxRows):
            return {_VERSION: max(begun, end)}
        rows = 0
        for version in range(begun + 1, end + 1):
            rows += sum(file.rows for file in added_files(self._folder, version))
            # One version at least, however large, or it would never come further.
            if rows > limit.max_rows and version > begun + 1:
                return {_VERSION: version - 1}
        return {_VERSION: max(begun, end)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most_rows) if self._most_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._last()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return {_VERSION: self._last()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found = [
            file
            for version in range(start[_VERSION] + 1, end[_VERSION] + 1)
            for file in added_files(self._folder, version)
        ]
        tasks: list[list[str]] = []
        room = 0
        for file in found:
            if file.rows > room:
                tasks.append([])
                room = _TASK_ROWS
            tasks[-1].append(file.path)
            room -= file.rows
        return [AddedFiles(tuple(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, AddedFiles)
        for path in partition.paths:
            with pq.ParquetFile(self._folder / path) as file:
                for batch in file.iter_batches(columns=self._schema.names):
                    yield pa.RecordBatch.from_arrays(
                        [batch.column(field.name).cast(field.type) for field in self._schema], schema=self._schema
                    )

    def _last(self) -> int:
        found = [_ENTRY.fullmatch(path.name) for path in (self._folder / LOG).iterdir()]
        return max(int(each[1]) for each in found if each)


def added_files(folder: Path, version: int) -> list[AddedFile]:
    """The files with new rows that a version has."""
    try:
        text = (folder / LOG / f"{version:020}.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PermanentError(
            f"version {version} of the table {folder} is gone before it was read; begin again with another state folder"
        ) from None
    entries = [json.loads(line) for line in text.splitlines() if line.strip()]
    found = [entry["add"] for entry in entries if "add" in entry]
    return [
        AddedFile(unquote(file["path"]), int(json.loads(file["stats"])["numRecords"]))
        for file in found
        if file.get("dataChange", True)
    ]
