"""Units of time, and moments as microseconds since 1970, which is how all of Holdfast counts them."""

from datetime import UTC, datetime, timedelta
from typing import Final

MILLISECOND_US: Final = 1_000
SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60_000_000
HOUR_US: Final = 3_600_000_000
DAY_US: Final = 86_400_000_000
MICROSECOND_NS: Final = 1_000
DAY_S: Final = 86_400

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def datetime_of(us: int) -> datetime:
    """Microseconds since 1970 as a time in UTC, exactly. OverflowError from the year 10000 on."""
    return EPOCH + timedelta(microseconds=us)


def us_of(moment: datetime) -> int:
    """Requires: a time with a zone."""
    return (moment - EPOCH) // _MICROSECOND
