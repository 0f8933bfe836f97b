"""A lake: a Delta table of archived messages, which records how much of the log is in it.

    LAKE/
      _delta_log/                       Delta's own: one file per transaction
      day=2026-07-01/p-1a2b3c4d/hf-….parquet
      _holdfast/lock, unfinished        who writes, and whether a writer was killed

A batch is one transaction of Delta: its files, and for each shard the last position and serial in them, as *application
transactions* (`txn`). So the messages and how far they reach cannot come apart:

1. All rows of a version of the table are at or below the offsets of that version, by shard, and nothing that is there
   is missing but by an erasure or its age (`erasures.py`).
2. A transaction moves the offsets from those that its batch began at, or it does not happen.
3. When `commit` returns, the batch survives a power loss.

There is no second record of progress, so there is no moment at which two records could differ.

    holdfast/NAME/shards              one more than the highest shard              in the Delta log; never change
    holdfast/NAME/3/position          the last position of shard 3 that is in the table
    holdfast/NAME/3/serial            its serial
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import RemoveAction

from holdfast.history.arrow.message_batches import SCHEMA
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.delta_log import DeltaFolder, add_action
from holdfast.pipeline.lake.lake_files import DAY, PATTERN, STATISTICS
from holdfast.pipeline.source.offsets import NOWHERE, Offset, Offsets

PARTITIONS: Final = [DAY, PATTERN]
#: Next to Delta's folder; the underscore hides both from readers.
OWN_FOLDER: Final = "_holdfast"
_ABOUT: Final = "Messages of a Holdfast broker"
#: Of topics, publishers and payloads nothing may stand in Delta's log: files can be rewritten, the log cannot.
_PROPERTIES: Final = {"delta.dataSkippingStatsColumns": ",".join(STATISTICS)}

#: Every column may be null: one that a Holdfast did not know yet is.
TABLE_SCHEMA: Final = pa.schema(
    [field.with_nullable(True) for field in SCHEMA] + [pa.field(DAY, pa.date32()), pa.field(PATTERN, pa.string())]
)


class Lake(DeltaFolder):
    """The table as of one version, until `refresh` or `commit`."""

    def __init__(self, folder: Path, table: DeltaTable) -> None:
        super().__init__(folder, table)
        #: Of the archive that fills it.
        self.name: Final = str(table.metadata().name or "")
        self.offsets: Offsets = self._read_offsets()

    @classmethod
    def open(cls, folder: Path) -> "Lake":
        """SettingsError if there is none."""
        try:
            return cls(folder, DeltaTable(str(folder)))
        except TableNotFoundError:
            raise SettingsError(
                f"{folder} is no lake: it holds no Delta table; holdfast spark archive makes one"
            ) from None
        except (DeltaError, OSError) as error:
            raise PermanentError(f"the lake {folder} cannot be read: {error}") from error

    @classmethod
    def open_or_make(cls, folder: Path, name: str) -> "Lake":
        """For an archive of this name. SettingsError if the folder belongs to something else."""
        if not DeltaTable.is_deltatable(str(folder)):
            strange = [path.name for path in folder.iterdir() if path.name != OWN_FOLDER]
            if strange:
                raise SettingsError(f"{folder} is no lake, and it is not empty ({strange[0]}); name another folder")
            # "ignore": a run that was killed after Delta's first transaction left a whole table.
            schema = Schema.from_arrow(TABLE_SCHEMA)
            DeltaTable.create(
                str(folder),
                schema,
                mode="ignore",
                partition_by=PARTITIONS,
                name=name,
                description=_ABOUT,
                configuration=_PROPERTIES,
            )
        lake = cls.open(folder)
        if lake.name != name:
            raise SettingsError(
                f"{folder} is the lake of the archive {lake.name!r}, not of {name!r}; "
                f"give --name {lake.name}, or another folder"
                if lake.name
                else f"{folder} is a Delta table that no archive made; name another folder"
            )
        lake.evolve()
        return lake

    def refresh(self) -> None:
        super().refresh()
        self.offsets = self._read_offsets()

    def _read_offsets(self) -> Offsets:
        mark, found = f"holdfast/{self.name}", self.table.transaction_version
        offsets = {}
        for shard in range(found(f"{mark}/shards") or 0):
            position_us, serial = found(f"{mark}/{shard}/position"), found(f"{mark}/{shard}/serial")
            if position_us is not None and serial is not None:
                offsets[shard] = Offset(position_us, serial)
        return offsets

    def evolve(self) -> None:
        """Add the columns that this Holdfast has and the table has not. PermanentError if one is of another type."""
        known = {field.name: field for field in self.table.schema().fields}
        wanted = Schema.from_arrow(TABLE_SCHEMA).fields
        for field in wanted:
            if field.name in known and known[field.name].type != field.type:
                raise PermanentError(
                    f"the lake {self.folder} has a column {field.name} of type {known[field.name].type}, and here it "
                    f"is {field.type}; use another lake"
                )
        new = [field for field in wanted if field.name not in known]
        if new:
            self.table.alter.add_columns(new)
            self.refresh()
        if not _PROPERTIES.items() <= self.table.metadata().configuration.items():
            self.table.alter.set_table_properties(dict(_PROPERTIES))
            self.refresh()

    def commit(self, end: Offsets, files: Sequence[DataFile], metadata: Mapping[str, Any]) -> int:
        """Add a batch that began at `offsets`; the version that has it. `metadata` is for people.

        Survives: a power loss, when it has returned; a kill, as a whole or not at all.
        """
        moved = {shard: offset for shard, offset in end.items() if offset != self.offsets.get(shard, NOWHERE)}
        mark = f"holdfast/{self.name}"
        marks = {f"{mark}/shards": max(end, default=-1) + 1}
        for shard, offset in moved.items():
            marks[f"{mark}/{shard}/position"] = offset.position_us
            marks[f"{mark}/{shard}/serial"] = offset.serial
        self.append([add_action(file) for file in files], PARTITIONS, marks, metadata, "lake")
        return self.version

    def replace(self, gone: Sequence[Mapping[str, Any]], files: Sequence[DataFile], metadata: Mapping[str, Any]) -> int:
        """Take files out of the table, as `list_files` names them, and put others in; the version that has it.

        Survives: as `commit`. What is taken out lies there until it is vacuumed.
        """
        now_ms = time.time_ns() // 1_000_000
        removed = [
            RemoveAction(
                path=unquote(file["path"]),  # it is quoted again on its way into Delta's log
                data_change=True,
                deletion_timestamp=now_ms,
                size=file["size_bytes"],
                partition_values={DAY: file["partition.day"].isoformat(), PATTERN: file["partition.pattern"]},
            )
            for file in gone
        ]
        self.append([*removed, *[add_action(file) for file in files]], PARTITIONS, {}, metadata, "lake")
        there = set(self.table.file_uris())
        if any(str(self.folder / unquote(file["path"])) in there for file in gone):
            raise PermanentError(f"files of the lake {self.folder} were taken out, and Delta has them still")
        return self.version
