"""An event loop for worlds in memory: no selector, no sockets, and no pause that a test did not ask for.

A real loop asks the system for events with every iteration, which costs more than most iterations of a simulation. In a
world without sockets there is none to come: what is not ready never will be, unless a timer of the loop runs.
"""

import asyncio
import time
from collections import deque
from typing import Final

#: Iterations after which a world that does not come to rest is busy for ever.
MOST_ITERATIONS: Final = 2000


class _NoEvents:
    """A selector by shape, without anything to select from."""

    def select(self, timeout: float | None = None) -> list[object]:
        if timeout is None:
            raise AssertionError("the world waits for something that nothing in it can bring about")
        if timeout > 0:
            time.sleep(timeout)
        return []


class StillLoop(asyncio.BaseEventLoop):
    """A loop that can run until nothing is ready any more, without what `run_forever` prepares and asks for."""

    _ready: deque[asyncio.Handle]

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoEvents()

    def settle(self) -> None:
        """Run what is ready, and what that makes ready, iteration by iteration. Timers of the loop do not expire.

        AssertionError if there is no end to it.
        """
        ready = self._ready
        asyncio._set_running_loop(self)
        try:
            for _iteration in range(MOST_ITERATIONS):
                if not ready:
                    return
                for _handle in range(len(ready)):
                    handle = ready.popleft()
                    if not handle.cancelled():
                        handle._run()
        finally:
            asyncio._set_running_loop(None)
        raise AssertionError(f"{MOST_ITERATIONS} iterations, and there is still something to do: {ready}")

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing has to be woken: a thread that adds a callback is not waited for."""
