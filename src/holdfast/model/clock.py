"""Time as a contract. Pure code is handed a clock; nothing below `node` reads the system's.

`wall_us` may step back when an operator or NTP sets it. `monotonic_us` never does, and is
the one to measure durations with.
"""

from typing import Protocol


class Clock(Protocol):
    """What time it is, in whole microseconds."""

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC."""

    def monotonic_us(self) -> int:
        """Microseconds since an arbitrary fixed moment; never decreases."""


class ManualClock(Clock):
    """A clock that moves only when told to: for tests, and for playing back recorded time."""

    def __init__(self, wall_us: int = 1_700_000_000_000_000, monotonic_us: int = 0) -> None:
        self._wall_us = wall_us
        self._monotonic_us = monotonic_us

    def wall_us(self) -> int:
        return self._wall_us

    def monotonic_us(self) -> int:
        return self._monotonic_us

    def advance(self, us: int) -> None:
        """Let `us` microseconds pass on both clocks."""
        if us < 0:
            raise ValueError("time does not run backwards; use step_wall to set the wall clock")
        self._wall_us += us
        self._monotonic_us += us

    def step_wall(self, us: int) -> None:
        """Set the wall clock ahead or back, as an operator would, without any time passing."""
        self._wall_us += us
