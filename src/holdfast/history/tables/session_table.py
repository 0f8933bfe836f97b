"""Stored sessions as rows: connected and disconnected clients, and their subscriptions.

Groups of shared subscriptions are stored like sessions, and are rows of `queues` only.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

# What decodes sessions is loaded by those who read some: every worker of Spark that reads messages imports this, too.
if TYPE_CHECKING:
    from holdfast.history.reader.reader import HistoryReader
    from holdfast.history.tables.session_view import SessionView
    from holdfast.topics.subscription import SubscriptionRecord

_TIME: Final = pa.timestamp("us", tz="UTC")

_SUBSCRIPTION: Final = pa.struct(
    [
        pa.field("filter", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("since", _TIME, nullable=False),
        pa.field("identifier", pa.int64()),
        pa.field("no_local", pa.bool_(), nullable=False),
        pa.field("retain_as_published", pa.bool_(), nullable=False),
        pa.field("retain_handling", pa.int8(), nullable=False),
        pa.field("replaying", pa.bool_(), nullable=False),
    ]
)

SCHEMA: Final = pa.schema(
    [
        pa.field("client_id", pa.string(), nullable=False),
        pa.field("mount_point", pa.string()),
        pa.field("connected", pa.bool_(), nullable=False),
        pa.field("disconnected_at", _TIME),
        pa.field("expiry_s", pa.int64()),
        pa.field("expires_at", _TIME),
        pa.field("cut_off", pa.bool_(), nullable=False),
        pa.field("subscriptions", pa.list_(pa.field("element", _SUBSCRIPTION, nullable=False)), nullable=False),
        pa.field("inflight_qos1", pa.int32(), nullable=False),
        pa.field("inflight_qos2", pa.int32(), nullable=False),
        pa.field("incoming_qos2", pa.int32(), nullable=False),
        pa.field("will_topic", pa.string()),
        pa.field("will_qos", pa.int8()),
        pa.field("will_retain", pa.bool_()),
        pa.field("will_delay_s", pa.int64()),
        pa.field("will_payload", pa.binary()),
        pa.field("will_due_at", _TIME),
    ]
)


def session_rows(reader: "HistoryReader", lo: bytes, hi: bytes) -> Iterator[dict[str, Any]]:
    from holdfast.history.tables.session_view import scan_sessions

    for view in scan_sessions(reader, lo, hi):
        if not view.group:
            yield _row(view)


def _row(view: "SessionView") -> dict[str, Any]:
    from holdfast.session.state import NEVER

    record = view.record
    will = record.will
    flights = [*view.inflight.values(), *view.placeless]
    mount_point, behind, _client = view.session_id.partition("\0")
    return {
        "client_id": view.session_id,
        "mount_point": mount_point if behind else None,
        "connected": record.disconnected_us == 0,
        "disconnected_at": record.disconnected_us or None,
        "expiry_s": None if record.expiry_s == NEVER else record.expiry_s,
        "expires_at": None if record.ends_us() < 0 else record.ends_us(),
        "cut_off": record.cut_off,
        "subscriptions": [_subscription(view, view.subscriptions[raw]) for raw in sorted(view.subscriptions)],
        "inflight_qos1": sum(flight.qos == 1 for flight in flights),
        "inflight_qos2": sum(flight.qos == 2 for flight in flights),
        "incoming_qos2": len(view.incoming),
        "will_topic": None if will is None else will.topic.decode(errors="replace"),
        "will_qos": None if will is None else will.qos,
        "will_retain": None if will is None else bool(will.retain),
        "will_delay_s": None if will is None else will.delay_s,
        "will_payload": None if will is None else will.payload,
        "will_due_at": None if record.will_due_us() < 0 else record.will_due_us(),
    }


def _subscription(view: "SessionView", record: "SubscriptionRecord") -> dict[str, Any]:
    raw = record.filter.raw
    replay = view.replays.get(raw)
    return {
        "filter": raw.decode(errors="replace"),
        "group": record.filter.group or None,
        "qos": record.qos,
        "since": record.began_us(),
        "identifier": record.identifier or None,
        "no_local": record.no_local,
        "retain_as_published": record.retain_as_published,
        "retain_handling": record.retain_handling,
        "replaying": replay is not None and not replay.joined,
    }
