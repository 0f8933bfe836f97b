"""Sizes and times as text."""

import pytest

from holdfast.cli.output.text import format_size, format_time


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (1_500_000, "1.5 MB"),
        (2 * 10**9, "2.0 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_a_size_has_the_unit_that_fits(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


def test_a_time_always_has_the_same_width() -> None:
    assert format_time(0) == "1970-01-01T00:00:00.000000Z"
    assert format_time(1_700_000_000_000_001) == "2023-11-14T22:13:20.000001Z"
