"""Retained messages in memory: a dictionary by topic, and a tree of levels for wildcards.

A filter is answered by walking only where it can match: `plant/+/temp` visits the halls of `plant`,
not every topic there is.
"""

import heapq
from collections.abc import Iterator
from typing import Final

from holdfast.durable.retained import RetainedStore
from holdfast.model.message import Message
from holdfast.topics.filters import ONE, REST, TopicFilter
from holdfast.topics.names import SEPARATOR, in_level_order, is_dollar

#: Expired messages removed at most whenever one is kept: more than come in, and soon done.
_SWEEP: Final = 100


class _Level:
    """A node of the tree: 1. it has children or a topic, except the root."""

    def __init__(self) -> None:
        self.children: dict[bytes, _Level] = {}
        #: The whole topic that ends here; empty if none does.
        self.topic = b""


class _Kept:
    """A retained message, and its place in the order of all that were ever kept."""

    def __init__(self, message: Message, number: int) -> None:
        self.message: Final = message
        self.number: Final = number


class MemoryRetained(RetainedStore):
    """Survives: nothing."""

    def __init__(self) -> None:
        self._messages: Final[dict[bytes, _Kept]] = {}
        self._root: Final = _Level()
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
            level = self._root
            for name in topic.split(SEPARATOR):
                child = level.children.get(name)
                if child is None:
                    child = level.children[name] = _Level()
                level = child
            level.topic = topic
        self._messages[topic] = _Kept(message, self._number)

    def get(self, topic: bytes, now_us: int) -> Message | None:
        kept = self._current(topic, now_us)
        return None if kept is None else kept.message

    def match(self, topic_filter: TopicFilter, now_us: int) -> Iterator[Message]:
        return self._walk(topic_filter, now_us, self._number)

    def _walk(self, topic_filter: TopicFilter, now_us: int, newest: int) -> Iterator[Message]:
        """What the filter matches, except what was kept after `newest`."""
        topics: Iterator[bytes] = iter([topic_filter.inner()])
        if topic_filter.wildcard:
            topics = self._topics(topic_filter.levels)
        for topic in topics:
            kept = self._current(topic, now_us)
            if kept is not None and kept.number <= newest:
                yield kept.message

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> Iterator[Message]:
        """All that match are looked at and sorted: nobody resumes a walk in memory, except tests."""
        found: list[tuple[bytes, Message]] = []
        for message in self._walk(topic_filter, now_us, newest):
            place = in_level_order(message.topic)
            if place > in_level_order(after):
                found.append((place, message))
        found.sort(key=lambda entry: entry[0])
        return iter([message for _place, message in found])

    def newest(self) -> int:
        return self._number

    def written(self) -> int:
        return self._number

    def _current(self, topic: bytes, now_us: int) -> _Kept | None:
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
            self._current(heapq.heappop(self._expiries)[1], now_us)

    def count(self) -> int:
        return len(self._messages)

    def _topics(self, levels: tuple[bytes, ...]) -> Iterator[bytes]:
        """Topics that the levels match, depth first; each node's children are fixed when it is visited."""
        pending: list[tuple[_Level, int]] = [(self._root, 0)]
        while pending:
            node, i = pending.pop()
            if i == len(levels):
                if node.topic:
                    yield node.topic
                continue
            wanted = levels[i]
            if wanted == REST:
                if node.topic:
                    yield node.topic
                pending.extend([(child, i) for child in self._visible(node, i)])
            elif wanted == ONE:
                pending.extend([(child, i + 1) for child in self._visible(node, i)])
            else:
                child_or_none = node.children.get(wanted)
                if child_or_none is not None:
                    pending.append((child_or_none, i + 1))

    def _visible(self, node: _Level, i: int) -> list[_Level]:
        """Children that a wildcard at level `i` reaches: at the first, no `$`-topics [MQTT-4.7.2-1]."""
        if node is not self._root or i > 0:
            return list(reversed(node.children.values()))
        return [child for name, child in reversed(node.children.items()) if not is_dollar(name)]

    def _prune(self, topic: bytes) -> None:
        names = topic.split(SEPARATOR)
        path = [self._root]
        for name in names:
            path.append(path[-1].children[name])
        path[-1].topic = b""
        for i in range(len(names), 0, -1):
            if path[i].children or path[i].topic:
                return
            del path[i - 1].children[names[i - 1]]
