"""Subscriptions of clients that are gone leave the matcher: at once, or very many of them in slices.

While they do, the matcher still finds some of them. What is delivered to their client then is nowhere stored, and is
forgotten with it. The matcher knows a client by its id, so a session with the same id begins when all of them are out.
"""

import asyncio
from typing import Final

from holdfast.broker.sessions.slices import SLICE, Slices
from holdfast.broker.subscriptions.subscriptions import SessionSubscriptions
from holdfast.exchange.client import BrokerClient


class SubscriptionRemovals:
    """Takes subscriptions out of memory; what is stored of them stays."""

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
