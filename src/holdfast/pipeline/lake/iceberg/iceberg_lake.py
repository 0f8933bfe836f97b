"""A lake that is an Iceberg table.

    LOCATION/
      metadata/                                     Iceberg's own: what each snapshot holds
      data/day=2026-07-01/p-1a2b3c4d/hf-….parquet   written by Spark's workers
      _holdfast/                                    lock or beat of who writes, erasures: as in a lake of Delta

A batch is one snapshot: its files, and in its summary how far they reach (`mark.py`). The catalog moves the table from
one snapshot to the next, or refuses.

1. All rows of a snapshot are at or below its mark, by shard, and nothing that is there is missing but by an erasure.
2. A snapshot is committed on the one that this object has read, or not at all. pyiceberg would try again on top of what
   another writer has added: it is kept from that.
3. Whether a commit happened is read from the table, if the answer to it was lost, or was a refusal: a snapshot has a
   unique number. Until then its manifests stay, and those of a commit that did not happen stay for good.
4. When `commit` returns, the batch survives a power loss, as far as the catalog does.
5. What another program replaces, row for row (`replace`, as compaction does), is accepted, also while a batch is being
   written. Whatever else it does is refused: no snapshot of ours stands on it (`refuse_strangers`).
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pyiceberg.catalog import URI, WAREHOUSE_LOCATION
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.update.snapshot import UpdateSnapshot
from sqlalchemy.exc import IntegrityError

from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.lake.delta_files import DataFile
from holdfast.pipeline.lake.iceberg.catalog import CATALOG_ERRORS, OpenCatalog, refuse_missing_file
from holdfast.pipeline.lake.iceberg.mark import MARK, Mark, TableState, operation_of, table_state
from holdfast.pipeline.lake.iceberg.table_files import (
    data_file,
    described_file,
    differing_columns,
    file_format,
    has_our_partitions,
    missing_columns,
    partition_spec,
    table_schema,
)
from holdfast.pipeline.lake.lake_files import STATISTICS, DataFileForm
from holdfast.pipeline.lake.store import LakeStore
from holdfast.pipeline.lake.store_options import parse_address
from holdfast.pipeline.source.offsets import NOWHERE, Offsets
from holdfast.pipeline.spark.fault_points import fault

#: Properties of the table, and parts of a snapshot's summary. Never change.
ARCHIVE: Final = "holdfast.archive"
ABOUT: Final = "holdfast.about"
#: Commits that may be refused because another program has replaced files meanwhile.
_TRIES: Final = 5
_PROPERTIES: Final = {
    TableProperties.FORMAT_VERSION: "2",
    # A snapshot adds a manifest: they are joined as they grow many.
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
    TableProperties.METADATA_PREVIOUS_VERSIONS_MAX: "100",
    TableProperties.PARQUET_COMPRESSION: "zstd",
    # Of topics, publishers and payloads nothing may stand in the metadata, also where another program rewrites files.
    TableProperties.DEFAULT_WRITE_METRICS_MODE: "none",
    **{f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{name}": "full" for name in STATISTICS},
}


class IcebergLake:
    """The table as of one snapshot, until `refresh` or `commit`."""

    def __init__(self, catalog: OpenCatalog, table: Table) -> None:
        self.catalog: Final = catalog
        self.table = table
        self.name: Final = table.properties.get(ARCHIVE, "")
        self.store: Final = _store_of(catalog.address, table)
        self._state: TableState
        self._mark: Mark
        #: Of this writer; None until it has claimed the table.
        self._taken: int | None = None
        self._read_state()

    @classmethod
    def open(cls, where: str) -> "IcebergLake":
        """SettingsError if there is none."""
        refuse_missing_file(where)
        catalog = OpenCatalog.at(where)
        table = catalog.load()
        if table is None:
            raise SettingsError(
                f"{catalog.address} is no lake: no such table is there; holdfast spark archive makes it"
            )
        return cls(catalog, table)

    @classmethod
    def open_or_make(cls, where: str, name: str) -> "IcebergLake":
        """For an archive of this name. SettingsError if the table belongs to something else."""
        catalog = OpenCatalog.at(where)
        table = catalog.load()
        if table is None:
            table = _make(catalog, name)
        owner = table.properties.get(ARCHIVE)
        if owner != name:
            raise SettingsError(
                f"{catalog.address} is the lake of the archive {owner!r}, not of {name!r}; give --name {owner}, or "
                f"another table"
                if owner
                else f"{catalog.address} is an Iceberg table that no archive made; name another table"
            )
        lake = cls(catalog, table)
        lake.check_schema()
        return lake

    def __str__(self) -> str:
        return self.catalog.address

    @property
    def offsets(self) -> Offsets:
        return self._mark.end

    @property
    def version(self) -> int:
        """The number of the newest snapshot; 0 if there is none."""
        return self.table.last_sequence_number

    @property
    def form(self) -> DataFileForm:
        return file_format(self.table.schema())

    def refresh(self) -> None:
        table = self.catalog.load()
        if table is None or table.metadata.table_uuid != self.table.metadata.table_uuid:
            raise PermanentError(f"the lake {self} was dropped meanwhile; restore it, or archive into another table")
        self.table = table
        self._read_state()

    def _read_state(self) -> None:
        self._state = table_state(self.table.metadata)
        if self._state.mark is None:
            raise PermanentError(
                f"the lake {self} has no mark of how far it is: no snapshot that is left has one, and its rows were "
                f"changed since, or it was rolled back behind the oldest; restore a snapshot of the archive, or "
                f"archive into another table"
            )
        self._mark = self._state.mark

    # ---- the writer

    @property
    def claim(self) -> int:
        return self._mark.claim

    def take_claim(self, claim: int, about: Mapping[str, Any]) -> None:
        self.check_claim()
        self._change([], [], claim, self.offsets, about)
        self._taken = claim

    def check_claim(self) -> None:
        """PermanentError if the table was claimed by another writer: it has replaced this one."""
        if self._taken is not None and self._mark.claim != self._taken:
            raise PermanentError(f"another process has taken {self} over; this one stops")

    def fence(self) -> None:
        """Move the table on without a file: what was asked for on top of this snapshot can happen no more.

        PermanentError: it has happened meanwhile.
        """
        self._change([], [], self.claim, self.offsets, {"fenced": self.version})

    def check_schema(self) -> None:
        """PermanentError if a column is of another type than here, or if the table is partitioned otherwise."""
        for column, theirs, ours in differing_columns(self.table.schema()):
            raise PermanentError(
                f"the lake {self} has a column {column} of type {theirs}, and here it is {ours}; use another table"
            )
        if not has_our_partitions(self.table.metadata):
            raise PermanentError(
                f"the lake {self} is partitioned by {self.table.spec()}, and an archive writes day(ts) and pattern; "
                f"give it these back, or use another table"
            )

    def evolve(self) -> None:
        """Add the columns that this Holdfast has and the table has not."""
        self.check_schema()
        new = missing_columns(self.table.schema())
        if not new:
            return
        with self.catalog.errors(TransientError, "cannot be written"), self.table.update_schema() as update:
            for column in new:
                update.add_column(column.name, column.field_type)
        self.refresh()

    def refuse_strangers(self) -> None:
        """PermanentError if rows were written or removed by something else than an archive and its upkeep."""
        if not self._state.strange:
            return
        last = self._state.strange[-1]
        summary = last.summary
        by = None if summary is None else summary["engine-name"] or summary["spark.app.id"]
        raise PermanentError(
            f"the lake {self} was changed by something else: snapshot {last.snapshot_id} is a "
            f"{operation_of(last).value} by {by or 'an unknown program'}; roll the table back to snapshot "
            f"{last.parent_snapshot_id}, or archive into another table"
        )

    # ---- files

    def list_files(self) -> list[dict[str, Any]]:
        with self.catalog.errors(TransientError, "cannot be read"):
            found = []
            for task in self.table.scan().plan_files():
                if task.delete_files:
                    raise PermanentError(
                        f"the lake {self} has files that name deleted rows ({task.file.file_path}), and they would be "
                        f"read again here; have the program that deleted them rewrite the data files"
                    )
                found.append(described_file(task.file, self.path_of(task.file.file_path), self.table.metadata))
            return found

    def iter_files(self) -> Iterator[dict[str, Any]]:
        return iter(self.list_files())

    def path_of(self, location: str) -> str:
        """Of a file in the table's own place. PermanentError if it is elsewhere."""
        beginning = f"{self.store.address}/"
        text = location if "://" in location or location.startswith("/") else location.replace("file:/", "file:///")
        if "://" in text:
            scheme, _, rest = text.partition("://")
            text = rest if scheme == "file" else f"{'s3' if scheme == 's3a' else scheme}://{rest}"
        if not text.startswith(beginning):
            raise PermanentError(f"the lake {self} has a file outside of {self.store}: {location}; copy it there")
        return text.removeprefix(beginning)

    # ---- changes

    def commit(self, end: Offsets, files: Sequence[DataFile], metadata: Mapping[str, Any]) -> int:
        """Add a batch that began at `offsets`; the version that has it. `metadata` is for people.

        Survives: a power loss, when it has returned; a kill, as a whole or not at all.
        """
        moved = self.offsets | {
            shard: offset for shard, offset in end.items() if offset != self.offsets.get(shard, NOWHERE)
        }
        self._change(files, [], self.claim, moved, metadata)
        return self.version

    def replace(self, gone: Sequence[Mapping[str, Any]], files: Sequence[DataFile], metadata: Mapping[str, Any]) -> int:
        """Take files out of the table, as `list_files` names them, and put others in; the version that has it."""
        self._change(files, [file["path"] for file in gone], self.claim, self.offsets, metadata)
        return self.version

    def _change(
        self,
        files: Sequence[DataFile],
        gone: Sequence[str],
        claim: int,
        end: Offsets,
        about: Mapping[str, Any],
    ) -> None:
        """One snapshot, on top of the one that was read."""
        self.check_claim()
        before = self._mark
        for attempt in range(_TRIES):
            # What lies under a snapshot with a mark is not looked at again.
            self.refuse_strangers()
            transaction, own_id = self._staged(files, gone, claim, end, about)
            if files:
                fault("archive-staged")
            try:
                transaction.commit_transaction()
            except CATALOG_ERRORS as error:
                refused = isinstance(error, CommitFailedException)
                hidden = None if self.catalog.secrets else error
                said = self.catalog.describe(error)
                self.refresh()
                if self.table.snapshot_by_id(own_id) is not None:
                    return
                self.check_claim()
                if refused and self._mark != before:
                    raise PermanentError(f"another process wrote to the lake {self}: {said}") from hidden
                self.refuse_strangers()
                if not refused or attempt + 1 == _TRIES or gone:
                    raise self.catalog.translate(error, TransientError, "cannot be written") from hidden
                # Files were replaced meanwhile: the same again, on top of that.
            else:
                self.refresh()
                return

    def _staged(
        self, files: Sequence[DataFile], gone: Sequence[str], claim: int, end: Offsets, about: Mapping[str, Any]
    ) -> tuple[Transaction, int]:
        """A transaction whose manifests are written, and the number of its snapshot."""
        metadata = self.table.metadata
        rows = sum(file.rows for file in files)
        known = {file["path"]: file for file in self.list_files()} if gone else {}
        with self.catalog.errors(TransientError, "cannot be written"):
            transaction = _without_retries(self.table).transaction()
            mark = Mark(
                claim,
                end,
                self._records() + rows - sum(known[path]["num_records"] for path in gone),
                metadata.next_sequence_number(),
            )
            summary = {MARK: mark.encode(), ABOUT: json.dumps(about, sort_keys=True)}
            update: UpdateSnapshot = transaction.update_snapshot(snapshot_properties=summary)
            producer = update.overwrite() if gone else update.merge_append()
            for file in files:
                producer.append_data_file(data_file(file, self.table.location(), metadata))
            if gone:
                wanted = set(gone)
                for task in self.table.scan().plan_files():
                    if described_file(task.file, self.path_of(task.file.file_path), metadata)["path"] in wanted:
                        producer.delete_data_file(task.file)
            producer.commit()
            # It would remove the manifests of a commit that is refused, also where that is our own, asked for again.
            transaction._snapshot_producers.clear()
            transaction.set_properties({MARK: mark.encode()})
        return transaction, producer.snapshot_id

    def _records(self) -> int:
        """Rows of the newest snapshot, as Iceberg counts them."""
        snapshot = self.table.current_snapshot()
        return 0 if snapshot is None or snapshot.summary is None else int(snapshot.summary["total-records"] or 0)


def _without_retries(table: Table) -> Table:
    """The same table, with which pyiceberg tries a commit once: it would add a batch behind that of another writer."""
    once = copy.copy(table)
    properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
    once.metadata = table.metadata.model_copy(update={"properties": properties})
    return once


def _make(catalog: OpenCatalog, name: str) -> Table:
    """An empty table. Of two who make it, one does, and both go on."""
    warehouse = catalog.catalog.properties.get(WAREHOUSE_LOCATION, "")
    if not warehouse and not str(catalog.catalog.properties[URI]).startswith("http"):
        raise SettingsError(
            f"the catalog {catalog.name} does not say where tables lie: set "
            f"PYICEBERG_CATALOG__{catalog.name.upper()}__WAREHOUSE to a folder or s3://BUCKET/PATH"
        )
    if not str(catalog.catalog.properties[URI]).startswith("http"):
        _check_place(catalog.address, warehouse)
    schema = table_schema()
    with catalog.errors(PermanentError, "cannot be made"):
        # A catalog in SQL finds that it is there in one of two ways.
        with suppress(NamespaceAlreadyExistsError, IntegrityError):
            catalog.catalog.create_namespace(catalog.identifier[:-1])
        try:
            return catalog.catalog.create_table(
                catalog.identifier,
                schema,
                partition_spec=partition_spec(schema),
                properties={**_PROPERTIES, ARCHIVE: name},
            )
        except TableAlreadyExistsError:
            table = catalog.load()
            assert table is not None, "it is there"
            return table


def _store_of(address: str, table: Table) -> LakeStore:
    location = table.location().rstrip("/")
    _check_place(address, location)
    return LakeStore.at(location)


def _check_place(address: str, location: str) -> None:
    if parse_address(location).kind not in ("", "s3"):
        raise SettingsError(
            f"the lake {address} lies at {location}, and has to lie in a folder, or at s3://BUCKET/PATH; name another "
            f"warehouse"
        )
