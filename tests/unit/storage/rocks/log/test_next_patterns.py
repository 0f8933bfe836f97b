"""Patterns for the next generation: what a file may say, and how one that is wrong is met."""

import json
from pathlib import Path

import pytest

from holdfast.model.errors import PermanentError, TransientError
from holdfast.storage.rocks.log.next_patterns import (
    FILE_NAME,
    MAX_PATTERNS,
    NextPatterns,
    check_pattern,
    mark_of,
    read_patterns,
    write_patterns,
)

GOOD = ["fleet/+/engine/temp", "a", "/", "a//b", "$+/x", "$state/+", "+/+", "ö/+"]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_patterns(tmp_path) == {}
    write_patterns(tmp_path, {"default": GOOD, "press": []})
    assert read_patterns(tmp_path) == {"default": tuple(pattern.encode() for pattern in GOOD), "press": ()}
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize(
    "pattern", ["", "a/#", "a+/b", "a/$+", "a/b#", "x\0y", "a" * 1025, "/" * 32, "\ud800"], ids=ascii
)
def test_what_no_topic_follows_is_no_pattern(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(PermanentError, match="right would be a topic with"):
        check_pattern(pattern)
    with pytest.raises(PermanentError):
        write_patterns(tmp_path, {"default": ["good/+", pattern]})
    assert list(tmp_path.iterdir()) == []


WRONG = [
    ("", "is no JSON"),
    ("[" * 100_000, "is no JSON"),
    ("[]", "its version is None"),
    ('{"version": 2, "zones": {}}', "its version is 2"),
    ('{"version": 1}', '"zones" is missing'),
    ('{"version": 1, "zones": {"default": "a/+"}}', "has no list of patterns"),
    ('{"version": 1, "zones": {"default": [1]}}', "1 is no text"),
    ('{"version": 1, "zones": {"default": ["a/+", "a/+"]}}', "has a pattern twice"),
    ('{"version": 1, "zones": {"default": ["a/#"]}}', "level 2 is '#'"),
    (json.dumps({"version": 1, "zones": {"z": [str(n) for n in range(MAX_PATTERNS + 1)]}}), "and may have 500"),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[said for _text, said in WRONG])
def test_a_file_that_is_wrong_is_named_and_not_used(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(PermanentError) as found:
        read_patterns(tmp_path)
    assert said in str(found.value)
    assert FILE_NAME in str(found.value)
    assert NextPatterns(tmp_path).of("default") == ()


def test_the_broker_sees_a_file_that_comes_changes_and_goes(tmp_path: Path) -> None:
    seen = NextPatterns(tmp_path)
    assert seen.of("default") == ()
    write_patterns(tmp_path, {"default": ["a/+"]})
    assert seen.of("default") == (b"a/+",)
    assert seen.of("other") == ()
    write_patterns(tmp_path, {"default": ["b/+"]})
    assert seen.of("default") == (b"b/+",)
    (tmp_path / FILE_NAME).write_text("nothing")
    assert seen.of("default") == ()
    (tmp_path / FILE_NAME).unlink()
    assert seen.of("default") == ()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="cannot be written"):
        write_patterns(tmp_path / "nowhere", {"default": ["a/+"]})


def test_the_mark_of_patterns_never_changes() -> None:
    """It stands in the records of generations."""
    assert mark_of(()) == ""
    assert mark_of((b"a/+", b"b/+")) == "1dcb153fd78719fd"
    assert mark_of((b"b/+", b"a/+")) != mark_of((b"a/+", b"b/+"))
