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


def add_action(file: DataFile, partition: Mapping[str, str | None]) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=dict(partition),
        modification_time=file.modified_ms,
        data_change=True,
        stats=file.stats,
    )


def append(
    folder: Path,
    table: DeltaTable,
    actions: Sequence[AddAction | RemoveAction],
    partitions: Sequence[str],
    marks: Mapping[str, int],
    metadata: Mapping[str, Any],
    what: str = "table",
) -> DeltaTable:
    """Change files and marks in one transaction; the table as it is then. `metadata` is for people.

    Survives: a power loss, when it has returned; a kill, as a whole or not at all.
    """
    properties = CommitProperties(
        custom_metadata={"holdfast": dict(metadata)},
        app_transactions=[Transaction(name, number) for name, number in marks.items()],
    )
    before = int(table.version())
    try:
        # Delta refuses it if another transaction has moved the same marks since this version.
        table.create_write_transaction(
            list(actions), "append", table.schema(), partition_by=list(partitions), commit_properties=properties
        )
    except CommitFailedError as error:
        raise PermanentError(f"another process wrote to the {what} {folder}: {error}") from error
    except (DeltaError, OSError) as error:
        raise TransientError(f"the {what} {folder} cannot be written: {error}") from error
    after = DeltaTable(str(folder))
    sync_log(folder, before, int(after.version()))
    return after


def sync_log(folder: Path, since_version: int, version: int) -> None:
    """Have all transactions behind a version on the disk: Delta itself does not wait for that."""
    log = folder / LOG
    for number in range(since_version + 1, version + 1):
        path = log / f"{number:020}.json"
        if path.exists():
            sync_path(path)
    sync_path(log)
    sync_path(folder)
