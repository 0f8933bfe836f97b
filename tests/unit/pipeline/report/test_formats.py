"""Numbers, sizes and times of a report have units."""

import pytest

from holdfast.pipeline.report import formats


@pytest.mark.parametrize(
    ("made", "right"),
    [
        (formats.number(1234), "1,234"),
        (formats.number(12_345_678), "12.35 million"),
        (formats.size(999), "999 B"),
        (formats.size(1_500_000), "1.5 MB"),
        (formats.duration(0.25), "250 ms"),
        (formats.duration(75), "1 min 15 s"),
        (formats.duration(90_000), "1 d 1 h"),
        (formats.duration(7200), "2 h"),
        (formats.share(1, 3), "33.3 %"),
        (formats.share(1, 100_000), "< 0.1 %"),
        (formats.share(1, 0), "0 %"),
        (formats.binary_size(65_536), "64 KiB"),
    ],
)
def test_numbers_have_units(made: str, right: str) -> None:
    assert made == right
