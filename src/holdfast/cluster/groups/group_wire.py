"""Reports and packs of groups on core NATS: each node hears those that are sent to it.

What cannot be sent now is dropped. Whoever wrote it repeats what it said, as long as that matters.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from holdfast.model.errors import TransientError

_log = structlog.get_logger()

#: Packets that wait for the servers; beyond that the oldest are dropped.
_MOST: Final = 10_000


def subject_of(cluster: str, node: int) -> str:
    """Where a node hears what it is sent."""
    return f"holdfast-{cluster}.groups.{node}"


class GroupWire:
    """Requires: the event loop. `run` sends for as long as it is not cancelled."""

    def __init__(self, cluster: str, publish: Callable[[str, bytes], None]) -> None:
        """`publish` sends to a subject. TransientError: there is no connection."""
        self._cluster: Final = cluster
        self._publish: Final = publish
        self._waiting: list[tuple[int, bytes]] = []
        self._changed: Final = asyncio.Event()

    def send(self, node: int, packet: bytes) -> None:
        if len(self._waiting) >= _MOST:
            del self._waiting[0]
        self._waiting.append((node, packet))
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            waiting, self._waiting = self._waiting, []
            for node, packet in waiting:
                try:
                    self._publish(subject_of(self._cluster, node), packet)
                except TransientError as error:
                    _log.debug("a packet between nodes is not sent", about="groups", node=node, why=str(error))
