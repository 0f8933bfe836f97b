"""Opaque cursors of lists: where the next page goes on. Only the console reads their content."""

import base64
import binascii
from types import UnionType
from typing import Any, Final

import msgspec

from holdfast.console.problems import bad_parameter

#: What SQLite takes.
_END_OF_INTEGERS: Final = 1 << 63


def encode_cursor(place: list[Any]) -> str:
    """A cursor for a place of JSON values."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type | UnionType) -> list[Any]:
    """The place of a cursor, a value of each kind. ProblemError (400) if it is none of ours."""
    try:
        place = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        place = []
    if len(place) != len(kinds) or not all(map(_is_of_kind, place, kinds)):
        raise bad_parameter("cursor", "is not one that this list gave; leave it out to begin again")
    return place


def _is_of_kind(value: object, kind: type | UnionType) -> bool:
    return isinstance(value, kind) and (not isinstance(value, int) or abs(value) < _END_OF_INTEGERS)
