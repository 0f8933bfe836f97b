"""Things that are due at a time: one heap and one timer for all of them."""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

from holdfast.model.clock import Clock


class Deadline:
    """One entry; cancelling it is cheap, it leaves the heap when its time comes."""

    __slots__ = ("_action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self._action = None

    def fire(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


class Deadlines:
    """Actions by the monotonic time at which they are due."""

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock
        self._heap: Final[list[tuple[int, int, Deadline]]] = []
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to fire; what was asked for before waits for this."""
        self._loop = loop
        self._arm()

    def after(self, delay_us: int, action: Callable[[], None]) -> Deadline:
        """Call `action` when `delay_us` have passed."""
        deadline = Deadline(action)
        self._count += 1
        due_us = self._clock.monotonic_us() + max(0, delay_us)
        heapq.heappush(self._heap, (due_us, self._count, deadline))
        if self._timer is None or due_us < self._timer_us:
            self._arm()
        return deadline

    def fire(self) -> None:
        """Run everything that is due."""
        now_us = self._clock.monotonic_us()
        while self._heap and self._heap[0][0] <= now_us:
            heapq.heappop(self._heap)[2].fire()
        self._arm()

    def stop(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and self._loop is not None:
            self._timer_us = self._heap[0][0]
            delay_s = max(0, self._timer_us - self._clock.monotonic_us()) / 1_000_000
            self._timer = self._loop.call_later(delay_s, self.fire)
