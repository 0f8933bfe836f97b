"""Long work in slices: between two of them the event loop serves others.

A session may have 100,000 subscriptions. To decode them, or to put them into the matcher or take them out, takes more
than a second altogether, in which no other client would be served.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.broker.subscriptions.subscriptions import SessionSubscriptions
from holdfast.exchange.client import BrokerClient

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


class SubscriptionRemovals:
    """Takes subscriptions of clients that are gone out of the matcher, at once or in slices; what is stored stays.

    While it does, the matcher still finds some of them. What is delivered to their client then is nowhere stored, and
    is forgotten with it. The matcher knows a client by its id, so a session with the same id begins when all are out.
    """

    def __init__(self, subscriptions: SessionSubscriptions, slices: Slices) -> None:
        self._subscriptions: Final = subscriptions
        self._slices: Final = slices
        #: By client id, what is still to be removed.
        self._left: Final[dict[str, list[bytes]]] = {}
        #: By client id, what the next connect waits for.
        self._finished: Final[dict[str, asyncio.Future[None]]] = {}

    def remove(self, client: BrokerClient) -> None:
        """Remove all subscriptions of a client that is not here any more, or not yet."""
        raws = list(client.session.subscriptions)
        # With an external queue, a message that the matcher finds would be appended there.
        if len(raws) <= SLICE or client.external is not None:
            for raw in raws:
                self._subscriptions.remove(client, raw)
            return
        if client.groups:  # a group ends with its last member, and not some time after
            for raw in [raw for raw in raws if client.session.subscriptions[raw].filter.group]:
                self._subscriptions.remove(client, raw)
        self._left[client.session.client_id] = raws
        self._slices.soon(lambda: self._remove_slice(client, raws))

    def under_way(self, client_id: str) -> bool:
        return client_id in self._left

    async def finished(self, client_id: str) -> None:
        """Wait until nothing is left of a client. Requires: a removal is under way; at most one waits for it."""
        finished = self._finished[client_id] = asyncio.get_running_loop().create_future()
        await finished

    def _remove_slice(self, client: BrokerClient, raws: list[bytes]) -> None:
        try:
            for _index in range(min(SLICE, len(raws))):
                self._subscriptions.remove(client, raws.pop())
        finally:
            if raws:
                self._slices.soon(lambda: self._remove_slice(client, raws))
            else:
                client_id = client.session.client_id
                del self._left[client_id]
                finished = self._finished.pop(client_id, None)
                if finished is not None and not finished.done():
                    finished.set_result(None)
