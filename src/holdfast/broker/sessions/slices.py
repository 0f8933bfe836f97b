"""Long work in slices: between two of them the event loop serves others.

A session may have 100,000 subscriptions. To decode them, or to put them into the matcher or take them out, takes more
than a second altogether, in which no other client would be served.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

#: Records or subscriptions in one slice: a few milliseconds. What is not more than that is done at once.
SLICE: Final = 500


class Slices:
    """Slices of all clients that wait.

    1. Each loop iteration begins one of them, and clients take turns: a long session does not hold up a shorter one.
    """

    def __init__(self) -> None:
        self._waiting: Final[deque[Callable[[], None]]] = deque()

    def soon(self, work: Callable[[], None]) -> None:
        """Do a slice of work in a later loop iteration, behind those that wait already."""
        self._waiting.append(work)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        work = self._waiting[0]
        try:
            work()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)

    async def next_slice(self) -> None:
        """Wait until a slice may be done."""
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.soon(lambda: None if ready.done() else ready.set_result(None))
        await ready
