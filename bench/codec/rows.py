"""The rows of the table: what is measured, under which key, and how it is called.

Child processes report values by key, and the parent prints them by row; this list is what they agree on.
"""

from __future__ import annotations

from dataclasses import dataclass

DECODE = "decode"
ENCODE = "encode"
ROUTE = "route"
MATCH = "match"
#: In the order of the table; each is measured in separate child processes.
SECTIONS = (DECODE, ENCODE, ROUTE, MATCH)

MICROSECONDS = "µs"
BYTES = "B"
RATIO = "x"

#: Numbers of subscriptions to match against.
SIZES = (10, 10_000, 1_000_000)
QUICK_SIZES = (10, 100, 1_000)

#: The row with an aim, and the aim.
ROUTE_KEY = "route/64B/qos1/v4"
ROUTE_AIM_US = 1.0


@dataclass(frozen=True)
class Row:
    key: str
    section: str
    label: str
    unit: str = MICROSECONDS


@dataclass(frozen=True)
class Shape:
    """What kind of PUBLISH is encoded or decoded."""

    version: int
    qos: int
    payload_bytes: int

    @property
    def key(self) -> str:
        return f"{self.payload_bytes}B/qos{self.qos}/v{self.version}"

    @property
    def label(self) -> str:
        payload = f"{self.payload_bytes} B" if self.payload_bytes < 1024 else f"{self.payload_bytes // 1024} KB"
        version = "MQTT 3.1.1" if self.version == 4 else "MQTT 5, 3 properties"
        return f"{version}, QoS {self.qos}, {payload}"


SHAPES = tuple(Shape(version, qos, size) for version in (4, 5) for qos in (0, 1) for size in (64, 1024))
ROUTE_SHAPE = Shape(4, 1, 64)

#: Ways to decode and to encode, by the first part of the key.
DECODERS = {"scan": "scan in place", "object": "to an object"}
ENCODERS = {"parts": "from parts", "object": "from an object"}
#: Kinds of lookups.
LOOKUPS = {
    "hit": "route, topic in the cache",
    "miss": "route, topic never seen",
    "match": "match without cache",
    "subscribe": "parse and subscribe",
}


def growth_key(lookup: str) -> str:
    return f"growth/{lookup}"


def memory_key(size: int) -> str:
    return f"memory/{size}"


def all_rows(sizes: tuple[int, ...]) -> list[Row]:
    """Every row, in the order of the table."""
    rows = [Row(f"decode/{w}/{s.key}", DECODE, f"{n}: {s.label}") for w, n in DECODERS.items() for s in SHAPES]
    rows += [Row(f"encode/{w}/{s.key}", ENCODE, f"{n}: {s.label}") for w, n in ENCODERS.items() for s in SHAPES]
    rows.append(Row(ROUTE_KEY, ROUTE, f"frame, scan, slice, route: {ROUTE_SHAPE.label}"))
    for lookup, name in LOOKUPS.items():
        rows += [Row(f"{lookup}/{size}", MATCH, f"{name}: {size:,} subscriptions") for size in sizes]
        rows.append(Row(growth_key(lookup), MATCH, f"{name}: growth {sizes[-2]:,} → {sizes[-1]:,}", RATIO))
    rows.append(Row(memory_key(sizes[-1]), MATCH, f"memory per subscription: {sizes[-1]:,} subscriptions", BYTES))
    return rows
