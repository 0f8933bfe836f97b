"""The system's clock, for the contract `Clock`.

It does not inherit from the contract: an interpreted class cannot inherit from a compiled one, and need not.
"""

import time


class SystemClock:
    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000
