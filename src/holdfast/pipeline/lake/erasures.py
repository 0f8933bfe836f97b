"""What is missing from a lake on purpose: a table of erasures, with who erased what, and when.

    LAKE/_holdfast/erasures/        a Delta table; a row for each erasure and shard

1. A row is written before the messages go: whatever is missing has a row. A process that died in between has left one
   whose messages are still there, and is run again.
2. Rows name messages by their serials alone. The client or the filter stands in `what`: it has to be known later what
   was erased.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from holdfast.model.errors import PermanentError, TransientError
from holdfast.pipeline.lake.lake import OWN_FOLDER
from holdfast.pipeline.lake.serial_ranges import SerialRanges

# Kinds of rows. On disk: never change.
#: Of a client, or of the topics of a filter.
ERASED: Final = "erased"
#: Whole days that were too old.
EXPIRED: Final = "expired"
#: Messages that were erased in the log before they were archived.
UNARCHIVED: Final = "unarchived"

_FOLDER: Final = "erasures"
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


def record_erasure(lake: Path, *, kind: str, what: str, by: str, gone: Sequence[SerialRanges]) -> None:
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
    try:
        write_deltalake(str(_path(lake)), pa.Table.from_pylist(rows, schema=SCHEMA), mode="append")
    except (DeltaError, OSError) as error:
        raise TransientError(f"the table of erasures of {lake} cannot be written: {error}") from error


def erasures_of(lake: Path) -> Any:
    """The table of erasures, as a pyarrow.Table; empty if nothing was ever erased."""
    path = _path(lake)
    if not path.exists():
        return SCHEMA.empty_table()
    try:
        return DeltaTable(str(path)).to_pyarrow_table().cast(SCHEMA)
    except (DeltaError, OSError) as error:
        raise PermanentError(f"the table of erasures of {lake} cannot be read: {error}") from error


def _path(lake: Path) -> Path:
    return lake / OWN_FOLDER / _FOLDER
