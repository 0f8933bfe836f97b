"""Sessions, queues and retained messages as tables: record batches by name, read beside the broker.

    sessions    connected and disconnected clients      session_table.py
    queues      what each of them is owed               queue_table.py, its rows: queue_view.py
    retained    the retained message of each topic      retained_table.py

A table can be divided into ranges of keys for several processes. Each range shows one state of the database, but not
all of them the same one. What decodes sessions and queues is loaded when it is needed: every worker of Spark imports
this to know the names and columns of tables.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables import queue_table, retained_table, session_table
from holdfast.history.tables.retained_view import retained_range
from holdfast.model.errors import MisuseError
from holdfast.records.session.session_keys import RECORD
from holdfast.storage.rocks.engine.column_families import RETAINED as RETAINED_FAMILY
from holdfast.storage.rocks.engine.column_families import SESSIONS as SESSIONS_FAMILY
from holdfast.storage.rocks.engine.scan import check_end, open_cursor

SESSIONS: Final = "sessions"
QUEUES: Final = "queues"
RETAINED: Final = "retained"
#: By name.
SCHEMAS: Final = {SESSIONS: session_table.SCHEMA, QUEUES: queue_table.SCHEMA, RETAINED: retained_table.SCHEMA}

_BATCH_ROWS: Final = 4096
#: A session has several keys, and a row of `queues` may need a lookup in the log.
_KEYS_EACH: Final = {SESSIONS: 200_000, QUEUES: 20_000, RETAINED: 500_000}


class KeyRange(NamedTuple):
    """The keys of [lo, hi)."""

    lo: bytes
    hi: bytes


class TableQuery(NamedTuple):
    """What to read of a table."""

    table: str
    columns: tuple[str, ...]
    #: Of a filter on the topics of `retained`; none means every topic.
    levels: tuple[bytes, ...] = ()
    #: Whether `queues` counts what is owed one by one.
    exact: bool = False


def schema_of(table: str, columns: Sequence[str] | None = None) -> Any:
    """The schema of some columns, in their order, or of all. MisuseError names an unknown table or column."""
    if table not in SCHEMAS:
        raise MisuseError(f"there is no table {table!r}; there are {', '.join(SCHEMAS)}")
    schema = SCHEMAS[table]
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            raise MisuseError(f"there is no column {name!r} in {table}; there are {', '.join(schema.names)}")
        if list(columns).count(name) > 1:
            raise MisuseError(f"column {name!r} comes twice")
    return pa.schema([schema.field(name) for name in columns])


def key_ranges(reader: HistoryReader, query: TableQuery, keys_each: int | None = None) -> list[KeyRange]:
    """The whole table, in ranges of about so many keys."""
    from holdfast.history.tables.session_view import owner_of

    whole = _whole(query)
    name = RETAINED_FAMILY if query.table == RETAINED else SESSIONS_FAMILY
    cuts: list[bytes] = []
    for key in islice(_keys(reader, name, whole), None, None, keys_each or _KEYS_EACH[query.table]):
        cut = key if query.table == RETAINED else owner_of(key)
        if not cuts or cut > cuts[-1]:
            cuts.append(cut)
    bounds = [whole.lo, *cuts[1:], whole.hi]
    return [KeyRange(lo, hi) for lo, hi in pairwise(bounds)]


def table_batches(reader: HistoryReader, query: TableQuery, now_us: int, keys: KeyRange | None = None) -> Iterator[Any]:
    """Rows as pyarrow.RecordBatches; of one range, or all. `now_us` tells what has expired."""
    schema = schema_of(query.table, query.columns)
    lo, hi = keys or _whole(query)
    if query.table == RETAINED:
        return retained_table.retained_batches(reader, lo, hi, query.columns, query.levels, now_us)
    if query.table == QUEUES:
        from holdfast.history.tables.queue_view import queue_rows

        return _batches(queue_rows(reader, lo, hi, now_us, exact=query.exact), schema)
    return _batches(session_table.session_rows(reader, lo, hi), schema)


def _whole(query: TableQuery) -> KeyRange:
    if query.table != RETAINED:
        return KeyRange(bytes((RECORD,)), bytes((RECORD + 1,)))
    return KeyRange(*retained_range(query.levels))


def _keys(reader: HistoryReader, name: str, bounds: KeyRange) -> Iterator[bytes]:
    if reader.is_of_cluster:
        yield from (key for key, _value in reader.rows(name, *bounds))
        return
    cursor = open_cursor(reader.family(name), bounds.hi)
    cursor.seek(bounds.lo)
    while cursor.valid():
        yield cursor.key()
        cursor.next()
    check_end(cursor)


def _batches(rows: Iterable[dict[str, Any]], schema: Any) -> Iterator[Any]:
    source = iter(rows)
    while chunk := list(islice(source, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)
