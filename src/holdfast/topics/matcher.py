"""The live matcher: which subscriptions does a topic reach?

Filters without a wildcard live in a plain dictionary by topic: finding them is one lookup.
Filters with one live in a trie of levels:

    plant/+/temp      root ── plant ── + ── temp ●
    plant/#                     └─ #●               `#` is not a node: its entries hang on the parent

A match walks the trie one level at a time, with all nodes reached so far side by side, so a
topic of 65,536 levels needs no deep stack.
"""

from typing import Final, Generic, TypeVar

from holdfast.topics.filters import ONE, REST, TopicFilter
from holdfast.topics.names import SEPARATOR, is_dollar

K = TypeVar("K")
V = TypeVar("V")


class _Node(Generic[K, V]):
    """A level of the trie.

    1. A node has children, `+` child, entries or rest; only the root may have none.
    2. Dictionaries exist only while they hold something: most nodes have one of the four.
    """

    def __init__(self) -> None:
        self.children: dict[bytes, _Node[K, V]] | None = None
        self.plus: _Node[K, V] | None = None
        #: Subscriptions whose filter ends here.
        self.entries: dict[K, V] | None = None
        #: Subscriptions whose filter ends with `#` below here.
        self.rest: dict[K, V] | None = None

    def child(self, level: bytes) -> "_Node[K, V] | None":
        if level == ONE:
            return self.plus
        return None if self.children is None else self.children.get(level)

    def child_or_new(self, level: bytes) -> "_Node[K, V]":
        found = self.child(level)
        if found is not None:
            return found
        made: _Node[K, V] = _Node()
        if level == ONE:
            self.plus = made
        elif self.children is None:
            self.children = {level: made}
        else:
            self.children[level] = made
        return made

    def drop(self, level: bytes) -> None:
        if level == ONE:
            self.plus = None
        elif self.children is not None:
            del self.children[level]
            if not self.children:
                self.children = None

    def empty(self) -> bool:
        return self.children is None and self.plus is None and self.entries is None and self.rest is None


class Matcher(Generic[K, V]):
    """Subscriptions by filter. At most one value per (filter, key); a key is whoever subscribes.

    1. `len(matcher)` is the number of (filter, key) pairs.
    2. Nothing stays behind when everything is unsubscribed.
    """

    def __init__(self) -> None:
        self._literal: Final[dict[bytes, dict[K, V]]] = {}
        self._root: Final[_Node[K, V]] = _Node()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def subscribe(self, topic_filter: TopicFilter, key: K, value: V) -> bool:
        """Add or replace; True if the pair is new."""
        if topic_filter.wildcard:
            entries = self._wildcard_entries(topic_filter.levels)
        else:
            topic = topic_filter.inner()
            found = self._literal.get(topic)
            if found is None:
                found = self._literal[topic] = {}
            entries = found
        before = len(entries)
        entries[key] = value
        if len(entries) == before:
            return False
        self._count += 1
        return True

    def unsubscribe(self, topic_filter: TopicFilter, key: K) -> bool:
        """Remove; False if there was no such pair."""
        if topic_filter.wildcard:
            removed = self._remove_wildcard(topic_filter.levels, key)
        else:
            removed = self._remove_literal(topic_filter.inner(), key)
        if removed:
            self._count -= 1
        return removed

    def match(self, topic: bytes) -> list[V]:
        """The values of every subscription that `topic` reaches, in no particular order.

        Requires: `topic` is a valid topic name.
        """
        found: list[V] = []
        literal = self._literal.get(topic)
        if literal is not None:
            found.extend(literal.values())
        root = self._root
        if root.children is None and root.plus is None and root.rest is None:
            return found
        reached = [root]
        hide_wildcards = is_dollar(topic)  # [MQTT-4.7.2-1], for the first level only
        for level in topic.split(SEPARATOR):
            following: list[_Node[K, V]] = []
            for node in reached:
                children = node.children
                if children is not None:
                    child = children.get(level)
                    if child is not None:
                        following.append(child)
                if not hide_wildcards:
                    if node.plus is not None:
                        following.append(node.plus)
                    if node.rest is not None:
                        found.extend(node.rest.values())
            if not following:
                return found
            reached = following
            hide_wildcards = False
        for node in reached:
            if node.entries is not None:
                found.extend(node.entries.values())
            if node.rest is not None:  # `a/#` matches `a` too
                found.extend(node.rest.values())
        return found

    def _wildcard_entries(self, levels: tuple[bytes, ...]) -> dict[K, V]:
        node = self._root
        for level in levels:
            if level == REST:
                if node.rest is None:
                    node.rest = {}
                return node.rest
            node = node.child_or_new(level)
        if node.entries is None:
            node.entries = {}
        return node.entries

    def _remove_literal(self, topic: bytes, key: K) -> bool:
        entries = self._literal.get(topic)
        if entries is None or key not in entries:
            return False
        del entries[key]
        if not entries:
            del self._literal[topic]
        return True

    def _remove_wildcard(self, levels: tuple[bytes, ...], key: K) -> bool:
        path = [self._root]
        at_rest = levels[-1] == REST
        steps = len(levels) - 1 if at_rest else len(levels)
        for i in range(steps):
            child = path[i].child(levels[i])
            if child is None:
                return False
            path.append(child)
        node = path[steps]
        entries = node.rest if at_rest else node.entries
        if entries is None or key not in entries:
            return False
        del entries[key]
        if not entries:
            if at_rest:
                node.rest = None
            else:
                node.entries = None
            while steps > 0 and path[steps].empty():
                steps -= 1
                path[steps].drop(levels[steps])
        return True

    def check_invariants(self) -> None:
        """Walk everything and assert the rules of the class and of its nodes."""
        count = 0
        for entries in self._literal.values():
            assert entries, "an empty dictionary stayed behind"
            count += len(entries)
        pending = [self._root]
        while pending:
            node = pending.pop()
            assert node is self._root or not node.empty(), "an empty node stayed behind"
            for slot in (node.entries, node.rest):
                assert slot is None or slot, "an empty dictionary stayed behind"
                count += 0 if slot is None else len(slot)
            assert node.children is None or node.children, "an empty dictionary stayed behind"
            pending.extend([] if node.children is None else node.children.values())
            pending.extend([] if node.plus is None else [node.plus])
        assert count == self._count, f"{count} subscriptions found, {self._count} counted"
