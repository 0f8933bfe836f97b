"""Wakes event streams: each waits for the next tick, and none holds up another."""

import asyncio


class Ticker:
    """Ticks when there is something new to show."""

    def __init__(self) -> None:
        self._next = asyncio.Event()
        #: Counts ticks, so that what is rendered for one stream serves the others.
        self.count = 0
        #: Whether streams are to end.
        self.is_closed = False

    def close(self) -> None:
        """Have all streams end."""
        self.is_closed = True
        self.tick()

    def tick(self) -> None:
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Whether there was a tick within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._next.wait()
        except TimeoutError:
            return False
        return True
