"""Transactions of Delta tables: what lakes and declared pipelines have in common.

A transaction happens as a whole or not at all: files, and marks, which are numbers under names and say how far the
table is. There is no other record of that.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from holdfast.files.replacement import sync_path
from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.delta_files import DataFile

LOG: Final = "_delta_log"


class DeltaFolder:
    """A Delta table in a folder, as of one version, until it is changed or refreshed."""

    def __init__(self, folder: Path, table: DeltaTable) -> None:
        self.folder: Final = folder
        self.table = table

    @property
    def version(self) -> int:
        return int(self.table.version())

    def refresh(self) -> None:
        self.table = DeltaTable(str(self.folder))

    def sync(self, since_version: int) -> None:
        """Have all transactions behind a version on the disk: Delta itself does not wait for that."""
        log = self.folder / LOG
        for number in range(since_version + 1, self.version + 1):
            path = log / f"{number:020}.json"
            if path.exists():
                sync_path(path)
        sync_path(log)
        sync_path(self.folder)

    def append(
        self,
        actions: Sequence[AddAction | RemoveAction],
        partitions: Sequence[str],
        marks: Mapping[str, int],
        metadata: Mapping[str, Any],
        what: str = "table",
    ) -> None:
        """Change files and marks in one transaction. `metadata` is for people.

        Survives: a power loss, when it has returned; a kill, as a whole or not at all.
        """
        properties = CommitProperties(
            custom_metadata={"holdfast": dict(metadata)},
            app_transactions=[Transaction(name, number) for name, number in marks.items()],
        )
        before = self.version
        try:
            # Delta refuses it if another transaction has moved the same marks since this version.
            self.table.create_write_transaction(
                list(actions),
                "append",
                self.table.schema(),
                partition_by=list(partitions),
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise PermanentError(f"another process wrote to the {what} {self.folder}: {error}") from error
        except (DeltaError, OSError) as error:
            raise TransientError(f"the {what} {self.folder} cannot be written: {error}") from error
        self.refresh()
        self.sync(before)


def add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=file.modified_ms,
        data_change=True,
        stats=file.stats,
    )
