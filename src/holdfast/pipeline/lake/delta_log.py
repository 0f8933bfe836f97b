"""Transactions of Delta tables: what lakes and declared pipelines have in common.

A transaction happens as a whole or not at all: files, and marks, which are numbers under names and say how far the
table is. There is no other record of that.

1. Two transactions that move the same mark exclude each other: the one that comes second is refused by Delta.
2. What is taken out is named as Delta's library names it. A file whose entry has another name, or a deletion vector, is
   not taken out by that: its rows would be there beside those in its place. Such files stay (`is_plain_name`,
   `names_with_deletions`).
3. Whether a transaction happened is read from the table, if the answer to it was lost: each has a unique id. A
   store that is asked again because it did not answer would refuse the second time what it did the first time.
"""

import json
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa  # type: ignore[import-untyped]
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
#: What Delta's library leaves as it is in a name, beside letters, digits and `_.-~`.
_PLAIN: Final = "/!$&'()+,:;=@"
#: Files whose entries are decoded at once.
_ENTRIES: Final = 4_096


class OldFile(NamedTuple):
    """A file that a transaction takes out of the table."""

    #: As Delta names it.
    name: str
    size_bytes: int
    partition: Mapping[str, str | None]


class StoredTable(ABC):
    """A Delta table in a store, as of one version, until it is changed or refreshed."""

    #: The columns that it is partitioned by; the first is the day.
    partitions: ClassVar[tuple[str, ...]]
    #: Columns whose values repeat, or whether all do.
    repeating: ClassVar[tuple[str, ...] | bool]
    #: How often Delta itself tries a transaction again behind one of another process. None: often.
    retries: ClassVar[int | None] = None

    def __init__(self, store: LakeStore, table: DeltaTable) -> None:
        self.store: Final = store
        self.table = table
        #: Marks that every transaction carries, so that a writer who was replaced is refused (`writer.py`).
        self.fence: Mapping[str, int] = {}

    @abstractmethod
    def place(self, partition: Mapping[str, str | None]) -> str:
        """The folder of new files of a partition, within the table."""

    @property
    def version(self) -> int:
        return int(self.table.version())

    @property
    def file_schema(self) -> Any:
        """Columns of the files: the partition is in Delta's log alone."""
        return pa.schema([one for one in pa.schema(self.table.schema()) if one.name not in self.partitions])

    def list_files(self) -> list[dict[str, Any]]:
        """The files of the table, with `path`, `size_bytes`, `num_records`, `partition.*`, `min.*` and `max.*`."""
        return list(self.iter_files())

    def iter_files(self) -> Iterator[dict[str, Any]]:
        """The same, some at a time: all of a large lake in a list take gigabytes."""
        for batch in pa.table(self.table.get_add_actions(flatten=True)).to_batches(_ENTRIES):
            yield from batch.to_pylist()

    def iter_names(self) -> Iterator[str]:
        """The names of the files, as Delta has them."""
        for batch in pa.table(self.table.get_add_actions(flatten=True)).select(["path"]).to_batches(_ENTRIES):
            yield from batch.column("path").to_pylist()

    def names_with_deletions(self) -> set[str]:
        """Files with a deletion vector, by `last_part`: not all of their rows are in the table."""
        if "deletionVectors" not in (self.table.protocol().reader_features or ()):
            return set()
        with self.store.errors(TransientError, f"{self.store} cannot be read"):
            found = pa.RecordBatchReader.from_stream(self.table.deletion_vectors())
            return {last_part(path) for batch in found for path in batch.column("filepath").to_pylist()}

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
            custom_metadata={ABOUT: {}},
            max_commit_retries=self.retries,
            app_transactions=[Transaction(*mark) for mark in self.fence.items()],
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
            max_commit_retries=self.retries,
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

    def replace_files(
        self,
        gone: Sequence[OldFile],
        files: Sequence[DataFile],
        metadata: Mapping[str, Any],
        *,
        data_change: bool,
        what: str = "table",
    ) -> None:
        """Take files out of the table and put others in, in one transaction. `data_change`: whether rows differ.

        Requires: no `obstacle`. PermanentError: another writer was faster. Survives: as `append`. What is taken out
        lies there until it is vacuumed.
        """
        now_ms = time.time_ns() // 1_000_000
        removed = [
            RemoveAction(
                path=unquote(file.name),  # it is quoted again on its way into Delta's log
                data_change=data_change,
                deletion_timestamp=now_ms,
                size=file.size_bytes,
                partition_values=dict(file.partition),
            )
            for file in gone
        ]
        added = [add_action(file, data_change=data_change) for file in files]
        self.append([*removed, *added], self.partitions, {}, metadata, what)

    def obstacle(self, files: Sequence[OldFile]) -> str:
        """Why one of them would be in the table when all are taken out, or is not in it as it was; empty: they can go.

        What another process did before this version is no conflict for Delta.
        """
        missing = {file.name for file in files}
        deleted = self.names_with_deletions()
        for name in sorted(missing):
            if not is_plain_name(name):
                return f"{name} has a name that Delta's library writes as {_quoted(name)}, and so is not found"
            if last_part(name) in deleted:
                return f"rows of {name} are deleted by a vector"
        for name in self.iter_names():
            missing.discard(name)
        return f"{min(missing)} was replaced meanwhile" if missing else ""

    def check_gone(self, gone: Sequence[OldFile]) -> None:
        """PermanentError if one of these files is in the table."""
        names = {file.name for file in gone}
        if any(name in names for name in self.iter_names()):
            raise PermanentError(f"files of {self.store} were taken out, and Delta has them still")

    def commit_info(self, version: int) -> dict[str, Any] | None:
        """What the transaction of a version says about itself; None if it is in Delta's log no more.

        The history that Delta gives has no numbers of versions, and what came behind the version that was read.
        """
        content = self.store.get(f"{LOG}/{version:020}.json")
        if content is None:
            return None
        for line in content.splitlines():
            if b'"commitInfo"' in line[:32]:
                found: dict[str, Any] = json.loads(line)["commitInfo"]
                return found
        return {}

    def _has(self, own_id: str, since_version: int) -> bool:
        """Whether a transaction behind a version has this id."""
        with self.store.errors(TransientError, f"{self.store} cannot be read"):
            newer = (self.commit_info(version) or {} for version in range(since_version + 1, self.version + 1))
            return any(dict(one.get(ABOUT) or {}).get(_ID) == own_id for one in newer)


def is_plain_name(name: str) -> bool:
    """Whether Delta's library gives a file this name: a file that another program has named is not found by its own.

    Programs in Java leave letters such as `ö` as they are.
    """
    return _quoted(name) == name


def _quoted(name: str) -> str:
    return quote(unquote(name), safe=_PLAIN)


def last_part(name: str) -> str:
    """Of a name or an address, which quote differently."""
    return unquote(name.rpartition("/")[2])


def add_action(file: DataFile, *, data_change: bool = True) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values=file.partition,
        modification_time=file.modified_ms,
        data_change=data_change,
        stats=file.stats,
    )
