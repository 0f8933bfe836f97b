"""Retained messages in memory: a dictionary by topic, and a tree of levels for wildcards.

A scan visits only where its filter can match: `plant/+/temp` visits the halls of `plant`, not every topic there is.
"""

import heapq
from typing import Final

from holdfast.durable.retained.retained_store import RetainedScan, RetainedStore, ScanBudget
from holdfast.model.message import Message
from holdfast.topics.filters import ONE, REST, TopicFilter
from holdfast.topics.names import SEPARATOR, in_level_order, is_dollar

#: Expired messages removed at most whenever one is kept: more than come in, and soon done.
_SWEEP: Final = 100
#: Children of a node are copied at once when a scan comes to it: so many cost as much as one that is visited.
_COPIED: Final = 64
#: More than there are keys.
_UNBOUNDED: Final = 1 << 60


class _Level:
    """A node of the tree: 1. it has children or a topic, except the root."""

    def __init__(self) -> None:
        self.children: dict[bytes, _Level] = {}
        #: The whole topic that ends here; empty if none does.
        self.topic = b""


class KeptMessage:
    """A retained message, and its place in the order of all that were ever kept."""

    def __init__(self, message: Message, number: int) -> None:
        self.message: Final = message
        self.number: Final = number


class MemoryRetained(RetainedStore):
    """Survives: nothing."""

    def __init__(self) -> None:
        self._messages: Final[dict[bytes, KeptMessage]] = {}
        #: `$`-topics have another root: no wildcard at the first level reaches them [MQTT-4.7.2-1].
        self._plain: Final = _Level()
        self._dollar: Final = _Level()
        self._number = 0
        #: When messages expire, and which; an entry may be of one that was replaced since.
        self._expiries: Final[list[tuple[int, bytes]]] = []

    def keep(self, message: Message) -> None:
        topic = message.topic
        self._sweep(message.received_us)
        if not message.payload:
            if self._messages.pop(topic, None) is not None:
                self._prune(topic)
            return
        self._number += 1
        if message.expires_us:
            heapq.heappush(self._expiries, (message.expires_us, topic))
        if topic not in self._messages:
            level = self.root(topic)
            for name in topic.split(SEPARATOR):
                child = level.children.get(name)
                if child is None:
                    child = level.children[name] = _Level()
                level = child
            level.topic = topic
        self._messages[topic] = KeptMessage(message, self._number)

    def get(self, topic: bytes, now_us: int) -> Message | None:
        kept = self.current(topic, now_us)
        return None if kept is None else kept.message

    def match(self, topic_filter: TopicFilter, now_us: int) -> RetainedScan:
        return MemoryScan(self, topic_filter, now_us, self._number)

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> RetainedScan:
        """All that match are looked at and sorted: no scan in memory is resumed, except in tests."""
        found: list[tuple[bytes, Message]] = []
        scan = MemoryScan(self, topic_filter, now_us, newest)
        unbounded = ScanBudget(_UNBOUNDED)
        message = scan.next(unbounded)
        while message is not None:
            place = in_level_order(message.topic)
            if place > in_level_order(after):
                found.append((place, message))
            message = scan.next(unbounded)
        found.sort(key=lambda entry: entry[0], reverse=True)
        return FoundScan([entry[1] for entry in found])

    def newest(self) -> int:
        return self._number

    def written(self) -> int:
        return self._number

    def current(self, topic: bytes, now_us: int) -> KeptMessage | None:
        """What is kept for a topic; what has expired is removed."""
        kept = self._messages.get(topic)
        if kept is not None and kept.message.expired(now_us):
            del self._messages[topic]
            self._prune(topic)
            return None
        return kept

    def _sweep(self, now_us: int) -> None:
        """Remove what has expired, a bounded number at a time."""
        for _entry in range(_SWEEP):
            if not self._expiries or self._expiries[0][0] > now_us:
                return
            self.current(heapq.heappop(self._expiries)[1], now_us)

    def count(self) -> int:
        return len(self._messages)

    def root(self, first: bytes) -> _Level:
        """Where topics begin that a filter with this first level reaches: with a wildcard, no `$`-topics."""
        return self._dollar if is_dollar(first) else self._plain

    def _prune(self, topic: bytes) -> None:
        names = topic.split(SEPARATOR)
        path = [self.root(topic)]
        for name in names:
            path.append(path[-1].children[name])
        path[-1].topic = b""
        for i in range(len(names), 0, -1):
            if path[i].children or path[i].topic:
                return
            del path[i - 1].children[names[i - 1]]


class MemoryScan(RetainedScan):
    """Depth first; each node's children are fixed when it is visited. Not in the order of levels."""

    def __init__(self, store: MemoryRetained, topic_filter: TopicFilter, now_us: int, newest: int) -> None:
        self._store: Final = store
        self._levels: Final = topic_filter.levels
        self._wildcard: Final = topic_filter.wildcard
        self._topic: Final = topic_filter.inner()
        self._now_us: Final = now_us
        self._newest: Final = newest
        #: Nodes to visit, the next one last, and how many levels of the filter they have matched.
        self._pending: Final[list[tuple[list[_Level], int]]] = [([store.root(topic_filter.levels[0])], 0)]
        self._at = b""

    def at(self) -> bytes:
        return self._at

    def over(self) -> bool:
        return not self._pending

    def next(self, budget: ScanBudget) -> Message | None:
        while self._pending and budget.left > 0:
            topic = self._visit(budget) if self._wildcard else self._only(budget)
            kept = self._store.current(topic, self._now_us) if topic else None
            if kept is not None and kept.number <= self._newest:
                self._at = topic
                return kept.message
        return None

    def _only(self, budget: ScanBudget) -> bytes:
        """The topic of a filter without a wildcard."""
        self._pending.clear()
        budget.visit(len(self._topic))
        return self._topic

    def _visit(self, budget: ScanBudget) -> bytes:
        """Visit the next node; its topic, if the filter matches it."""
        nodes, i = self._pending[-1]
        node = nodes.pop()
        if not nodes:
            self._pending.pop()
        budget.visit(len(node.topic))
        if i == len(self._levels):
            return node.topic
        wanted = self._levels[i]
        if wanted in (REST, ONE):
            children = list(reversed(node.children.values()))
            budget.left -= len(children) // _COPIED
            if children:
                self._pending.append((children, i if wanted == REST else i + 1))
            return node.topic if wanted == REST else b""
        child = node.children.get(wanted)
        if child is not None:
            self._pending.append(([child], i + 1))
        return b""


class FoundScan(RetainedScan):
    """Messages that were found already."""

    def __init__(self, found: list[Message]) -> None:
        #: The next one last.
        self._found: Final = found
        self._at = b""

    def at(self) -> bytes:
        return self._at

    def over(self) -> bool:
        return not self._found

    def next(self, budget: ScanBudget) -> Message | None:
        if not self._found or budget.left <= 0:
            return None
        message = self._found.pop()
        budget.visit(len(message.topic))
        self._at = message.topic
        return message
