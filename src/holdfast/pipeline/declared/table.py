"""A table of a pipeline: a Delta table that one step fills, and that others read.

    holdfast/run/STEP      the last batch of the step that is in the table          in the Delta log; never change

1. A batch is one transaction, with its number as a mark. So a batch that Spark repeats, because it was killed before it
   noted that the batch is done, is found in the table and not written again.
2. A table belongs to one state folder: it has its id as a name. Batches of another state would be taken for those.
3. All rows of a version stay until `empty`: who reads version by version reads the same each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError

from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.declared.table_files import DAY, TableTarget, day_folder
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.delta_log import StoredTable, add_action
from holdfast.pipeline.lake.store import LakeStore

_ABOUT: Final = "Made by holdfast spark run"


class PipelineTable(StoredTable):
    """As of one version, until `commit`."""

    partitions: ClassVar = (DAY,)
    repeating: ClassVar = True

    def __init__(self, folder: Path, step: str, table: DeltaTable) -> None:
        super().__init__(LakeStore(str(folder)), table)
        self.folder: Final = folder
        self._mark: Final = f"holdfast/run/{step}"

    @classmethod
    def open_or_make(cls, folder: Path, step: str, state_id: str, schema: Any, *, is_new: bool) -> "PipelineTable":
        """SettingsError if it belongs to something else, or is gone although the state says that it was filled."""
        name = f"{state_id}/{step}"
        if not DeltaTable.is_deltatable(str(folder)):
            if not is_new:
                raise SettingsError(
                    f"{folder} is gone, and the state folder says how far it was filled; bring it back, or begin again "
                    f"with another state folder"
                )
            if folder.is_dir() and any(folder.iterdir()):
                raise SettingsError(f"{folder} is not empty, and no table of this pipeline; name another folder")
            with_day = pa.schema([*(field.with_nullable(True) for field in schema), pa.field(DAY, pa.date32())])
            DeltaTable.create(
                str(folder),
                Schema.from_arrow(with_day),
                mode="ignore",
                partition_by=[DAY],
                name=name,
                description=_ABOUT,
            )
        try:
            table = DeltaTable(str(folder))
        except (DeltaError, OSError) as error:
            raise PermanentError(f"the table {folder} cannot be read: {error}") from error
        if table.metadata().name != name:
            raise SettingsError(
                f"{folder} is a table that this pipeline did not fill from its state folder; name another folder, or "
                f"give the state folder that belongs to it"
            )
        return cls(folder, step, table)

    def target(self, columns: Iterable[str], time: str) -> TableTarget:
        """For tasks that write files of it, partitioned by the day of the column `time`."""
        return TableTarget(str(self.folder), tuple(columns), time)

    def place(self, partition: Mapping[str, str | None]) -> str:
        return day_folder(partition[DAY])

    def has(self, batch: int) -> bool:
        """Whether a batch is in it."""
        last = self.table.transaction_version(self._mark)
        return last is not None and last >= batch

    def commit(self, batch: int, files: Sequence[DataFile], metadata: Mapping[str, Any]) -> None:
        """Add a batch. Survives: a power loss, when it has returned; a kill, as a whole or not at all."""
        self.append([add_action(file) for file in files], self.partitions, {self._mark: batch}, metadata)

    def empty(self) -> None:
        """Drop all rows. Requires: all who read it are done with them."""
        paths = [Path(uri) for uri in self.table.file_uris()]
        if not paths:
            return
        before = self.version
        self.table.delete()
        self.refresh()
        self.sync(before)
        for path in paths:
            path.unlink(missing_ok=True)
