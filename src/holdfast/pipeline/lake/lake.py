"""A lake: a Delta table of archived messages, which records how much of the log is in it.

    LAKE/
      _delta_log/                       Delta's own: one file per transaction
      day=2026-07-01/p-1a2b3c4d/hf-….parquet
      _holdfast/lock, unfinished        of a folder: who writes, and whether a writer was killed
      _holdfast/writer                  of a store of objects: the beat of who writes (`writer.py`)

A batch is one transaction of Delta: its files, and for each shard the last position and serial in them, as *application
transactions* (`txn`). So the messages and how far they reach cannot come apart:

1. All rows of a version of the table are at or below the offsets of that version, by shard, and nothing that is there
   is missing but by an erasure or its age (`erasures.py`).
2. A transaction moves the offsets from those that its batch began at, or it does not happen.
3. When `commit` returns, the batch survives a power loss.
4. Whoever writes has checked that all rows were written by this archive: `refuse_strangers`. A transaction stands right
   behind the version that was checked, or does not happen: nothing that another program does is written over unseen.

There is no second record of progress, so there is no moment at which two records could differ.

    holdfast/NAME/shards              one more than the highest shard              in the Delta log; never change
    holdfast/NAME/3/position          the last position of shard 3 that is in the table
    holdfast/NAME/3/serial            its serial
    holdfast/NAME/writer              how often the lake was claimed and released   (`writer.py`)
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, ClassVar, Final
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from holdfast.history.arrow.message_batches import SCHEMA
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.delta_log import ABOUT, LOG, OldFile, StoredTable, add_action
from holdfast.pipeline.lake.lake_files import DAY, DELTA, PATTERN, REPEATING, STATISTICS, DataFileForm
from holdfast.pipeline.lake.store import STORE_ERRORS, LakeAddress, LakeStore
from holdfast.pipeline.source.offsets import NOWHERE, Offset, Offsets

PARTITIONS: Final = (DAY, PATTERN)
#: Next to Delta's folder; the underscore hides both from readers.
OWN_FOLDER: Final = "_holdfast"
#: Transactions that may be refused because another program has made one meanwhile.
_TRIES: Final = 5
_ABOUT: Final = "Messages of a Holdfast broker"
#: Of topics, publishers and payloads nothing may stand in Delta's log: files can be rewritten, the log cannot.
_PROPERTIES: Final = {"delta.dataSkippingStatsColumns": ",".join(STATISTICS)}

#: Transactions of Delta that leave the rows as they are.
_HARMLESS: Final = frozenset(
    {"CREATE TABLE", "OPTIMIZE", "VACUUM START", "VACUUM END", "ADD COLUMN", "SET TBLPROPERTIES", "FSCK"}
)

#: Every column may be null: one that a Holdfast did not know yet is.
TABLE_SCHEMA: Final = pa.schema(
    [field.with_nullable(True) for field in SCHEMA] + [pa.field(DAY, pa.date32()), pa.field(PATTERN, pa.string())]
)


class Lake(StoredTable):
    """The table as of one version, until `refresh` or `commit`."""

    form: Final[DataFileForm] = DELTA
    partitions: ClassVar = PARTITIONS
    repeating: ClassVar = REPEATING
    retries: ClassVar = 0

    def __init__(self, store: LakeStore, table: DeltaTable) -> None:
        super().__init__(store, table)
        #: Up to which version it is known that no other program has changed rows.
        self._checked = -1
        #: Of the archive that fills it.
        self.name: Final = str(table.metadata().name or "")
        self.offsets: Offsets = self._read_offsets()

    @classmethod
    def open(cls, where: LakeAddress) -> "Lake":
        """SettingsError if there is none."""
        store = LakeStore.at(where)
        with store.errors(PermanentError, f"the lake {store} cannot be read"):
            try:
                return cls(store, store.table())
            except TableNotFoundError as error:
                # Of a store, also one that cannot be asked.
                if store.kind and not isinstance(store.translate(error, PermanentError, ""), PermanentError):
                    raise
        raise SettingsError(f"{store} is no lake: it holds no Delta table; holdfast spark archive makes one")

    @classmethod
    def open_or_make(cls, where: LakeAddress, name: str) -> "Lake":
        """For an archive of this name. SettingsError if the place belongs to something else."""
        store = LakeStore.at(where)
        with store.errors(PermanentError, f"the lake {store} cannot be made"):
            if not store.has_table():
                strange = [path for path in store.list_paths() if not path.startswith((f"{OWN_FOLDER}/", f"{LOG}/"))]
                if strange:
                    raise SettingsError(f"{store} is no lake, and it is not empty ({strange[0]}); name another place")
                _make(store, name)
        lake = cls.open(store)
        if lake.name != name:
            raise SettingsError(
                f"{store} is the lake of the archive {lake.name!r}, not of {name!r}; "
                f"give --name {lake.name}, or another lake"
                if lake.name
                else f"{store} is a Delta table that no archive made; name another place"
            )
        lake.check_schema()
        return lake

    def place(self, partition: Mapping[str, str | None]) -> str:
        return self.form.place(partition[DAY] or "", partition[PATTERN] or "")

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

    def check_schema(self) -> None:
        """PermanentError if a column of the table is of another type than here."""
        known = {field.name: field for field in self.table.schema().fields}
        for field in Schema.from_arrow(TABLE_SCHEMA).fields:
            if field.name in known and known[field.name].type != field.type:
                raise PermanentError(
                    f"the lake {self.store} has a column {field.name} of type {known[field.name].type}, and here it "
                    f"is {field.type}; use another lake"
                )

    def evolve(self) -> None:
        """Add the columns that this Holdfast has and the table has not. PermanentError if one is of another type."""
        self.check_schema()
        known = {field.name for field in self.table.schema().fields}
        new = [field for field in Schema.from_arrow(TABLE_SCHEMA).fields if field.name not in known]
        with self.store.errors(TransientError, f"the lake {self.store} cannot be written"):
            if new:
                self.table.alter.add_columns(new, commit_properties=self.fenced())
                self.refresh()
            if not _PROPERTIES.items() <= self.table.metadata().configuration.items():
                self.table.alter.set_table_properties(dict(_PROPERTIES), commit_properties=self.fenced())
                self.refresh()

    def refuse_strangers(self) -> None:
        """PermanentError if rows were written or removed by something else than an archive and its upkeep.

        Looks at what happened since the last transaction of Holdfast: the writer of that one has looked at the rest.
        """
        own, strange, by = self.version, -1, ""
        with self.store.errors(TransientError, f"the lake {self.store} cannot be read"):
            while (info := self.commit_info(own)) is not None and ABOUT not in info:
                operation = info.get("operation", "change")
                if operation not in _HARMLESS:
                    strange, by = own, f"{operation} by {info.get('engineInfo') or 'an unknown program'}"
                own -= 1
            # Without one of its own, Delta has forgotten who wrote what.
            if strange < 0 or info is None or self._has_rows_of(own):
                self._checked = self.version
                return
        raise PermanentError(
            f"the lake {self.store} was changed by something else: version {strange} is a {by}; restore version {own} "
            f"of the table, or archive into another lake"
        )

    def _has_rows_of(self, version: int) -> bool:
        """Whether all that was done since was undone: the files are the same, and what is deleted in them."""
        before = self.store.table()
        before.load_as_version(version)
        if set(before.file_uris()) != set(self.table.file_uris()):
            return False
        return _vectors(before) == _vectors(self.table)

    @property
    def claim(self) -> int:
        return self.table.transaction_version(self._claim_mark) or 0

    def take_claim(self, claim: int, about: Mapping[str, Any]) -> None:
        self.append([], PARTITIONS, {self._claim_mark: claim}, about, "lake")
        self.fence = {self._claim_mark: claim}

    def append(
        self,
        actions: Sequence[AddAction | RemoveAction],
        partitions: Sequence[str],
        marks: Mapping[str, int],
        metadata: Mapping[str, Any],
        what: str = "lake",
    ) -> None:
        """As of any table; and PermanentError if another program has changed rows, up to this very transaction."""
        gone = {action.path for action in actions if isinstance(action, RemoveAction)}
        watched = {*self.fence, *marks}
        for _attempt in range(_TRIES):
            if self._checked != self.version:
                self.refuse_strangers()
            before = self.version
            known = {mark: self.table.transaction_version(mark) for mark in watched}
            try:
                super().append(actions, partitions, marks, metadata, what)
            except PermanentError:
                if self.version == before or any(self.table.transaction_version(mark) != known[mark] for mark in known):
                    raise
                self.refuse_strangers()
                if not self._has_paths(gone):
                    raise
                # Another program has replaced other files, or changed no row: the same again, behind that.
            else:
                self._checked = before + 1
                return
        raise TransientError(f"the lake {self.store} cannot be written: other programs change it all the time")

    def _has_paths(self, paths: Set[str]) -> bool:
        missing = set(paths)
        if missing:
            missing.difference_update(unquote(name) for name in self.iter_names())
        return not missing

    @property
    def _claim_mark(self) -> str:
        return f"holdfast/{self.name}/writer"

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

        PermanentError, and nothing is changed: as `check_replaceable`, or another writer was faster. Survives: as
        `commit`. What is taken out lies there until it is vacuumed.
        """
        old = self.check_replaceable(gone)
        self.replace_files(old, files, metadata, data_change=True, what="lake")
        self.check_gone(old)
        return self.version

    def check_replaceable(self, gone: Sequence[Mapping[str, Any]]) -> list[OldFile]:
        """PermanentError if one of these files has a name or a deletion vector with which it would stay."""
        old = [
            OldFile(
                file["path"],
                file["size_bytes"],
                {DAY: file["partition.day"].isoformat(), PATTERN: file["partition.pattern"]},
            )
            for file in gone
        ]
        if why := self.obstacle(old):
            raise PermanentError(
                f"nothing was replaced in the lake {self.store}: {why}; have the program that wrote this file rewrite "
                f"it (OPTIMIZE, REORG), and run this again"
            )
        return old


def _vectors(table: DeltaTable) -> dict[str, Any]:
    """Of files that have a deletion vector, by their names, which rows are left."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = pa.RecordBatchReader.from_stream(table.deletion_vectors())
    return {
        path: left
        for batch in found
        for path, left in zip(batch.column("filepath").to_pylist(), batch.column("selection_vector"), strict=True)
    }


def _make(store: LakeStore, name: str) -> None:
    """An empty table. Of two who make it, one does, and both go on."""
    try:
        DeltaTable.create(
            store.address,
            Schema.from_arrow(TABLE_SCHEMA),
            # A run that was killed after Delta's first transaction left a whole table.
            mode="ignore",
            partition_by=list(PARTITIONS),
            name=name,
            description=_ABOUT,
            configuration=_PROPERTIES,
            storage_options=store.delta_options,
            commit_properties=CommitProperties(custom_metadata={ABOUT: {}}),
        )
    except STORE_ERRORS:
        if not store.has_table():
            raise
