"""CBOR (RFC 8949) as JSON text, so that the same paths lead into both.

    bytes                base64url without padding, as the RFC advises
    NaN, infinities      "NaN", "Infinity", "-Infinity", which casts to numbers understand
    tag 1 (a time)       ISO 8601 in UTC; tags 2 and 3 (large numbers) a number; other tags are left out
    keys of maps         texts and whole numbers; others are refused
    undefined            null

Whatever a device sends costs time and memory in proportion to its size: each item takes a byte at least, depth is
limited, and nothing is allocated by an announced length. What is no CBOR, or goes on behind its end, is a ValueError.
"""

import base64
import json
import math
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from holdfast.model.time import EPOCH

#: Deeper payloads are refused: no device nests so, and Python's own stack ends.
MOST_DEPTH: Final = 32
#: Bytes of a large number: Python takes quadratic time to write one in decimal digits.
_MOST_NUMBER_BYTES: Final = 256
_BREAK: Final = object()
_INDEFINITE: Final = -1
_NOT_NUMBERS: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def cbor_to_json(payload: bytes) -> str:
    """ValueError: why this is not CBOR."""
    reader = _Reader(payload)
    found = reader.item(0)
    if found is _BREAK:
        raise ValueError("not CBOR: a break where nothing was begun")
    if reader.at != len(payload):
        raise ValueError(f"not CBOR: {len(payload) - reader.at} bytes behind its end")
    return json.dumps(found, ensure_ascii=False, allow_nan=False)


class _Reader:
    def __init__(self, payload: bytes) -> None:
        self._payload: Final = payload
        self.at = 0

    def item(self, depth: int) -> Any:
        """The next item, or `_BREAK`."""
        if depth > MOST_DEPTH:
            raise ValueError(f"not decoded: nested deeper than {MOST_DEPTH}")
        first = self._take(1)[0]
        major, info = first >> 5, first & 31
        if major == 7:
            return self._simple(info)
        number = self._number(info, may_be_indefinite=major in (2, 3, 4, 5))
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major in (2, 3):
            return self._string(major, number)
        if major == 4:
            return list(self._items(number, depth, "an array"))
        if major == 5:
            return self._map(number, depth)
        return self._tagged(number, depth)

    def _items(self, count: int, depth: int, within: str) -> Iterator[Any]:
        """So many, or all up to a break."""
        taken = 0
        while count == _INDEFINITE or taken < count:
            item = self.item(depth + 1)
            if item is _BREAK:
                if count != _INDEFINITE:
                    raise ValueError(f"not CBOR: a break in {within} of known length")
                return
            taken += 1
            yield item

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in self._items(count, depth, "a map"):
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise ValueError("not decoded: a key of a map is neither text nor a whole number")
            if str(key) in found:
                raise ValueError(f"not decoded: the key {str(key)[:40]!r} comes twice")
            value = self.item(depth + 1)
            if value is _BREAK:
                raise ValueError("not CBOR: a key without a value")
            found[str(key)] = value
        return found

    def _string(self, major: int, length: int) -> str:
        if length != _INDEFINITE:
            return self._text(major, self._take(length))
        pieces = []
        while (head := self._take(1)[0]) != 0xFF:
            if head >> 5 != major:
                raise ValueError("not CBOR: a piece of a string is of another kind")
            piece = self._take(self._number(head & 31, may_be_indefinite=False))
            pieces.append(piece)
            self._text(major, piece)  # each piece has to be valid by itself
        return self._text(major, b"".join(pieces))

    def _text(self, major: int, raw: bytes) -> str:
        if major == 2:
            return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ValueError("not CBOR: a text is not UTF-8") from None

    def _tagged(self, tag: int, depth: int) -> Any:
        if tag in (2, 3):
            return self._large(negative=tag == 3)
        found = self.item(depth + 1)
        if found is _BREAK:
            raise ValueError("not CBOR: a tag without a value")
        if tag == 1 and isinstance(found, int | float) and not isinstance(found, bool):
            try:
                return (EPOCH + timedelta(seconds=found)).isoformat()
            except OverflowError:
                raise ValueError("not decoded: a time beyond the year 9999") from None
        return found

    def _large(self, *, negative: bool) -> int:
        head = self._take(1)[0]
        length = self._number(head & 31, may_be_indefinite=False)
        if head >> 5 != 2 or length > _MOST_NUMBER_BYTES:
            raise ValueError(f"not decoded: a large number that is not {_MOST_NUMBER_BYTES} bytes at most")
        number = int.from_bytes(self._take(length), "big")
        return -1 - number if negative else number

    def _simple(self, info: int) -> Any:
        if info == 31:
            return _BREAK
        if info in (25, 26, 27):
            found: float = struct.unpack({25: ">e", 26: ">f", 27: ">d"}[info], self._take(1 << (info - 24)))[0]
            return "NaN" if math.isnan(found) else _NOT_NUMBERS.get(found, found)
        simple: dict[int, Any] = {20: False, 21: True, 22: None, 23: None}
        if info not in simple:
            raise ValueError("not decoded: a simple value that has no meaning here")
        return simple[info]

    def _number(self, info: int, *, may_be_indefinite: bool) -> int:
        if info < 24:
            return info
        if info <= 27:
            return int.from_bytes(self._take(1 << (info - 24)), "big")
        if info == 31 and may_be_indefinite:
            return _INDEFINITE
        raise ValueError("not CBOR: a length that does not exist")

    def _take(self, count: int) -> bytes:
        if count > len(self._payload) - self.at:
            raise ValueError("not CBOR: it ends too early")
        self.at += count
        return self._payload[self.at - count : self.at]
