"""Paths and conditions: what they find, and where a wrong one is wrong."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.past.json_paths import (
    MISSING,
    JsonPath,
    decode_payload,
    differing_paths,
    format_path,
    number_of,
    parse_path,
    payload_check,
    value_at,
)
from holdfast.history.past.questions import QuestionError

_values: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@given(st.lists(st.one_of(st.text(max_size=5), st.integers(0, 999_999_999)), max_size=5).map(tuple))
def test_a_path_that_is_written_is_read_as_it_was(path: JsonPath) -> None:
    assert parse_path(format_path(path)) == path


@given(_values, _values)
def test_two_values_differ_at_the_paths_that_are_told_and_nowhere_else(a: Any, b: Any) -> None:
    found = differing_paths(a, b, 1_000)
    for path, one, other in found:
        assert value_at(a, path) is one or value_at(a, path) == one
        assert value_at(b, path) is other or value_at(b, path) == other
    assert bool(found) == (json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True) and not _equal(a, b))


def _equal(a: Any, b: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


@pytest.mark.parametrize(
    ("text", "place", "right"),
    [
        ("", 1, "$"),
        ("a", 1, "$"),
        ("$a", 2, ".name"),
        ("$.", 3, "a name"),
        ("$..a", 3, "a name"),
        ("$.1", 3, "a name"),
        ("$[", 3, "a number or a name in quotes"),
        ("$[-1]", 3, "a number or a name in quotes"),
        ('$["a]', 3, "a number or a name in quotes"),
        ("$.a b", 4, ".name"),
        ('$["\\x"]', 3, "as JSON has it"),
    ],
)
def test_a_wrong_path_is_named_with_its_place(text: str, place: int, right: str) -> None:
    with pytest.raises(QuestionError) as refused:
        parse_path(text)
    assert refused.value.parameter == "path"
    assert f"at character {place}" in refused.value.detail
    assert right in refused.value.detail


@pytest.mark.parametrize(
    ("condition", "payload", "matches"),
    [
        ("$ > 5", b"6", True),
        ("$ > 5", b"5", False),
        ("$ > 5", b'"6"', False),
        ("$ > 5", b"true", False),
        ("$=true", b"true", True),
        ("$ = 1", b"true", False),
        ("$ = 1", b"1.0", True),
        ("$ != 1", b"2", True),
        ("$ != 1", b'"x"', False),
        ("$.a = null", b'{"a": null}', True),
        ("$.a = null", b"{}", False),
        ("$.a = on line", b'{"a": "on line"}', True),
        ("$.a < b", b'{"a": "a"}', True),
        ("$.a[1] >= 2", b'{"a": [1, 2]}', True),
        ("$.a[2] >= 2", b'{"a": [1, 2]}', False),
        ("$.a contains 2", b'{"a": [1, 2]}', True),
        ("$.a contains true", b'{"a": [1, 2]}', False),
        ("$.a contains ell", b'{"a": "hello"}', True),
        ('$.a = {"b": 1}', b'{"a": {"b": 1}}', True),
        ("$.a > [1]", b'{"a": [2]}', False),
        ("$.a = 1", b"{" * 100_000, False),
        ("$.a = 1", b"\xff\xfe", False),
        ("$.a = 1", b"", False),
        ("$5", b"costs $5", True),
        ("$$", b"$$", True),
        ("text", b"\xfftext\x00", True),
        ("a.b > 5", b"a.b > 5", True),
    ],
)
def test_a_condition_or_a_text_is_looked_for(condition: str, payload: bytes, *, matches: bool) -> None:
    assert payload_check(condition)(payload) is matches


def test_what_is_no_json_has_no_value_and_what_is_not_finite_no_number() -> None:
    assert decode_payload(b"nothing") is MISSING
    assert [number_of(value) for value in (1, 2.5, True, "1", None, MISSING, float("inf"))] == [
        1,
        2.5,
        1,
        None,
        None,
        None,
        None,
    ]
