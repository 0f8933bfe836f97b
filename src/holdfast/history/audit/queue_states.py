"""Sessions and their queues at one moment: what is stored of each, and how much the broker's rule says it is owed.

    a range of sessions ──▶ one state of the database ──▶ rows: subscriptions, progress, exceptions │ owed, by LogQueue

1. Both halves of a row are of the same state of the database. Without that they would differ while the broker runs.
2. A row is there for each shard of each queue, also where the table of queues has none.
3. What is stored is passed on as it is. What follows from it is for an audit to say.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.durable.log import NO_END
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import Part
from holdfast.history.tables.queue_view import queue_rows
from holdfast.history.tables.session_view import SessionView, scan_sessions
from holdfast.history.tables.tables import QUEUES, SCHEMAS, KeyRange, TableQuery, key_ranges
from holdfast.records.lanes import is_lane
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord

_BATCH_ROWS: Final = 4096
_GROUP_QOS: Final = 2

_LONG: Final = pa.int64()
_SUBSCRIPTION: Final = pa.struct(
    [
        ("filter", pa.string()),
        ("mount", pa.int32()),
        ("qos", pa.int32()),
        ("since", _LONG),
        ("no_local", pa.bool_()),
        # Nothing from there on.
        ("ends", _LONG),
        # Nothing up to there, because a replay has it.
        ("replayed", _LONG),
    ]
)
STATES: Final = pa.schema(
    [
        # Of a session, a group or a replay, unlike any other.
        ("queue", pa.string()),
        ("owner", pa.string()),
        ("client", pa.string()),
        ("replay", pa.string()),
        ("shard", pa.int32()),
        ("head", _LONG),
        # The first position that the log still has.
        ("begins", _LONG),
        ("sent", _LONG),
        ("any_qos", pa.bool_()),
        ("wanted", pa.list_(_SUBSCRIPTION)),
        ("done", pa.list_(_LONG)),
        # Of a group: up to there only these are owed.
        ("given_out", _LONG),
        ("open", pa.list_(_LONG)),
        ("owed", _LONG),
        ("oldest", _LONG),
    ]
)


def queue_ranges(reader: HistoryReader) -> list[KeyRange]:
    """All sessions and groups, in ranges that are read apart from each other."""
    return key_ranges(reader, TableQuery(QUEUES, tuple(SCHEMAS[QUEUES].names)))


def queue_states(reader: HistoryReader, keys: KeyRange, now_us: int) -> Iterator[Any]:
    """Rows of STATES: every queue of the sessions and groups in a range, by shard. With None now and then."""
    counted: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in queue_rows(reader, keys.lo, keys.hi, now_us, exact=True):
        counted[row["client_id"], row["group"], row["replay"], row["shard"]] = row
        yield None  # each was counted in the log
    rows = _rows(reader, keys, counted)
    while chunk := list(islice(rows, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(chunk, schema=STATES)


def first_positions(parts: Iterable[Part]) -> dict[int, int]:
    """Where parts begin, by shard."""
    found: dict[int, int] = {}
    for part in parts:
        found[part.shard] = min(found.get(part.shard, part.lo_us), part.lo_us)
    return found


def _rows(
    reader: HistoryReader, keys: KeyRange, counted: Mapping[tuple[Any, ...], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """`counted`: rows of the table of queues, by client, group, replay and shard."""
    begins = first_positions(reader.parts())
    loaded = {shard for zone in reader.zones() if is_lane(zone.name) for shard in zone.shards}
    for view in scan_sessions(reader, keys.lo, keys.hi):
        given_out = view.progress.given_out
        for replay, wanted, sent in _queues(view):
            client = None if view.group else view.session_id
            for shard, head in sorted(reader.heads().items()):
                if shard in loaded and replay is None:
                    continue  # loaded messages are owed to no session
                found = counted.get((client, view.group or None, replay, shard))
                oldest = found and found["oldest_owed_at"]
                yield {
                    "queue": repr((client, view.group, replay)),
                    "owner": view.group or view.session_id,
                    "client": client,
                    "replay": replay,
                    "shard": shard,
                    "head": head.position_us,
                    "begins": begins.get(shard, 0),
                    "sent": sent.get(shard),
                    "any_qos": replay is not None,
                    "wanted": [_subscription(view, record, shard, replay=replay) for record in wanted],
                    "done": [place[1] for place in {*view.done, *view.inflight} if place[0] == shard],
                    "given_out": 0 if given_out is None else given_out.up_to.get(shard, 0),
                    "open": [] if given_out is None else [at for one, at in given_out.unacknowledged if one == shard],
                    "owed": found and found["owed"],
                    "oldest": oldest or None,
                }


def _queues(view: SessionView) -> Iterator[tuple[str | None, list[SubscriptionRecord], dict[int, int]]]:
    """What each queue of a session asks for, and how far it was sent."""
    if view.group:
        yield (
            None,
            [SubscriptionRecord(parse_filter(view.group.encode()), _GROUP_QOS, False, False, 0, 0, 0)],
            (view.progress.sent),
        )
        return
    own = {raw: record for raw, record in view.subscriptions.items() if not record.filter.group}
    if not view.record.queue:  # what waits outside the log is not to be seen in it
        yield None, list(own.values()), view.progress.sent
    for raw, progress in view.replays.items():
        if not progress.joined and raw in own:
            yield raw.decode(errors="replace"), [own[raw]], progress.sent


def _subscription(view: SessionView, record: SubscriptionRecord, shard: int, *, replay: str | None) -> dict[str, Any]:
    progress = view.replays.get(record.filter.raw)
    replayed = -1
    if progress is not None and replay is None:
        # A replay that goes on has everything.
        replayed = progress.sent.get(shard, 0) if progress.joined else NO_END
    return {
        "filter": b"/".join(record.filter.levels).decode(errors="replace"),
        "mount": record.mount_bytes,
        "qos": record.qos,
        "since": record.since_us,
        "no_local": record.no_local,
        "ends": NO_END if progress is None else progress.until_us,
        "replayed": replayed,
    }
