"""Who gets a topic, and which subscriptions lie within a filter: of the sessions in a broker's memory, page by page.

Subscriptions come in the order of session ids and their filters. So a page can go on behind the last one that was seen,
whatever was subscribed and ended since: none is left out, and none comes twice.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.control.words import BAD_REQUEST, LISTED, SubscriptionInfo, Subscriptions, SubscriptionsRequest
from holdfast.exchange.client import BrokerClient, Subscribed
from holdfast.exchange.plans import may_receive
from holdfast.model.errors import PeerError
from holdfast.node.control.client_rows import MAX_NAMES, show, subscription_info
from holdfast.node.control.control_server import RefusedRequestError
from holdfast.topics.filters import parse_filter
from holdfast.topics.overlap import covers
from holdfast.topics.subscription import SubscriptionRecord

#: Subscriptions that are looked at in one loop iteration.
_SLICE: Final = 1000
#: Session id and filter.
_Place = tuple[str, bytes]
#: Subscriptions that are wanted, and None for each session or subscription that was looked at and is not.
_Found = Iterator[tuple[BrokerClient, SubscriptionRecord] | None]


async def find_subscriptions(
    broker: Broker, wanted: SubscriptionsRequest, timed: Callable[[], AbstractContextManager[None]]
) -> Subscriptions:
    """A page of them; `timed` is entered for each slice. RefusedRequestError if the question is wrong."""
    if bool(wanted.topic) == bool(wanted.under):
        raise RefusedRequestError(BAD_REQUEST, "give a topic, or a filter as `under`: one of the two")
    page = _Page(wanted.after, max(1, min(wanted.limit, LISTED)))
    found = _of_topic(broker, wanted.topic) if wanted.topic else _under(broker, wanted.under, page)
    while True:
        with timed():
            looked_at = list(islice(found, _SLICE))
            for one in looked_at:
                if one is not None:
                    page.add(*one)
            if len(looked_at) < _SLICE:
                return page.answer()
        await asyncio.sleep(0)


class _Page:
    """The first of many subscriptions behind a place. Few of those that it is given are kept at any time."""

    def __init__(self, after: tuple[str, str] | None, count: int) -> None:
        self._after: Final[_Place | None] = None if after is None else (after[0], after[1].encode())
        self._count: Final = count
        self._rows: list[tuple[_Place, BrokerClient, SubscriptionRecord]] = []
        #: The last place that may be on the page; None while it is not full.
        self._last: _Place | None = None

    def may_have(self, session_id: str) -> bool:
        """Whether subscriptions of this session may be on it."""
        is_behind = self._after is None or session_id >= self._after[0]
        return is_behind and (self._last is None or session_id <= self._last[0])

    def add(self, client: BrokerClient, record: SubscriptionRecord) -> None:
        place = (client.session.client_id, record.filter.raw)
        if (self._after is not None and place <= self._after) or (self._last is not None and place > self._last):
            return
        self._rows.append((place, client, record))
        # One more than are shown tells that there are more.
        if len(self._rows) > 2 * self._count:
            self._cut()

    def _cut(self) -> None:
        self._rows.sort(key=lambda row: row[0])
        del self._rows[self._count + 1 :]
        if len(self._rows) > self._count:
            self._last = self._rows[-1][0]

    def answer(self) -> Subscriptions:
        """As many as fit into a frame, at least one."""
        self._cut()
        items: list[SubscriptionInfo] = []
        names = 0
        for (session_id, raw), client, record in self._rows[: self._count]:
            names += len(raw) + len(session_id)
            if items and names > MAX_NAMES:
                break
            items.append(subscription_info(client, record))
        return Subscriptions(tuple(items), len(items) < len(self._rows), in_order=True)


def _of_topic(broker: Broker, topic: str) -> _Found:
    """The subscriptions by which messages of a topic are delivered, as the exchange delivers them."""
    raw = topic.encode()
    try:
        found = broker.exchange.routes.route(raw).targets
    except PeerError as error:
        raise RefusedRequestError(BAD_REQUEST, f"topic {topic[:200]!r}: {error.detail}") from error
    return ((one.client, one.record) if _gets(one, raw) else None for one in found)


def _gets(subscribed: Subscribed, topic: bytes) -> bool:
    """Whether a subscription that the matcher has found is delivered by, as plans are made (`exchange/plans.py`)."""
    if subscribed.record.hides(topic):
        return False
    return subscribed.group is not None or may_receive(subscribed.client, topic)


def _under(broker: Broker, text: str, page: _Page) -> _Found:
    """The subscriptions of all clients in memory whose filter lies within a filter, and that may be on a page."""
    try:
        wide = parse_filter(text.encode())
    except PeerError as error:
        raise RefusedRequestError(BAD_REQUEST, f"filter {text[:200]!r}: {error.detail}") from error
    if wide.group or wide.since:
        raise RefusedRequestError(BAD_REQUEST, f"write the filter alone: {show(wide.inner())}")

    def look() -> _Found:
        for client in list(broker.sessions.clients.values()):
            if not page.may_have(client.session.client_id):
                yield None
                continue
            for record in list(client.session.subscriptions.values()):
                yield (client, record) if covers(wide.levels, record.filter.levels) else None

    return look()
