"""The system's clock behind the contract `Clock`.

It does not inherit from it: an interpreted class cannot inherit from a compiled contract, and need not.
"""

import time


class SystemClock:
    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1000
