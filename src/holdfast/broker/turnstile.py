"""One takeover at a time for each client id; of those who wait for their turn, only the newest gets one.

The registry settles races between nodes, at the price of a retry for each rival. On one node there is no need for
that: a thousand connects of one client id would otherwise be a thousand rivals.
"""

import asyncio
from typing import Final

from holdfast.durable.registry import ChannelVersion


class Turnstile:
    """1. At most one is inside per client id, and at most one waits: the newest."""

    def __init__(self) -> None:
        self._inside: Final[set[str]] = set()
        self._waiting: Final[dict[str, tuple[ChannelVersion, asyncio.Future[bool]]]] = {}

    async def enter(self, client_id: str, version: ChannelVersion) -> bool:
        """Wait for a turn; False if a newer one came meanwhile. After True, `leave` has to be called."""
        if client_id not in self._inside:
            self._inside.add(client_id)
            return True
        rival = self._waiting.get(client_id)
        if rival is not None:
            if version < rival[0]:
                return False
            self._tell(rival[1], turn=False)
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[client_id] = (version, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            waiting = self._waiting.get(client_id)
            if waiting is not None and waiting[1] is turn:
                del self._waiting[client_id]
            raise

    def leave(self, client_id: str) -> None:
        """Let the next one in."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None or waiting[1].done():
            self._inside.discard(client_id)
        else:
            self._tell(waiting[1], turn=True)

    @staticmethod
    def _tell(future: "asyncio.Future[bool]", *, turn: bool) -> None:
        if not future.done():
            future.set_result(turn)
