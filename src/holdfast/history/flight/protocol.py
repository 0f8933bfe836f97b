"""The protocol of Flight client and server: JSON in tickets and actions, for clients in any language.

    action `state`     {}                                            → heads, zones, generations, of_cluster
    action `parts`     {"since_us": 0, "until_us": …, "zone": …}     → [part, …]
    action `lost`      {"shard": 0, "from_us": 0, "before_us": …}    → {"from_us", "to_us", "at_most"} or null
    action `first`     {"part": part}                                → {"position_us", "serial"} or null
    action `cuts`      {"part": part}                                → [{"position_us", "serial"}, …]
    action `patterns`  {}                                            → [{"pattern": "plant/+/temp", "messages": …}, …]
    action `learned`   {}                                            → ["plant/+/temp", …], of all generations
    action `events`    {"since_us": 0}                               → [{"reason", "count", "last_us", "clients"}, …]
    action `renew`     {"lease": NAME, "positions": {"0": …}}        → {"renewed_us"}
    action `release`   {"lease": NAME}                               → {"released": true}
    action `leases`    {}                                            → [lease, …]
    ticket             {"part": part, "filter": "a/+/#", "columns": [...], "in_order": true, "rows": 16384}
    ticket             {"table": "sessions", "columns": [...]}       all of a table of `tables.py`; also a "filter" for
                                                                     `retained`, and "exact": true for `queues`
    action `ranges`    {}                                            → [["00", "01"], …], keys of sessions for an audit
    ticket             {"audit": "stored", …}                        what an audit asks for (`audit/queries.py`); both
                                                                     need a token with the role admin
    error              {"family": "permanent" | "dropped" | "transient" | "behind", "text": …} in the extra information
                       of a Flight error; "transient" with "busy": true, if all readers are in use

Every batch of a read in order carries the position behind it (position i64, serial i64, little-endian), from which a
client continues after it lost its server.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from holdfast.durable.log import NO_END
from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.audit.queries import AuditQuery, QueuesQuery, StoredQuery, TopicsQuery
from holdfast.history.reader.reader import BATCH_ROWS, ScanRequest
from holdfast.history.reader.view import UNKNOWN, BehindError, BusyError, DroppedError, Part, View, ZoneView
from holdfast.history.tables.tables import QUEUES, RETAINED, KeyRange, TableQuery
from holdfast.history.tables.tables import schema_of as table_schema_of
from holdfast.model.errors import HoldfastError, MisuseError, PeerError, PermanentError, TransientError
from holdfast.records.generations import Generation
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.topics.filters import parse_filter

PLACE: Final = struct.Struct("<qq")
#: The first that fits is sent: those of a family before it.
_FAMILIES: Final = {
    "behind": BehindError,
    "transient": TransientError,
    "dropped": DroppedError,
    "permanent": PermanentError,
}
_MAX_BYTES: Final = 1 << 20
#: The most rows of a batch.
MAX_ROWS: Final = 65_536


def encode(words: object) -> bytes:
    return json.dumps(words, separators=(",", ":"), ensure_ascii=False).encode()


def decode_object(content: bytes) -> dict[str, Any]:
    """Decode an object; PermanentError if it is not one. No bytes are an empty object."""
    try:
        found = json.loads(content[:_MAX_BYTES] or b"{}")
    except ValueError as error:
        raise PermanentError(f"this is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise PermanentError("this is not an object of JSON, such as {}")
    return found


def number(words: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = words.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= NO_END:
        raise PermanentError(f"{key!r} is {value!r}; it must be a whole number from 0 to {NO_END}")
    return value


def text(words: Mapping[str, Any], key: str) -> str:
    value = words.get(key)
    if not isinstance(value, str):
        raise PermanentError(f"{key!r} is {value!r}; it must be a text")
    return value


# ---- tickets


def encode_request(request: ScanRequest) -> bytes:
    return encode(
        {
            "part": request.part._asdict(),
            "filter": b"/".join(request.levels).decode(),
            "columns": list(request.columns),
            "in_order": request.in_order,
            "rows": request.rows,
        }
    )


def encode_table_request(query: TableQuery) -> bytes:
    return encode(
        {
            "table": query.table,
            "columns": list(query.columns),
            "filter": b"/".join(query.levels).decode(),
            "exact": query.exact,
        }
    )


def decode_ticket(content: bytes) -> ScanRequest | TableQuery | AuditQuery:
    """PermanentError says what is wrong with it."""
    words = decode_object(content)
    if "audit" in words:
        return _audit_query(words)
    return _table_query(words) if "table" in words else _scan_request(words)


def _table_query(words: Mapping[str, Any]) -> TableQuery:
    table, columns = text(words, "table"), words.get("columns")
    levels, exact = parse_levels(words.get("filter") or ""), bool(words.get("exact", False))
    if (levels and table != RETAINED) or (exact and table != QUEUES):
        raise PermanentError(f'a "filter" is for {RETAINED}, and "exact" for {QUEUES}, and not for {table}')
    if columns is not None and (not isinstance(columns, list) or not columns):
        raise PermanentError("columns are a list of names")
    try:
        names = table_schema_of(table, columns).names
    except MisuseError as error:
        raise PermanentError(str(error)) from error
    return TableQuery(table, tuple(names), levels, exact)


def _audit_query(words: Mapping[str, Any]) -> AuditQuery:
    kind = words["audit"]
    if kind == "stored":
        return StoredQuery(parse_part(words), bool(words.get("checksums", False)))
    if kind == "queues":
        try:
            keys = KeyRange(bytes.fromhex(text(words, "lo")), bytes.fromhex(text(words, "hi")))
        except ValueError:
            raise PermanentError("lo and hi are keys in hexadecimal, as the action `ranges` gives them") from None
        return QueuesQuery(keys, number(words, "now_us"))
    if kind == "topics":
        topics = words.get("topics")
        if not isinstance(topics, list) or not all(isinstance(topic, str) for topic in topics):
            raise PermanentError("topics are a list of names")
        return TopicsQuery(parse_part(words), tuple(topics))
    raise PermanentError(f"an audit asks for stored, queues or topics, and not for {kind!r}")


def _scan_request(words: Mapping[str, Any]) -> ScanRequest:
    return ScanRequest(
        parse_part(words),
        parse_levels(words.get("filter") or ""),
        parse_columns(words.get("columns", list(COLUMNS))),
        bool(words.get("in_order", True)),
        min(max(1, number(words, "rows", BATCH_ROWS)), MAX_ROWS),
    )


def parse_part(words: Mapping[str, Any]) -> Part:
    part = words.get("part")
    if not isinstance(part, dict):
        raise PermanentError("a ticket names a part, as the action `parts` gives them, or a table")
    asked = Part(
        text(part, "zone"),
        number(part, "shard"),
        number(part, "generation"),
        number(part, "lo_us"),
        number(part, "hi_us"),
        number(part, "after_serial", UNKNOWN),
        number(part, "last_serial", UNKNOWN),
    )
    if asked.lo_us >= asked.hi_us:
        raise PermanentError(f"[{asked.lo_us}, {asked.hi_us}) is no range: its start must be below its end")
    return asked


def parse_levels(topic_filter: object) -> tuple[bytes, ...]:
    """The levels of a filter; () for an empty filter, which matches all topics, also `$`-topics."""
    if not isinstance(topic_filter, str):
        raise PermanentError(f"the filter is {topic_filter!r}; it must be a text, such as 'plant/+/temp'")
    if not topic_filter:
        return ()
    try:
        found = parse_filter(topic_filter.encode())
    except PeerError as error:
        raise PermanentError(error.detail) from error
    if found.group or found.since:
        raise PermanentError(f"filter {topic_filter!r}: write the filter alone, without $share and $replay")
    return found.levels


def parse_columns(columns: object) -> tuple[str, ...]:
    if not isinstance(columns, list) or not columns:
        raise PermanentError(f"columns are a list of names; there are {', '.join(COLUMNS)}")
    for name in columns:
        if name not in COLUMNS or columns.count(name) > 1:
            why = "stands twice" if name in COLUMNS else "does not exist"
            raise PermanentError(f"the column {name!r} {why}; there are {', '.join(COLUMNS)}")
    return tuple(columns)


# ---- state


def encode_view(view: View) -> dict[str, Any]:
    return {
        "heads": [{"shard": shard, **head._asdict()} for shard, head in sorted(view.heads.items())],
        "zones": [zone._asdict() for _name, zone in sorted(view.zones.items())],
        "live": [_generation_words(record) for name in sorted(view.live) for record in view.live[name]],
        "dropped": [_generation_words(record) for name in sorted(view.dropped) for record in view.dropped[name]],
        "of_cluster": view.of_cluster,
    }


def decode_view(words: Mapping[str, Any]) -> View:
    zones = {
        zone["name"]: ZoneView(zone["name"], tuple(zone["filters"]), tuple(zone["shards"])) for zone in words["zones"]
    }
    records: dict[str, dict[str, list[Generation]]] = {}
    for key in ("live", "dropped"):
        records[key] = {name: [] for name in zones}
        for one in words[key]:
            records[key][one["zone"]].append(_generation(one))
    heads = {head["shard"]: Head(head["position_us"], head["serial"]) for head in words["heads"]}
    return View(heads, zones, records["live"], records["dropped"], bool(words.get("of_cluster", False)))


def _generation_words(record: Generation) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name != "edition"}


def _generation(words: Mapping[str, Any]) -> Generation:
    return Generation(
        words["zone"],
        words["number"],
        words["layout"],
        {name: tuple(value) if isinstance(value, list) else value for name, value in words["parameters"].items()},
        words["start_us"],
        tuple(words["shards"]),
        words["created_us"],
        inherits=words["inherits"],
        end_us=words["end_us"],
        last_serials=tuple(words["last_serials"]),
    )


# ---- errors


def encode_error(error: HoldfastError) -> bytes:
    family = next((name for name, kind in _FAMILIES.items() if isinstance(error, kind)), "permanent")
    return encode({"family": family, "text": str(error), **({"busy": True} if isinstance(error, BusyError) else {})})


def decode_error(extra_info: bytes) -> HoldfastError | None:
    """The error that a server sent; None if it sent none."""
    try:
        words = json.loads(extra_info)
        if words.get("busy"):
            return BusyError(words["text"])
        return _FAMILIES.get(words["family"], PermanentError)(words["text"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
