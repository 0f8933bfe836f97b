"""A lock for each client id: one takeover at a time, and of those that wait only the newest is admitted.

The registry settles races between nodes, at the price of a retry for each rival. On one node there is no need for
that: a thousand connects of one client id would otherwise be a thousand rivals.
"""

import asyncio
from typing import Final

from holdfast.durable.takeover.registry import ChannelVersion


class ClientLocks:
    """1. At most one is inside per client id, and at most one waits: the newest."""

    def __init__(self) -> None:
        self._inside: Final[set[str]] = set()
        self._waiting: Final[dict[str, tuple[ChannelVersion, asyncio.Future[bool]]]] = {}

    async def enter(self, client_id: str, version: ChannelVersion) -> bool:
        """Wait for the lock; False if a newer one came meanwhile. After True, `leave` has to be called."""
        if client_id not in self._inside:
            self._inside.add(client_id)
            return True
        rival = self._waiting.get(client_id)
        if rival is not None:
            if version < rival[0]:
                return False
            self._settle(rival[1], admitted=False)
        admitted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[client_id] = (version, admitted)
        try:
            return await admitted
        except asyncio.CancelledError:
            waiting = self._waiting.get(client_id)
            if waiting is not None and waiting[1] is admitted:
                del self._waiting[client_id]
            raise

    def leave(self, client_id: str) -> None:
        """Let the next one in."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None or waiting[1].done():
            self._inside.discard(client_id)
        else:
            self._settle(waiting[1], admitted=True)

    @staticmethod
    def _settle(future: "asyncio.Future[bool]", *, admitted: bool) -> None:
        if not future.done():
            future.set_result(admitted)
