"""The system's clock behind the contract."""

import time

from holdfast.model.clock import Clock


class SystemClock(Clock):
    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000
