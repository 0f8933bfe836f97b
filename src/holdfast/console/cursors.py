"""Opaque cursors of lists: where the next page goes on. Their content is nobody's business but ours."""

import base64
import binascii
from typing import Any

import msgspec

from holdfast.console.problems import bad_parameter


def encode_cursor(place: list[Any]) -> str:
    """A cursor for a place of JSON values."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode_cursor(cursor: str, length: int) -> list[Any]:
    """The place of a cursor, a list of `length` values. ProblemError (400) if it is none of ours."""
    try:
        place = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        place = []
    if len(place) != length or not all(isinstance(value, int | str | float) for value in place):
        raise bad_parameter("cursor", "is not one that this list gave; leave it out to begin again")
    return place
