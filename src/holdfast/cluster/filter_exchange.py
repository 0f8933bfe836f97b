"""The filters of all nodes, as each of them knows the others': QoS 0 goes only to nodes where a client may want it.

    node 2: SUBSCRIBE a/# ──▶ change 8: + a/# ──────▶ node 1: PUBLISH a/b QoS 0 ──▶ to node 2, and not to node 3
            every second  ──▶ state: 8
            every 30 s    ──▶ the whole list 8, and whenever another node asks for it

1. A node gets everything unless its list is known: before its first list, when a number is missing, while it is silent,
   when this node's own connection was lost meanwhile, and when it asks for everything. So a message of this exchange
   that is lost costs traffic, and no QoS 0 message for longer than a second.
2. A filter is told in the loop iteration of its SUBSCRIBE, before SUBACK. One that is gone is told within a second.
3. A list is the union of a node's filters. One of more than `MAX_FILTERS` filters or `MAX_FILTER_BYTES` bytes is not
   told: that node asks for everything, until half of that is left.
4. Lists and changes of a node are taken in as they came; large lists in slices.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from holdfast.model.errors import PeerError, PermanentError, TransientError
from holdfast.records.cluster.filter_lists import (
    LIFE_BYTES,
    FilterChange,
    FilterList,
    FilterNews,
    FilterRequest,
    FilterSender,
    FilterState,
    decode_filter_news,
    encode_filter_news,
)
from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.route_cache import RouteCache

_log = structlog.get_logger()

#: What a list may have; beyond that its node gets everything.
MAX_FILTERS: Final = 20_000
MAX_FILTER_BYTES: Final = 1 << 20
#: Ticks, of a second each, between two whole lists.
LIST_EVERY: Final = 30
#: Ticks without a word of a node after which its list counts as unknown.
SILENT_TICKS: Final = 3
#: Filters of a list that are taken in at once; more of them between iterations of the loop.
_AT_ONCE: Final = 500
#: For the topics of QoS 0 messages that were published here.
_ROUTE_BYTES: Final = 16 << 20
_PLAN_BYTES: Final = 64

Send = Callable[[bytes], Awaitable[None]]


class OwnFilters:
    """The union of this node's filters, how often each is there, and what was not told yet."""

    def __init__(self) -> None:
        self._counts: Final[dict[bytes, int]] = {}
        self._bytes = 0
        #: By filter: whether it was added or removed since the last number.
        self._changes: Final[dict[bytes, bool]] = {}
        self.number = 0
        self.is_too_large = False

    def add(self, topic_filter: TopicFilter) -> bool:
        """A subscription begins; True if its filter is new here."""
        raw = topic_filter.inner()
        count = self._counts.get(raw, 0)
        self._counts[raw] = count + 1
        return count == 0 and self._change(raw, is_added=True)

    def remove(self, topic_filter: TopicFilter) -> None:
        """A subscription ends."""
        raw = topic_filter.inner()
        count = self._counts.get(raw, 0)
        if count > 1:
            self._counts[raw] = count - 1
        elif count:
            del self._counts[raw]
            self._change(raw, is_added=False)

    def _change(self, raw: bytes, *, is_added: bool) -> bool:
        """Note it, unless it undoes what was not told; whether something is left to be told."""
        self._bytes += len(raw) if is_added else -len(raw)
        if self._changes.get(raw, is_added) != is_added:
            del self._changes[raw]
            return False
        self._changes[raw] = is_added
        return True

    def update_size(self) -> bool:
        """Look whether the list is too large; True if that is new."""
        share = 2 if self.is_too_large else 1
        is_large = len(self._counts) * share > MAX_FILTERS or self._bytes * share > MAX_FILTER_BYTES
        is_new = is_large != self.is_too_large
        self.is_too_large = is_large
        return is_new

    def has_changes(self) -> bool:
        return bool(self._changes)

    def take_changes(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """What was added and removed; the list has the next number then."""
        changes = dict(self._changes)
        self._changes.clear()
        self.number += 1
        return (
            tuple([raw for raw, is_added in changes.items() if is_added]),
            tuple([raw for raw, is_added in changes.items() if not is_added]),
        )

    def all(self) -> tuple[bytes, ...]:
        return tuple(self._counts)


class _NodeFilters:
    """What is known of another node."""

    def __init__(self) -> None:
        self.life = b""
        self.number = 0
        #: Whether `filters` are all that it wants.
        self.is_known = False
        #: Whether it asks for everything.
        self.everything = False
        self.filters: set[bytes] = set()
        self.silent_ticks = 0
        #: Whether its list was asked for in this second.
        self.asked = False
        #: Lists and changes of it that wait to be taken in.
        self.waiting = 0


class FilterExchange:
    """A `FilterWatch` by shape. Requires: the event loop; `run` and `keep_time` go on until they are cancelled."""

    def __init__(self, node: int, send: Send, others: Callable[[], Iterable[int]], life: bytes = b"") -> None:
        """`send` tells all other nodes something; `others` are the nodes that live, as far as this one knows."""
        self._node: Final = node
        self._send: Final = send
        self._others: Final = others
        self._life: Final = life or secrets.token_bytes(LIFE_BYTES)
        self._own: Final = OwnFilters()
        self._nodes: Final[dict[int, _NodeFilters]] = {}
        self._routes: Final[RouteCache[int, int]] = RouteCache(_ROUTE_BYTES)
        #: Nodes that get everything: looked up once a second, and when something is told.
        self._unknown: list[int] = []
        self._outgoing: Final[list[FilterNews]] = []
        self._incoming: Final[deque[FilterList | FilterChange]] = deque()
        self._changed: Final = asyncio.Event()
        #: Ticks until the whole list is told.
        self._list_in = 0
        self._look()

    # ---- this node

    def subscribed(self, topic_filter: TopicFilter) -> None:
        """A subscription of this node begins."""
        if self._own.add(topic_filter):
            self._changed.set()

    def unsubscribed(self, topic_filter: TopicFilter) -> None:
        """A subscription of this node has ended."""
        self._own.remove(topic_filter)

    def reconnected(self) -> None:
        """What others have told while there was no connection did not come, nor did what this node told."""
        for known in self._nodes.values():
            known.is_known = False
        self._look()
        self._list_in = 0

    def tick(self) -> None:
        """A second has passed."""
        for known in self._nodes.values():
            known.asked = False
            known.silent_ticks += 1
        self._look()
        self._tell_changes()
        self._list_in -= 1
        if self._list_in < 0:
            self._tell_list()
        else:
            self._tell(FilterState(self._sender()))

    async def keep_time(self, wait: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        while True:
            self.tick()
            await wait(1.0)

    async def run(self) -> None:
        """Tell what is new, and take in what others have told."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._tell_changes()
            outgoing = list(self._outgoing)
            self._outgoing.clear()
            for news in outgoing:
                try:
                    await self._send(encode_filter_news(news))
                except TransientError as error:
                    _log.debug("filters are not told", why=str(error))
                    self._list_in = 0
            while self._incoming:
                await self._take_in(self._incoming.popleft())

    def _sender(self) -> FilterSender:
        return FilterSender(self._node, self._life, self._own.number)

    def _tell(self, news: FilterNews) -> None:
        self._outgoing.append(news)
        self._changed.set()

    def _tell_changes(self) -> None:
        if not self._own.has_changes():
            return
        added, removed = self._own.take_changes()
        if self._own.update_size():
            _log.info("QoS 0 from other nodes", everything=self._own.is_too_large)
            self._tell_list()
        elif not self._own.is_too_large:
            self._tell(FilterChange(self._sender(), added, removed))

    def _tell_list(self) -> None:
        self._list_in = LIST_EVERY
        everything = self._own.is_too_large
        self._tell(FilterList(self._sender(), () if everything else self._own.all(), everything=everything))

    # ---- other nodes

    def nodes_for(self, topic: bytes) -> tuple[int, ...]:
        """The other nodes that get a QoS 0 message of a topic. Requires: it is a valid topic name."""
        route = self._routes.route(topic)
        plan = route.plan
        if not isinstance(plan, tuple):
            plan = tuple(sorted(set(route.targets)))
            self._routes.attach(topic, route, plan, _PLAN_BYTES)
        if not self._unknown:
            return plan
        return (*[node for node in plan if node not in self._unknown], *self._unknown)

    def received(self, value: bytes) -> None:
        """What any node tells. What cannot be read is passed over, with a warning."""
        try:
            news = decode_filter_news(value)
        except PermanentError as error:
            _log.warning("filters of another node cannot be read", why=str(error))
            return
        sender = news.sender
        if sender.node == self._node:
            return
        if isinstance(news, FilterRequest):
            if news.of == self._node:
                self._tell_changes()
                self._tell_list()
            return
        known = self._nodes.setdefault(sender.node, _NodeFilters())
        known.silent_ticks = 0
        if isinstance(news, FilterState):
            if not known.waiting:
                self._compare(known, sender)
        elif known.waiting or (isinstance(news, FilterList) and len(news.filters) > _AT_ONCE):
            known.waiting += 1
            known.is_known = False
            self._incoming.append(news)
            self._changed.set()
        elif isinstance(news, FilterList):
            self._take_list(known, news)
        else:
            self._take_change(known, news)
        self._look()

    async def _take_in(self, news: FilterList | FilterChange) -> None:
        known = self._nodes[news.sender.node]
        if isinstance(news, FilterChange):
            self._take_change(known, news)
        else:
            # Until all of it is there, its node gets everything.
            for place in range(0, len(news.filters), _AT_ONCE):
                self._add(known, news.sender.node, news.filters[place : place + _AT_ONCE])
                await asyncio.sleep(0)
            self._take_list(known, news)
        known.waiting -= 1
        self._look()

    def _take_list(self, known: _NodeFilters, news: FilterList) -> None:
        """Of a large one, most is there already."""
        node, wanted = news.sender.node, set(news.filters)
        is_right = self._add(known, node, [raw for raw in news.filters if raw not in known.filters])
        self._remove(known, node, [raw for raw in known.filters if raw not in wanted])
        known.life, known.number, known.everything = news.sender.life, news.sender.number, news.everything
        known.is_known = is_right and not news.everything and len(wanted) <= MAX_FILTERS

    def _take_change(self, known: _NodeFilters, change: FilterChange) -> None:
        sender = change.sender
        if not known.is_known or (known.life, known.number + 1) != (sender.life, sender.number):
            self._compare(known, sender)
            return
        known.is_known = self._add(known, sender.node, change.added)
        self._remove(known, sender.node, change.removed)
        known.number = sender.number

    def _compare(self, known: _NodeFilters, sender: FilterSender) -> None:
        """Ask for the list of a node if the one that is known is another one than it has."""
        same_life = known.life == sender.life
        if same_life and (known.everything or (known.is_known and known.number == sender.number)):
            return
        known.is_known = False
        if not known.asked:
            known.asked = True
            self._tell(FilterRequest(self._sender(), sender.node))

    def _add(self, known: _NodeFilters, node: int, filters: Iterable[bytes]) -> bool:
        """Whether all of them can be read."""
        try:
            for raw in filters:
                self._routes.subscribe(parse_filter(raw), node, node)
                known.filters.add(raw)
        except PeerError as error:
            _log.warning("a filter of another node cannot be read", node=node, why=str(error))
            return False
        return True

    def _remove(self, known: _NodeFilters, node: int, filters: Iterable[bytes]) -> None:
        for raw in filters:
            if raw in known.filters:
                self._routes.unsubscribe(parse_filter(raw), node)
                known.filters.discard(raw)

    def _look(self) -> None:
        """Find the nodes that get everything, and forget those that are gone."""
        living = {node for node in self._others() if node != self._node}
        for node, known in list(self._nodes.items()):
            if known.silent_ticks < SILENT_TICKS or known.waiting:
                living.add(node)
            elif node not in living:
                self._remove(known, node, list(known.filters))
                del self._nodes[node]
        self._unknown = [node for node in sorted(living) if not self._is_known(node)]

    def _is_known(self, node: int) -> bool:
        known = self._nodes.get(node)
        return known is not None and known.is_known and known.silent_ticks < SILENT_TICKS
