"""Where a replay starts, as clients write it.

    earliest                      the oldest message kept
    latest                        now: nothing of the past
    1751328000000000              Unix time in microseconds
    2026-07-01T00:00:00Z          ISO 8601; without a zone it is UTC
    -2h  -90s  -15m  -7d  -1w     that long ago

Nothing here knows what time it is: a relative start is resolved by the caller's clock.
"""

from datetime import UTC, datetime
from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.model.time import DAY_US, HOUR_US, MINUTE_US, SECOND_US, us_of

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

_UNITS_US: Final = {
    "s": SECOND_US,
    "m": MINUTE_US,
    "h": HOUR_US,
    "d": DAY_US,
    "w": 7 * DAY_US,
}
#: The last microsecond a signed 64-bit key can hold: year 294,247.
MAX_US: Final = 2**63 - 1
#: Digits of MAX_US; also keeps a hostile number short before it is converted.
_MAX_DIGITS: Final = 19


class Since:
    """A parsed start: absolute (`at_us`), or `ago_us` before the moment of asking. Exactly one is set (≥ 0)."""

    def __init__(self, at_us: int, ago_us: int) -> None:
        self.at_us: Final = at_us
        self.ago_us: Final = ago_us

    def resolve(self, now_us: int) -> int:
        """The start in microseconds since 1970; inclusive, never negative."""
        return self.at_us if self.ago_us < 0 else max(0, now_us - self.ago_us)


def parse_since(text: str) -> Since:
    """Parse a start, or raise PeerError that shows the forms."""
    if text == EARLIEST:
        return Since(0, -1)
    if text == LATEST:
        return Since(-1, 0)
    if text.startswith("-"):
        unit = _UNITS_US.get(text[-1:])
        number = text[1:-1]
        if unit is not None and is_number(number):
            return Since(-1, min(int(number) * unit, MAX_US))
    elif is_number(text):
        return Since(min(int(text), MAX_US), -1)
    else:
        at_us = _iso_us(text)
        if at_us >= 0:
            return Since(at_us, -1)
    raise PeerError(
        TOPIC_FILTER_INVALID,
        f"{text[:40]!r} is none of: earliest, latest, Unix microseconds, ISO 8601, -2h (s, m, h, d, w)",
    )


def is_number(text: str, max_digits: int = _MAX_DIGITS) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= max_digits


def _iso_us(text: str) -> int:
    """Microseconds since 1970; -1 if it is no ISO 8601 time or lies before 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return -1
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(-1, us_of(moment))
