"""Moments as microseconds since 1970."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.model.time import DAY_S, DAY_US, HOUR_US, MINUTE_US, SECOND_US, datetime_of, us_of


def test_units_are_multiples_of_each_other() -> None:
    assert (MINUTE_US, HOUR_US, DAY_US) == (60 * SECOND_US, 60 * MINUTE_US, 24 * HOUR_US)
    assert DAY_S * SECOND_US == DAY_US


@pytest.mark.parametrize("us", [0, 1, -1, 1_700_000_000_123_457, 253_402_300_799_999_999])
def test_a_moment_survives_the_way_there_and_back(us: int) -> None:
    assert us_of(datetime_of(us)) == us


def test_the_zone_of_a_moment_counts() -> None:
    assert us_of(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == 0
    assert datetime_of(SECOND_US) == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
