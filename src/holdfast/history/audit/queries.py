"""What an audit may ask for: messages as they are stored, queues, and what asking for topics finds.

As JSON, in tickets of Flight:

    {"audit": "stored", "part": part, "checksums": true}
    {"audit": "queues", "lo": "00", "hi": "01", "now_us": …}          keys in hexadecimal, from the action `ranges`
    {"audit": "topics", "part": part, "topics": ["plant/1/temp", …]}
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.history.audit.queue_states import STATES, queue_states
from holdfast.history.audit.stored_rows import STORED, stored_rows
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import Part
from holdfast.history.tables.tables import KeyRange
from holdfast.records.messages import stored_serial
from holdfast.topics.names import SEPARATOR

#: A row for each topic that was asked for, in this order: how many messages were found, and the sum of their serials.
FOUND: Final = pa.schema([("found", pa.int64()), ("found_serials", pa.int64())])
#: Rows of a batch: asking for a topic may take long.
_BATCH_ROWS: Final = 500


@dataclass(frozen=True)
class StoredQuery:
    """Every message of a part, as it lies there (STORED)."""

    part: Part
    checksums: bool


@dataclass(frozen=True)
class QueuesQuery:
    """Every queue of the sessions in a range of keys (STATES)."""

    keys: KeyRange
    now_us: int


@dataclass(frozen=True)
class TopicsQuery:
    """What the index finds of some topics in a part (FOUND)."""

    part: Part
    topics: tuple[str, ...]


AuditQuery: TypeAlias = StoredQuery | QueuesQuery | TopicsQuery


def schema_of(query: AuditQuery) -> Any:
    if isinstance(query, StoredQuery):
        return STORED
    return STATES if isinstance(query, QueuesQuery) else FOUND


def audit_batches(reader: HistoryReader, query: AuditQuery) -> Iterator[Any]:
    """The answer, as pyarrow.RecordBatches."""
    return (step for step in audit_steps(reader, query) if step is not None)


def audit_steps(reader: HistoryReader, query: AuditQuery) -> Iterator[Any]:
    """The same, with None now and then between two batches: there a reader may stop."""
    if isinstance(query, StoredQuery):
        return stored_rows(reader, query.part, checksums=query.checksums)
    if isinstance(query, QueuesQuery):
        return queue_states(reader, query.keys, query.now_us)
    return _found(reader, query)


def _found(reader: HistoryReader, query: TopicsQuery) -> Iterator[Any]:
    for begin in range(0, len(query.topics), _BATCH_ROWS):
        counts, sums = [], []
        for topic in query.topics[begin : begin + _BATCH_ROWS]:
            count = total = 0
            for page in reader.stored_pages(query.part, tuple(topic.encode().split(SEPARATOR)), in_order=False):
                count += len(page)
                total += sum(map(stored_serial, page))
                yield None
            counts.append(count)
            sums.append(total)
            yield None
        yield pa.RecordBatch.from_pydict({"found": counts, "found_serials": sums}, schema=FOUND)


def query_fields(query: AuditQuery) -> dict[str, Any]:
    """As JSON has it."""
    if isinstance(query, QueuesQuery):
        return {"audit": "queues", "lo": query.keys.lo.hex(), "hi": query.keys.hi.hex(), "now_us": query.now_us}
    if isinstance(query, StoredQuery):
        return {"audit": "stored", "part": query.part._asdict(), "checksums": query.checksums}
    return {"audit": "topics", "part": query.part._asdict(), "topics": list(query.topics)}
