"""Sparkplug B: a payload as metrics, by a reader of the wire format that knows just these messages.

    spBv1.0/GROUP/TYPE/NODE[/DEVICE]      type: NBIRTH, DBIRTH, NDATA, DDATA, NCMD, DCMD, NDEATH, DDEATH

    Payload   1 timestamp   2 metrics…    3 seq       4 uuid        5 body
    Metric    1 name        2 alias       3 timestamp 4 datatype    7 is_null
              10 int        11 long       12 float    13 double     14 boolean   15 string   16 bytes

1. A birth names metrics and gives them aliases; what follows may use the alias alone, and leave the datatype out. What
   an alias means is looked up in the births before (`sparkplug_aliases.py`).
2. Numbers, booleans and times are `value`, a double; texts are `text`, and bytes in base64. Times are milliseconds.
3. Whatever a device sends costs in proportion to its size. A payload that is none is a ValueError, and a metric that
   cannot be decoded is given with the reason.

Not decoded: data sets, templates, properties and metadata of metrics, the body. Arrays are their bytes.
"""

import base64
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

NAMESPACE: Final = "spBv1.0"
BIRTHS: Final = ("NBIRTH", "DBIRTH")
_TYPES: Final = (*BIRTHS, "NDATA", "DDATA", "NCMD", "DCMD", "NDEATH", "DDEATH")
_OF_DEVICES: Final = ("DBIRTH", "DDATA", "DCMD", "DDEATH")
#: By their numbers, from 1.
_DATATYPES: Final = (  # noqa: SIM905 - a list would take a page
    "Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 Float Double Boolean String DateTime Text UUID DataSet Bytes "
    "File Template PropertySet PropertySetList Int8Array Int16Array Int32Array Int64Array UInt8Array UInt16Array "
    "UInt32Array UInt64Array FloatArray DoubleArray BooleanArray StringArray DateTimeArray"
).split()
_SIGNED_BITS: Final = {"Int8": 8, "Int16": 16, "Int32": 32, "Int64": 64}
_UNTOLD: Final = {17: "a DataSet", 18: "a Template", 19: "an extension"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Of the fields of a metric that are decoded.
_METRIC_KINDS: Final = {
    **dict.fromkeys((2, 3, 4, 7, 10, 11, 14), _VARINT),
    **dict.fromkeys((1, 15, 16, 17, 18, 19), _BYTES),
    12: _FIXED32,
    13: _FIXED64,
}
#: What milliseconds a timestamp may have: up to the year 9999.
_MOST_MS: Final = 253_402_300_799_999


class AliasMeaning(NamedTuple):
    """What a birth says of an alias."""

    name: str
    datatype: str


class AliasLookup(Protocol):
    """Finds the meaning of an alias."""

    def find(self, edge: tuple[str, str, str], alias: int, ts_us: int) -> AliasMeaning | None: ...


class SparkplugAddress(NamedTuple):
    """The parts of a topic of Sparkplug B."""

    group: str
    message_type: str
    node: str
    device: str | None

    @property
    def edge(self) -> tuple[str, str, str]:
        """Whose aliases count."""
        return self.group, self.node, self.device or ""


class RawMetric(NamedTuple):
    """A metric as it stands in the payload."""

    name: str | None
    alias: int | None
    at_ms: int | None
    datatype: str | None
    #: Field of the value and what is in it; None: null.
    value: tuple[int, int | float | bytes] | None


class SparkplugPayload(NamedTuple):
    seq: int | None
    at_ms: int | None
    metrics: list[RawMetric]


class SparkplugMetric(NamedTuple):
    """A metric; with `why`, one that cannot be decoded."""

    name: str | None
    alias: int | None
    datatype: str | None
    at_ms: int | None
    value: float | None
    text: str | None
    why: str | None


def address_of(topic: str) -> SparkplugAddress:
    """ValueError: this is not a topic of Sparkplug B."""
    levels = topic.split("/")
    if len(levels) not in (4, 5) or levels[0] != NAMESPACE or levels[2] not in _TYPES:
        raise ValueError(f"the topic is not {NAMESPACE}/GROUP/TYPE/NODE, with a DEVICE or without")
    if (len(levels) == 5) != (levels[2] in _OF_DEVICES):
        raise ValueError(f"{levels[2]} goes {'with' if levels[2] in _OF_DEVICES else 'without'} a device in the topic")
    return SparkplugAddress(levels[1], levels[2], levels[3], levels[4] if len(levels) == 5 else None)


def metrics_of(
    address: SparkplugAddress, payload: SparkplugPayload, ts_us: int, names: AliasLookup
) -> Iterator[SparkplugMetric]:
    """All metrics, with names for aliases."""
    for raw in payload.metrics:
        known = AliasMeaning(raw.name, raw.datatype or "") if raw.name is not None else None
        if raw.alias is not None and (known is None or not known.datatype):
            found = names.find(address.edge, raw.alias, ts_us)
            if found is not None:
                known = AliasMeaning(known.name if known else found.name, raw.datatype or found.datatype)
        at_ms = raw.at_ms if raw.at_ms is not None else payload.at_ms
        if known is None:
            edge = "/".join(filter(None, address.edge))
            why = "a metric without name and alias"
            if raw.alias is not None:
                why = f"alias {raw.alias} of {edge} is not known: the log has no birth before it"
            yield SparkplugMetric(None, raw.alias, raw.datatype, at_ms, None, None, why)
            continue
        value, text, wrong = _told(known, raw.value)
        if at_ms is not None and at_ms > _MOST_MS:
            at_ms, wrong = None, f"metric {known.name}: its time is beyond the year 9999"
        yield SparkplugMetric(known.name, raw.alias, known.datatype or None, at_ms, value, text, wrong)


def _told(
    known: AliasMeaning, found: tuple[int, int | float | bytes] | None
) -> tuple[float | None, str | None, str | None]:
    if found is None:
        return None, None, None
    field, value = found
    if field in _UNTOLD:
        return None, None, f"metric {known.name} is {_UNTOLD[field]}, which is not decoded"
    if isinstance(value, bytes):
        if field == 16:
            return None, base64.b64encode(value).decode(), None
        try:
            return None, value.decode(), None
        except UnicodeDecodeError:
            return None, None, f"metric {known.name}: its text is not UTF-8"
    bits = _SIGNED_BITS.get(known.datatype)
    if isinstance(value, int) and bits is not None and field in (10, 11):
        value &= (1 << bits) - 1
        if value >= 1 << (bits - 1):
            value -= 1 << bits
    return float(value), None, None


def decode_payload(payload: bytes) -> SparkplugPayload:
    """ValueError: why this is not a payload of Sparkplug B."""
    seq = at_ms = None
    metrics = []
    for field, kind, value in _fields(payload):
        if field == 1 and kind == _VARINT:
            at_ms = int(value)
        elif field == 3 and kind == _VARINT:
            seq = int(value)
        elif field == 2 and isinstance(value, bytes):
            metrics.append(_metric(value))
        elif field in (1, 2, 3):
            raise ValueError("not Sparkplug B: a field is of another kind")
    if at_ms is not None and at_ms > _MOST_MS:
        raise ValueError("not Sparkplug B: its time is beyond the year 9999")
    return SparkplugPayload(None if seq is None else seq & 0x7FFF_FFFF_FFFF_FFFF, at_ms, metrics)


def _metric(raw: bytes) -> RawMetric:
    name: str | None = None
    known: dict[int, int] = {}
    value: tuple[int, int | float | bytes] | None = None
    for field, kind, found in _fields(raw):
        if kind != _METRIC_KINDS.get(field, kind):
            raise ValueError("not Sparkplug B: a field is of another kind")
        if isinstance(found, int) and field < 10:
            known[field] = found
        elif field == 1 and isinstance(found, bytes):
            try:
                name = found.decode()
            except UnicodeDecodeError:
                raise ValueError("not Sparkplug B: the name of a metric is not UTF-8") from None
        elif field in (12, 13):
            raw_kind, float_kind = ("<I", "<f") if field == 12 else ("<Q", "<d")
            value = field, struct.unpack(float_kind, struct.pack(raw_kind, found))[0]
        elif field in _METRIC_KINDS:
            value = field, found
    alias, number = known.get(2), known.get(4, 0)
    return RawMetric(
        name,
        None if alias is None else alias & 0x7FFF_FFFF_FFFF_FFFF,
        known.get(3),
        _DATATYPES[number - 1] if 1 <= number <= len(_DATATYPES) else None,
        None if known.get(7) else value,
    )


def _fields(raw: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, kind and content of each field; unknown fields are left to the caller."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        field, kind = key >> 3, key & 7
        if field == 0:
            raise ValueError("not Sparkplug B: a field without a number")
        if kind == _VARINT:
            number, at = _varint(raw, at)
            yield field, kind, number
            continue
        if kind == _BYTES:
            length, at = _varint(raw, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("not Sparkplug B: a field of a kind that does not exist")
        if length > len(raw) - at:
            raise ValueError("not Sparkplug B: it ends too early")
        content = raw[at : at + length]
        at += length
        yield field, kind, content if kind == _BYTES else int.from_bytes(content, "little")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            raise ValueError("not Sparkplug B: it ends too early")
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("not Sparkplug B: a number without an end")
