"""Sparkplug B: metrics by name and by alias, births that come and go, and whatever else may come from a device."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.declared.sparkplug import SparkplugMetric, address_of, decode_payload, metrics_of
from holdfast.pipeline.declared.sparkplug_aliases import Aliases
from tests.unit.pipeline.declared.sparkplug_payloads import field, metric, payload, varint

NODE = "spBv1.0/plant/NDATA/edge"


def told(topic: str, raw: bytes, aliases: Aliases | None = None, ts_us: int = 1_000) -> list[SparkplugMetric]:
    return list(metrics_of(address_of(topic), decode_payload(raw), ts_us, aliases or Aliases()))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("Int8", -5),
        ("Int16", -300),
        ("Int32", -70_000),
        ("Int64", -(2**40)),
        ("UInt32", 2**32 - 1),
        ("UInt64", 2**63),
        ("Float", 0.5),
        ("Double", -1e300),
        ("Boolean", True),
        ("DateTime", 1_700_000_000_000),
    ],
)
def test_numbers_keep_their_sign_and_size(kind: str, value: Any) -> None:
    [found] = told(NODE, payload(metric(value, kind, name="m", at_ms=7)))
    assert found == SparkplugMetric("m", None, kind, 7, float(value), None, None)


def test_texts_bytes_and_nulls() -> None:
    raw = payload(
        metric("warm", "String", name="a"), metric(b"\x00\xff", "Bytes", name="b"), metric(None, "Int8", name="c")
    )
    assert [(each.value, each.text, each.at_ms) for each in told(NODE, raw)] == [
        (None, "warm", 1_700_000_000_000),
        (None, "AP8=", 1_700_000_000_000),
        (None, None, 1_700_000_000_000),
    ]


def test_what_is_not_decoded_says_so() -> None:
    [found] = told(NODE, payload(metric(b"xx", "Template", name="m")))
    assert found.why == "metric m is a Template, which is not decoded"
    [found] = told(NODE, payload(metric(b"\xff", "String", name="m")))
    assert found.why == "metric m: its text is not UTF-8"


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("spBv1.0/plant/NDATA", "the topic is not"),
        ("spAv1.0/plant/NDATA/edge", "the topic is not"),
        ("spBv1.0/STATE/host/x", "the topic is not"),
        ("spBv1.0/plant/NDATA/edge/press", "without a device"),
        ("spBv1.0/plant/DDATA/edge", "with a device"),
    ],
)
def test_other_topics_are_refused(topic: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        address_of(topic)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x08",
        b"\xff" * 11,
        b"\x12\x7f",
        b"\x0b\x0c",
        b"\x00\x00",
        field(2, 3),
        field(2, field(1, b"\xff")),
        field(2, field(4, b"x")),
        field(2, field(10, b"x")),
        field(1, 2**63),
    ],
)
def test_what_is_no_payload_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not Sparkplug B"):
        decode_payload(raw)


def test_fields_of_later_versions_are_passed_over() -> None:
    raw = payload(metric(1.5, name="m") + field(99, b"new") + field(98, 7)) + varint(77 << 3 | 1) + bytes(8)
    assert told(NODE, raw)[0].value == 1.5


NAMES = st.text(st.characters(codec="utf-8"), max_size=9)
METRICS = st.one_of(
    st.tuples(st.floats(allow_nan=False), st.just("Double"), NAMES),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.just("Int64"), NAMES),
    st.tuples(st.integers(-128, 127), st.just("Int8"), NAMES),
    st.tuples(NAMES, st.just("String"), NAMES),
    st.tuples(st.none(), st.just("Boolean"), NAMES),
)


@given(st.lists(METRICS, max_size=5), st.integers(0, 255))
def test_what_is_encoded_is_found_again(metrics: list[tuple[Any, str, str]], seq: int) -> None:
    raw = payload(*(metric(value, kind, name=name) for value, kind, name in metrics), seq=seq)
    assert decode_payload(raw).seq == seq
    found = [
        (each.text if kind == "String" else each.value, each.datatype, each.name)
        for each, (_value, kind, _name) in zip(told(NODE, raw), metrics, strict=True)
    ]
    wanted = [(float(value) if isinstance(value, int) else value, kind, name) for value, kind, name in metrics]
    assert found == wanted


def refused(raw: bytes) -> str | None:
    try:
        told(NODE, raw)
    except ValueError as error:
        return str(error)
    return None


@given(st.binary(max_size=200))
def test_garbage_is_decoded_or_refused(raw: bytes) -> None:
    assert refused(raw) is None or str(refused(raw)).startswith("not Sparkplug B")


@given(st.lists(METRICS, min_size=1, max_size=3), st.data())
def test_a_damaged_payload_is_decoded_or_refused(metrics: list[tuple[Any, str, str]], data: st.DataObject) -> None:
    raw = bytearray(payload(*(metric(value, kind, name=name) for value, kind, name in metrics)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assert refused(bytes(raw)) is None or str(refused(bytes(raw))).startswith("not Sparkplug B")
