"""How far an Iceberg table is, as its snapshots say.

    holdfast.mark     in the summary of each snapshot that Holdfast makes, and in the table's properties; never change
    {"claim": 0, "end": {"0": [1793836800000123, 51]}, "records": 51, "sequence": 1}

1. The mark stands in the snapshot whose rows it tells of: a table that is rolled back has the mark of that time.
2. A snapshot of another program has none. If it only replaced files (`replace`), the mark of the one before it counts.
3. That one may have expired. Then the table's property counts, if it is of a snapshot before this one, and the table
   has as many rows as then. Else it is not known how far the table is, and that is an error: no archive begins again in
   a table that has rows.
"""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from holdfast.pipeline.source.offsets import Offsets, from_json, to_json

MARK: Final = "holdfast.mark"
TOTAL: Final = "total-records"


class Mark(NamedTuple):
    #: How often the table was claimed and released (`writer.py`).
    claim: int
    end: Offsets
    #: All rows of the table with it, and the number of its snapshot.
    records: int
    sequence: int

    def encode(self) -> str:
        return json.dumps(self._replace(end=to_json(self.end))._asdict(), sort_keys=True)  # type: ignore[arg-type]


NOTHING: Final = Mark(0, {}, 0, 0)


def decode_mark(text: str) -> Mark | None:
    """None if it is not one."""
    try:
        found = json.loads(text)
        numbers = [found[name] for name in ("claim", "records", "sequence")]
        end = from_json(found["end"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Mark(numbers[0], end, numbers[1], numbers[2]) if all(type(one) is int for one in numbers) else None


class TableState(NamedTuple):
    #: None if it is not known any more.
    mark: Mark | None
    #: What other programs did to the rows behind it.
    strange: tuple[Snapshot, ...]


def table_state(metadata: TableMetadata) -> TableState:
    head = metadata.current_snapshot()
    kept = decode_mark(metadata.properties.get(MARK, ""))
    if head is None:
        # Rows were never there, or the branch with them was removed.
        return TableState(NOTHING if kept is None else None, ())
    strange: list[Snapshot] = []
    for snapshot, mark in _marked(metadata, head):
        if mark is not None:
            return TableState(mark, tuple(strange))
        if operation_of(snapshot) is not Operation.REPLACE:
            strange.append(snapshot)
    found = None
    if (
        kept is not None
        and not strange
        and kept.sequence <= (head.sequence_number or 0)
        and _total(head) == kept.records
    ):
        found = kept
    return TableState(found, tuple(strange))


def operation_of(snapshot: Snapshot) -> Operation:
    return snapshot.summary.operation if snapshot.summary is not None else Operation.OVERWRITE


def _marked(metadata: TableMetadata, head: Snapshot) -> Iterator[tuple[Snapshot, Mark | None]]:
    for snapshot in ancestors_of(head, metadata):
        text = snapshot.summary[MARK] if snapshot.summary is not None else None
        yield snapshot, None if text is None else decode_mark(str(text))


def _total(snapshot: Snapshot) -> int:
    text = snapshot.summary[TOTAL] if snapshot.summary is not None else None
    return int(text) if text is not None and str(text).isdigit() else -1
