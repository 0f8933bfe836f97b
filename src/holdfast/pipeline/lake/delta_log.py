"""Transactions of Delta tables: what lakes and declared pipelines have in common.

A transaction happens as a whole or not at all: files, and marks, which are numbers under names and say how far the
table is. There is no other record of that.

1. Two transactions that move the same mark exclude each other: the one that comes second is refused by Delta.
2. Whether a transaction happened is read from the table, if the answer to it was lost: each has an id of its own. A
   store that is asked again because it did not answer would refuse the second time what it did the first time.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from holdfast.files.replacement import sync_path
from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeStore

LOG: Final = "_delta_log"
#: Of what a transaction says about itself: its own part, and in that its id.
ABOUT: Final = "holdfast"
_ID: Final = "id"


class StoredTable:
    """A Delta table in a store, as of one version, until it is changed or refreshed."""

    def __init__(self, store: LakeStore, table: DeltaTable) -> None:
        self.store: Final = store
        self.table = table
        #: Marks that every transaction carries, so that a writer who was replaced is refused (`writer.py`).
        self.fence: Mapping[str, int] = {}

    @property
    def version(self) -> int:
        return int(self.table.version())

    def refresh(self) -> None:
        with self.store.errors(TransientError, f"{self.store} cannot be read"):
            if self.store.folder is None:
                # Each transaction is a request, and this reads those that are new.
                self.table.update_incremental()
            else:
                self.table = self.store.table()

    def sync(self, since_version: int) -> None:
        """Have all transactions behind a version on the disk: Delta itself does not wait for that."""
        if self.store.folder is None:
            return
        log = self.store.folder / LOG
        for number in range(since_version + 1, self.version + 1):
            path = log / f"{number:020}.json"
            if path.exists():
                sync_path(path)
        sync_path(log)
        sync_path(self.store.folder)

    def check_claim(self) -> None:
        """PermanentError if this version was made under the claim of another writer: it has replaced this one."""
        for mark, number in self.fence.items():
            if self.table.transaction_version(mark) != number:
                raise PermanentError(f"another process has taken {self.store} over; this one stops")

    def fenced(self) -> CommitProperties:
        """For a transaction that Delta makes itself. PermanentError if another writer has replaced this one."""
        self.check_claim()
        return CommitProperties(
            custom_metadata={ABOUT: {}}, app_transactions=[Transaction(*mark) for mark in self.fence.items()]
        )

    def append(
        self,
        actions: Sequence[AddAction | RemoveAction],
        partitions: Sequence[str],
        marks: Mapping[str, int],
        metadata: Mapping[str, Any],
        what: str = "table",
    ) -> None:
        """Change files and marks in one transaction. `metadata` is for people.

        PermanentError: another writer was faster. Survives: a power loss, when it has returned; a kill, as a whole or
        not at all.
        """
        # Delta only looks at what came behind this version, which may be younger than the other's claim.
        self.check_claim()
        own_id = uuid.uuid4().hex
        properties = CommitProperties(
            custom_metadata={ABOUT: {**metadata, _ID: own_id}},
            app_transactions=[Transaction(*mark) for mark in {**self.fence, **marks}.items()],
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
        except STORE_ERRORS as error:
            self.refresh()
            if not self._has(own_id, before):
                hidden = None if self.store.options.secrets else error
                if isinstance(error, CommitFailedError):
                    said = self.store.describe(error)
                    raise PermanentError(f"another process wrote to the {what} {self.store}: {said}") from hidden
                text = f"the {what} {self.store} cannot be written"
                raise self.store.translate(error, TransientError, text) from hidden
        else:
            self.refresh()
        self.sync(before)

    def _has(self, own_id: str, since_version: int) -> bool:
        """Whether a transaction behind a version has this id."""
        newer = self.version - since_version
        if newer <= 0:
            return False
        with self.store.errors(TransientError, f"{self.store} cannot be read"):
            return any(dict(one.get(ABOUT) or {}).get(_ID) == own_id for one in self.table.history(newer))


def add_action(file: DataFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=file.modified_ms,
        data_change=True,
        stats=file.stats,
    )
