"""What is missing from a lake on purpose: a table of erasures, with who erased what, and when.

    LAKE/_holdfast/erasures/        a Delta table; a row for each erasure and shard

1. A row is written before the messages go: whatever is missing has a row. A process that died in between has left one
   whose messages are still there, and is run again.
2. Rows name messages by their serials alone. The client or the filter stands in `what`: it has to be known later what
   was erased.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import write_deltalake

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.lake import OWN_FOLDER
from holdfast.pipeline.lake.serial_ranges import SerialRanges
from holdfast.pipeline.lake.store import LakeAddress, LakeStore

# Kinds of rows. On disk: never change.
#: Of a client, or of the topics of a filter.
ERASED: Final = "erased"
#: Whole days that were too old.
EXPIRED: Final = "expired"
#: Messages that were erased in the log before they were archived.
UNARCHIVED: Final = "unarchived"

_TABLE: Final = f"{OWN_FOLDER}/erasures"
_RANGE: Final = pa.struct([pa.field("first", pa.int64()), pa.field("last", pa.int64())])
SCHEMA: Final = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("by", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("what", pa.string()),
        pa.field("shard", pa.int32()),
        pa.field("rows", pa.int64()),
        # The serials that went, both ends included.
        pa.field("serials", pa.list_(_RANGE)),
    ]
)


def record_erasure(lake: LakeStore, *, kind: str, what: str, by: str, gone: Sequence[SerialRanges]) -> None:
    """Record serials before they are removed. Survives: a kill, when it has returned."""
    at = datetime.now(UTC)
    rows = [
        {
            "at": at,
            "by": by,
            "kind": kind,
            "what": what,
            "shard": part.shard,
            "rows": part.rows,
            "serials": [{"first": first, "last": last} for first, last in part.serials],
        }
        for part in gone
        if part.rows
    ]
    if not rows:
        return
    store = lake.sub(_TABLE)
    with store.errors(TransientError, f"the table of erasures of {lake} cannot be written"):
        found = pa.Table.from_pylist(rows, schema=SCHEMA)
        write_deltalake(store.address, found, mode="append", storage_options=store.delta_options)


def erasures_of(lake: LakeAddress) -> Any:
    """The table of erasures, as a pyarrow.Table; empty if nothing was ever erased."""
    store = LakeStore.at(lake).sub(_TABLE)
    with store.errors(PermanentError, f"the table of erasures of {lake} cannot be read"):
        return store.table().to_pyarrow_table().cast(SCHEMA) if store.has_table() else SCHEMA.empty_table()
