"""Where history is read from: a broker's data folder, or the history process beside a broker.

    option path        HistoryReader     a RocksDB secondary in each process that reads
    option endpoint    FlightHistory     the history process, by Arrow Flight

`open_endpoint` is the only function of the pipeline and of the commands that opens an endpoint, which an import
contract checks: tables, leases and checks show the same token and trust the same authorities. Each of the two readers
is imported when the options name it, since Spark imports this module in every worker.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from holdfast.history.reader.view import BehindError
from holdfast.model.errors import PermanentError, SettingsError, TransientError
from holdfast.pipeline.source.offsets import Offset, Offsets
from holdfast.pipeline.source.read_options import ReadOptions

if TYPE_CHECKING:
    from holdfast.history.audit.queries import AuditQuery
    from holdfast.history.event_counts import ReasonCount
    from holdfast.history.flight.client import FlightHistory
    from holdfast.history.reader.reader import HistoryReader
    from holdfast.history.reader.view import View
    from holdfast.history.tables.tables import KeyRange, TableQuery

#: Seconds that a check of the options waits for a server that is being started.
CHECK_PATIENCE_S: Final = 10.0
#: Seconds that a node of a cluster has to catch up with offsets of another one, and between two looks.
PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.25


#: Durable history, as it was at the last refresh: nothing above those heads is shown. Requires: `close`, or use as a
#: context manager. A part of one source can be read by any other of the same options: the driver plans, workers read.
HistorySource: TypeAlias = "HistoryReader | FlightHistory"


def read_view(folder: Path, writing: str = "") -> "View":
    """The state of a data folder, as of now. PermanentError if the caller is `writing` and it is one of a cluster."""
    from holdfast.history.reader.reader import HistoryReader

    with HistoryReader.open(folder) as reader:
        if writing:
            reader.refuse_cluster(writing)
        return reader.view()


def refresh_heads(source: HistorySource) -> Offsets:
    """Refresh the view; the durable head of every shard."""
    source.refresh()
    return source.heads()


def wait_for_offsets(
    source: HistorySource,
    wanted: Offsets,
    patience_s: float = PATIENCE_S,
    pause: Callable[[float], None] = time.sleep,
) -> Offsets:
    """Refresh until the source has all up to these offsets; its durable heads.

    Offsets that one node of a cluster has given hold at all others, and a node may not have come so far yet: it is
    waited for, and BehindError says so if that takes too long. A node without a cluster has what it has shown, so
    PermanentError says at once that it is not there.
    """
    deadline_s = time.monotonic() + patience_s
    while True:
        heads = refresh_heads(source)
        missing = _first_missing(heads, wanted)
        if missing is None:
            return heads
        shard, found = missing
        if not source.is_of_cluster:
            raise PermanentError(
                f"shard {shard} was read up to message {wanted[shard].serial}, and it has {found.serial}: these are "
                "other data than those that the offsets belong to, or the broker was not started since a power loss; "
                "then start it"
            )
        if time.monotonic() >= deadline_s:
            raise BehindError(
                f"this node of the cluster is behind: shard {shard} has messages up to {found.serial}, and the offsets "
                f"name {wanted[shard].serial}; wait until it has caught up, or read from another node"
            )
        pause(_PAUSE_S)


def _first_missing(heads: Offsets, wanted: Offsets) -> tuple[int, Offset] | None:
    """A shard that does not reach up to its offset, and its head. One whose serial is not known is a time."""
    for shard, offset in sorted(wanted.items()):
        head = heads.get(shard, Offset(0, 0))
        if offset.serial > 0 and head.position_us < offset.position_us:
            return shard, head
    return None


def check_zone(source: HistorySource, zone: str | None) -> None:
    """SettingsError: no such zone."""
    names = [view.name for view in source.zones()]
    if zone is not None and zone not in names:
        raise SettingsError(f"option zone: there is no zone {zone!r}; there are {', '.join(names)}")


def open_source(options: ReadOptions) -> HistorySource:
    """The source that the options name. SettingsError: there is nothing to read at the path, or no such address.

    An endpoint is connected by its first request.
    """
    if options.endpoint:
        return open_endpoint(options)
    from holdfast.history.reader.reader import HistoryReader

    try:
        return HistoryReader.open(Path(options.path))
    except PermanentError as wrong:
        raise SettingsError(f"option path: {wrong}") from wrong


def open_endpoint(options: ReadOptions, *, patience_s: float | None = None) -> "FlightHistory":
    """The history process that the options name, with their token and authorities. SettingsError: no such address."""
    from holdfast.history.flight.client import PATIENCE_S, FlightHistory

    patience_s = PATIENCE_S if patience_s is None else patience_s
    try:
        return FlightHistory(options.endpoint, options.token, options.ca, patience_s=patience_s)
    except PermanentError as wrong:
        raise SettingsError(f"option endpoint: {wrong}") from wrong


def table_rows(options: ReadOptions, query: "TableQuery", keys: "KeyRange | None" = None) -> Iterator[Any]:
    """Record batches of a table other than history; of a data folder, those of a range of keys, if one is given."""
    if options.endpoint:
        with open_endpoint(options) as history:
            yield from history.table(query)
        return
    from holdfast.history.reader.reader import HistoryReader
    from holdfast.history.tables.tables import table_batches

    with HistoryReader.open(Path(options.path)) as reader:
        yield from table_batches(reader, query, time.time_ns() // 1000, keys)


def source_view(options: ReadOptions) -> "View":
    """The state of a source, as of now."""
    with open_source(options) as source:
        return source.view()


@contextmanager
def audit_reader(options: ReadOptions) -> "Iterator[Callable[[AuditQuery], Iterator[Any]]]":
    """A function that answers the queries of an audit with record batches."""
    if options.endpoint:
        with open_endpoint(options) as history:
            yield history.audit
        return
    from holdfast.history.audit.queries import audit_batches
    from holdfast.history.reader.reader import HistoryReader

    with HistoryReader.open(Path(options.path)) as reader:
        yield partial(audit_batches, reader)


def session_ranges(options: ReadOptions) -> "list[KeyRange]":
    """All sessions of a source, in ranges of keys for the queries of an audit."""
    if options.endpoint:
        with open_endpoint(options) as history:
            return history.session_ranges()
    from holdfast.history.audit.queue_states import queue_ranges
    from holdfast.history.reader.reader import HistoryReader

    with HistoryReader.open(Path(options.path)) as reader:
        return queue_ranges(reader)


def learned_topics(options: ReadOptions) -> list[str]:
    """The widest patterns that the generations of a source have learnt."""
    if options.endpoint:
        with open_endpoint(options) as history:
            return history.learned_patterns()
    from holdfast.history.patterns import learned_patterns
    from holdfast.history.reader.reader import HistoryReader

    with HistoryReader.open(Path(options.path)) as reader:
        return learned_patterns(reader)


def event_counts(options: ReadOptions, since_us: int = 0) -> "list[ReasonCount]":
    """What was dropped, refused or ended from a time on, by reason."""
    if options.endpoint:
        with open_endpoint(options) as history:
            return history.count_events(since_us)
    from holdfast.history.event_counts import count_events

    return count_events(Path(options.path), since_us)


def check_source(options: ReadOptions) -> None:
    """SettingsError, after CHECK_PATIENCE_S at most, if the source cannot be read or has no such zone."""
    source = open_endpoint(options, patience_s=CHECK_PATIENCE_S) if options.endpoint else open_source(options)
    with source:
        try:
            if options.endpoint:
                source.refresh()
        except (PermanentError, TransientError) as wrong:
            raise SettingsError(f"option {_option_of(wrong.__cause__)}: {wrong}") from wrong
        check_zone(source, options.zone)


def _option_of(error: BaseException | None) -> str:
    """The option that a refusal of an endpoint is about."""
    from pyarrow import flight  # type: ignore[import-untyped]

    from holdfast.history.flight.client import UNTRUSTED

    if isinstance(error, flight.FlightUnauthenticatedError):
        return "token"
    return "ca" if UNTRUSTED in str(error) else "endpoint"
