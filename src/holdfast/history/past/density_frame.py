"""The buckets of a picture: equal steps of time from one moment to another, the last one perhaps shorter."""

from typing import Final


class Frame:
    """`borders` are where buckets begin, and where the last one ends."""

    def __init__(self, from_us: int, to_us: int, buckets: int) -> None:
        """Requires: from < to, and at least one bucket."""
        self.from_us: Final = from_us
        self.to_us: Final = to_us
        self.step_us: Final = -(-(to_us - from_us) // buckets)
        self.borders: Final = [*range(from_us, to_us, self.step_us), to_us]
        self.count: Final = len(self.borders) - 1

    def bucket(self, position_us: int) -> int:
        """Requires: a position of the frame."""
        return (position_us - self.from_us) // self.step_us

    def borders_within(self, lo_us: int, hi_us: int) -> list[int]:
        """Borders above `lo_us` and below `hi_us`. Requires: both are of the frame."""
        return self.borders[self.bucket(lo_us) + 1 : -(-(hi_us - self.from_us) // self.step_us)]
