"""What the archive needs of the table that it fills, whatever its format: Delta (`lake.py`) or Iceberg (`iceberg/`).

1. The offsets are part of the table: rows and how far they reach change in one transaction, or neither does.
2. A transaction that does not begin at what this object has read is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

import pyarrow.compute as pc  # type: ignore[import-untyped]

from holdfast.model.errors import TransientError
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.lake_files import DataFileForm
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.source.offsets import Offsets


class LakeRow(NamedTuple):
    """Which message a row is."""

    shard: int
    position_us: int
    serial: int


class ArchiveTable(Protocol):
    """As of one version, until `refresh` or `commit`."""

    #: Of the archive that fills it.
    @property
    def name(self) -> str: ...

    @property
    def store(self) -> LakeStore:
        """Where its files lie."""

    @property
    def form(self) -> DataFileForm: ...

    @property
    def offsets(self) -> Offsets: ...

    @property
    def version(self) -> int: ...

    def refresh(self) -> None: ...

    def list_files(self) -> list[dict[str, Any]]:
        """With `path`, quoted; `size_bytes`, `num_records`, `partition.day`, `partition.pattern`, `min.*`, `max.*`."""

    def iter_files(self) -> Iterator[dict[str, Any]]:
        """The same, where it can be some at a time."""

    def commit(self, end: Offsets, files: Sequence[DataFile], metadata: Mapping[str, Any]) -> int:
        """Add a batch that began at `offsets`; the version that has it. `metadata` is for people.

        Survives: a power loss, when it has returned; a kill, as a whole or not at all.
        """


class WrittenTable(Protocol):
    """What the writer of a table needs of it (`writer.py`)."""

    @property
    def store(self) -> LakeStore: ...

    @property
    def version(self) -> int: ...

    @property
    def claim(self) -> int:
        """How often it was claimed and released: odd while a writer has it."""

    def refresh(self) -> None: ...

    def take_claim(self, claim: int, about: Mapping[str, Any]) -> None:
        """Move the claim in a transaction, and have it in every later one. PermanentError: another was faster."""

    def refuse_strangers(self) -> None:
        """PermanentError if rows were written or removed by something else than an archive and its upkeep."""

    def evolve(self) -> None:
        """Add the columns that this Holdfast has and the table has not. PermanentError if one is of another type."""


def newest_row(table: ArchiveTable) -> LakeRow | None:
    """One of the newest rows; None if there are none."""
    newest = max(table.iter_files(), key=lambda file: file.get("max.offset") or 0, default=None)
    if newest is None:
        return None
    with (
        table.store.errors(TransientError, f"the lake {table.store} cannot be read"),
        table.store.parquet(unquote(newest["path"])) as file,
    ):
        rows = file.read_row_group(file.num_row_groups - 1, columns=["shard", "offset", "serial"])
    last = rows.take([pc.index(rows["offset"], pc.max(rows["offset"])).as_py()]).to_pylist()[0]
    return LakeRow(last["shard"], last["offset"], last["serial"])
