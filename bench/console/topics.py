"""Topics of the stored day, and filters that ask for them. Imports little: processes that only look start with it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

LINES = 50
MEASURES = ("temperature", "pressure", "speed", "state")
METER = "plant/meter/power"


def device_topic(device: int, measure: str) -> str:
    return f"plant/line-{device % LINES:02d}/dev-{device:06d}/{measure}"


def filters() -> Iterator[str]:
    """Filters that need a look at every stream, without end."""
    shapes = ("plant/+/+/{measure}", "+/+/+/{measure}", "plant/line-{line:02d}/+/{measure}", "+/line-{line:02d}/#")
    for number in itertools.count():
        yield shapes[number % 4].format(measure=MEASURES[number // 4 % 4], line=number % LINES)
