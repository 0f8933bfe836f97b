"""CBOR as JSON: examples of RFC 8949, round trips, and whatever else may come from a device."""

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.declared.cbor import MOST_DEPTH, cbor_to_json


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("00", 0),
        ("1903e8", 1000),
        ("1bffffffffffffffff", 18446744073709551615),
        ("c249010000000000000000", 18446744073709551616),
        ("3bffffffffffffffff", -18446744073709551616),
        ("c349010000000000000000", -18446744073709551617),
        ("3903e7", -1000),
        ("f90001", 5.960464477539063e-8),
        ("fa47c35000", 100000.0),
        ("fb3ff199999999999a", 1.1),
        ("f97c00", "Infinity"),
        ("f97e00", "NaN"),
        ("f9fc00", "-Infinity"),
        ("f4", False),
        ("f6", None),
        ("f7", None),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("c11a514b67b0", "2013-03-21T20:04:00+00:00"),
        ("c1fb41d452d9ec200000", "2013-03-21T20:04:00.500000+00:00"),
        ("d74401020304", "AQIDBA"),
        ("4401020304", "AQIDBA"),
        ("62c3bc", "ü"),
        ("83010203", [1, 2, 3]),
        ("8301820203820405", [1, [2, 3], [4, 5]]),
        ("a201020304", {"1": 2, "3": 4}),
        ("a26161016162820203", {"a": 1, "b": [2, 3]}),
        ("5f42010243030405ff", "AQIDBAU"),
        ("7f657374726561646d696e67ff", "streaming"),
        ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ],
)
def test_the_examples_of_the_standard_are_understood(raw: str, found: object) -> None:
    assert json.loads(cbor_to_json(bytes.fromhex(raw))) == found


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ("", "ends too early"),
        ("1903", "ends too early"),
        ("5b7fffffffffffffff00", "ends too early"),
        ("9b7fffffffffffffff00", "ends too early"),
        ("0000", "1 bytes behind"),
        ("ff", "a break where"),
        ("82ff", "a break in an array"),
        ("bf00ff", "a key without"),
        ("1c", "a length that does not"),
        ("61ff", "not UTF-8"),
        ("7f4100ff", "of another kind"),
        ("a2616101616102", "comes twice"),
        ("a1f500", "neither text nor"),
        ("f0", "no meaning"),
        ("c1fb7fefffffffffffff", "beyond the year"),
    ],
)
def test_what_is_wrong_is_a_reason(raw: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cbor_to_json(bytes.fromhex(raw))


def test_depth_has_an_end() -> None:
    assert cbor_to_json(b"\x81" * MOST_DEPTH + b"\x00") == "[" * MOST_DEPTH + "0" + "]" * MOST_DEPTH
    with pytest.raises(ValueError, match="nested deeper"):
        cbor_to_json(b"\x81" * 1_000_000)


def encoded(value: Any) -> bytes:
    """A plain encoder, as devices have them."""
    if value is None or isinstance(value, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[value]
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(encoded, value))
    return _head(5, len(value)) + b"".join(encoded(key) + encoded(each) for key, each in value.items())


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for info, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << 8 * size:
            return bytes([major << 5 | info]) + number.to_bytes(size, "big")
    raise AssertionError(number)


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    return value


TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.floats() | st.binary() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_encoded_is_found_again(value: Any) -> None:
    assert json.loads(cbor_to_json(encoded(value))) == as_json(value)


def refused(raw: bytes) -> str | None:
    try:
        json.loads(cbor_to_json(raw))
    except ValueError as error:
        return str(error)
    return None


@given(st.binary(max_size=200))
def test_garbage_is_decoded_or_refused(raw: bytes) -> None:
    assert refused(raw) is None or str(refused(raw)).startswith("not ")


@given(VALUES, st.data())
def test_a_damaged_payload_is_decoded_or_refused(value: Any, data: st.DataObject) -> None:
    raw = bytearray(encoded(value))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert refused(bytes(raw)) is None or str(refused(bytes(raw))).startswith("not ")
