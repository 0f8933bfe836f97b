"""Starts of a replay, as clients write them (L16)."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.since import MAX_US, parse_since

pytestmark = pytest.mark.compiled

NOW_US = 1_750_000_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("earliest", 0),
        ("latest", NOW_US),
        ("0", 0),
        ("1751328000000000", 1_751_328_000_000_000),
        ("2025-07-01T00:00:00Z", 1_751_328_000_000_000),
        ("2025-07-01T02:00:00+02:00", 1_751_328_000_000_000),
        ("2025-07-01T00:00:00", 1_751_328_000_000_000),
        ("2025-07-01", 1_751_328_000_000_000),
        ("2025-07-01T00:00:00.000001Z", 1_751_328_000_000_001),
        ("-90s", NOW_US - 90_000_000),
        ("-15m", NOW_US - 900_000_000),
        ("-2h", NOW_US - 7_200_000_000),
        ("-7d", NOW_US - 604_800_000_000),
        ("-1w", NOW_US - 604_800_000_000),
        ("-9999999w", 0),
        ("9999999999999999999", MAX_US),
    ],
)
def test_every_documented_form_is_understood(text: str, expected_us: int) -> None:
    assert parse_since(text).resolve(NOW_US) == expected_us


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-2", "-h", "-2y", "--2h", "2h", "-٣h", "1.5", "2025-13-01", "1969-12-31", "9" * 20, "-9" * 20],
)
def test_anything_else_is_refused_and_the_forms_are_shown(text: str) -> None:
    with pytest.raises(PeerError) as caught:
        parse_since(text)
    assert caught.value.reason == TOPIC_FILTER_INVALID
    assert "earliest" in caught.value.detail
