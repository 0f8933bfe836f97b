"""What a pipeline is declared to do: plain values, all of them checked (`parser.py`). Nothing here knows Spark."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from holdfast.pipeline.declared.toml_lines import Path as Place

#: What can be the input of a sink, besides aggregates.
ROWS: Final = "rows"
QUARANTINE: Final = "quarantine"
#: The rule by whose name messages are quarantined that could not be decoded.
DECODE: Final = "decode"
#: Columns of the log that every row has, with types of Spark.
BASE: Final = {"ts": "timestamp", "topic": "string", "client_id": "string", "shard": "int", "serial": "bigint"}
#: Columns that rules see in addition.
ALSO_READ: Final = {"qos": "tinyint", "retain": "boolean", "content_type": "string", "payload": "binary"}
QUARANTINED: Final = {**BASE, "payload": "binary", "rule": "string", "why": "string"}
SPARKPLUG: Final = {
    "group_id": "string",
    "message_type": "string",
    "edge_node": "string",
    "device": "string",
    "seq": "bigint",
    "metric": "string",
    "alias": "bigint",
    "datatype": "string",
    "at": "timestamp",
    "value": "double",
    "text": "string",
}
WINDOW: Final = {"window_start": "timestamp", "window_end": "timestamp"}
#: How a column may be typed in the file, and the type of Spark that it gets.
TYPES: Final = {
    "string": "string",
    "boolean": "boolean",
    "int": "int",
    "bigint": "bigint",
    "double": "double",
    "timestamp": "timestamp",
    "timestamp_ms": "timestamp",
}


class PayloadFormat(StrEnum):
    JSON = "json"
    CBOR = "cbor"
    NUMBER = "number"
    TEXT = "text"
    SPARKPLUG_B = "sparkplug_b"


class OnFail(StrEnum):
    QUARANTINE = "quarantine"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True)
class DeclaredSource:
    """Options of the data source, by their names there."""

    options: dict[str, str]

    @property
    def where(self) -> str:
        return self.options.get("path") or self.options["endpoint"]


@dataclass(frozen=True)
class DecodedColumn:
    """One that is made of a payload (`path`), or of a level of the topic (`level`, counted from 1)."""

    name: str
    kind: str = "string"
    path: str = ""
    level: int = 0
    required: bool = False


@dataclass(frozen=True)
class DecodeSpec:
    format: PayloadFormat
    columns: tuple[DecodedColumn, ...] = ()

    def types(self) -> dict[str, str]:
        """The columns that decoding makes, with types of Spark."""
        made = {
            PayloadFormat.NUMBER: {"value": "double"},
            PayloadFormat.TEXT: {"value": "string"},
            PayloadFormat.SPARKPLUG_B: SPARKPLUG,
        }
        return {**made.get(self.format, {}), **{column.name: TYPES[column.kind] for column in self.columns}}


@dataclass(frozen=True)
class DeclaredRule:
    name: str
    where: str
    on_fail: OnFail
    place: Place


@dataclass(frozen=True)
class DeduplicateSpec:
    by: tuple[str, ...]
    within: str


@dataclass(frozen=True)
class AggregateSpec:
    name: str
    window: str
    by: tuple[str, ...]
    measures: dict[str, str]
    watermark: str
    place: Place
    slide: str | None = None
    time: str = "ts"


@dataclass(frozen=True)
class DeltaSink:
    of: str
    path: Path


@dataclass(frozen=True)
class PublishSink:
    """`options` are those of the writer, by their names there."""

    of: str
    name: str
    topic: str
    payload: str | None
    options: dict[str, str]
    place: Place


@dataclass(frozen=True)
class Declaration:
    """A whole pipeline."""

    file: Path
    name: str
    state: Path
    batch_rows: int
    source: DeclaredSource
    decode: DecodeSpec
    rules: tuple[DeclaredRule, ...]
    deduplicate: DeduplicateSpec | None
    aggregates: tuple[AggregateSpec, ...]
    tables: tuple[DeltaSink, ...]
    publishes: tuple[PublishSink, ...]
    lines: dict[Place, int] = field(default_factory=dict, compare=False, repr=False)

    def where_is(self, place: Place) -> str:
        """`pipeline.toml:14`, of the nearest thing around it that has a line."""
        return f"{self.file.name}:{line_of(self.lines, place)}"

    def row_types(self) -> dict[str, str]:
        """Of the table `rows`."""
        return {**BASE, **self.decode.types()}


def line_of(lines: dict[Place, int], place: Place) -> int:
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def join_names(names: Sequence[str], joint: str = "or") -> str:
    """A, b or c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"


# ---- as a picture

_QUARANTINE: Final = f"──▶ {QUARANTINE}"


def draw(declared: Declaration) -> str:
    """A small picture for `--show`: what happens to a message, from top to bottom."""
    rows: list[tuple[str, str, str]] = []
    options = declared.source.options
    since = options.get("startingTime") or options.get("startingOffsets") or "earliest"
    rows.append(("source", f"{declared.source.where}, {options.get('topicFilter', 'all topics')}, since {since}", ""))
    columns = ", ".join(f"{name} {kind}" for name, kind in declared.decode.types().items())
    rows.append(("decode", f"{declared.decode.format}: {columns}", f"else {_QUARANTINE}"))
    for rule in declared.rules:
        ends = {OnFail.QUARANTINE: _QUARANTINE, OnFail.DROP: "──▶ dropped, counted", OnFail.FAIL: "──▶ stop"}
        rows.append((f"rule {rule.name}", rule.where, f"else {ends[rule.on_fail]}"))
    if declared.deduplicate is not None:
        wanted = declared.deduplicate
        rows.append(("deduplicate", f"by {', '.join(wanted.by)} within {wanted.within}", "else ──▶ dropped, counted"))
    rows.append(("rows", ", ".join(declared.row_types()), _sinks(declared, "rows")))
    for each in declared.aggregates:
        measures = ", ".join(f"{name} = {text}" for name, text in each.measures.items())
        slide = f" each {each.slide}" if each.slide else ""
        by = f" by {', '.join(each.by)}" if each.by else ""
        what = f"{each.window}{slide} of {each.time}{by}, {each.watermark} late at most: {measures}"
        rows.append((f"aggregate {each.name}", what, _sinks(declared, each.name)))
    rows.append((QUARANTINE, "ts, topic, client_id, shard, serial, payload, rule, why", _sinks(declared, QUARANTINE)))
    width = max(len(row[0]) for row in rows)
    lines = []
    for number, (title, what, end) in enumerate(rows):
        mark = "●" if number == 0 or title == QUARANTINE else "│" if title.startswith("rule") else "▼"
        lines.append(f"{mark} {title:<{width}}  {what}")
        lines += [f"  {'':<{width}}  {line}" for line in end.splitlines()]
    return "\n".join(lines)


def _sinks(declared: Declaration, of: str) -> str:
    ends = [f"──▶ table {sink.path}" for sink in declared.tables if sink.of == of]
    if not ends and of == QUARANTINE:
        ends = [f"──▶ table {declared.state / 'tables' / QUARANTINE}"]
    ends += [f"──▶ publish {sink.topic} to {sink.options['broker']}" for sink in declared.publishes if sink.of == of]
    return "\n".join(ends)
