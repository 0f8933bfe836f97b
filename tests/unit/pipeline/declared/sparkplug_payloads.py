"""Payloads of Sparkplug B, written by the plainest of encoders."""

import struct
from typing import Any

DATATYPES = {"Int8": 1, "Int16": 2, "Int32": 3, "Int64": 4, "UInt32": 7, "UInt64": 8, "Float": 9, "Double": 10}
DATATYPES |= {"Boolean": 11, "String": 12, "DateTime": 13, "Bytes": 17, "Template": 19}
_VALUES = {"Int8": 10, "Int16": 10, "Int32": 10, "Int64": 11, "UInt32": 10, "UInt64": 11, "Float": 12, "Double": 13}
_VALUES |= {"Boolean": 14, "String": 15, "DateTime": 11, "Bytes": 16, "Template": 18}


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def metric(
    value: Any = None,
    kind: str = "Double",
    *,
    name: str | None = None,
    alias: int | None = None,
    at_ms: int | None = None,
    typed: bool = True,
) -> bytes:
    """Without a value it is null."""
    out = b"" if name is None else field(1, name.encode())
    out += b"" if alias is None else field(2, alias)
    out += b"" if at_ms is None else field(3, at_ms)
    out += field(4, DATATYPES[kind]) if typed else b""
    number = _VALUES[kind]
    if value is None:
        return out + field(7, 1)
    if kind == "Float":
        return out + varint(number << 3 | 5) + struct.pack("<f", value)
    if kind == "Double":
        return out + varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return out + field(number, value & (0xFFFF_FFFF if number == 10 else 0xFFFF_FFFF_FFFF_FFFF))
    return out + field(number, value.encode() if isinstance(value, str) else value)


def payload(*metrics: bytes, seq: int = 0, at_ms: int = 1_700_000_000_000) -> bytes:
    return field(1, at_ms) + b"".join(field(2, each) for each in metrics) + field(3, seq)
