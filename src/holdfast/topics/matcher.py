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


class _Slot(Generic[K, V]):
    """The subscriptions of one filter. Most have one, which needs no dictionary: a third of the memory.

    1. `more` holds the others while there is more than one; never the first.
    """

    def __init__(self, key: K, value: V) -> None:
        self.key = key
        self.value = value
        self.more: dict[K, V] | None = None

    def put(self, key: K, value: V) -> bool:
        """Add or replace; True if the key is new."""
        if self.key == key:
            self.value = value
            return False
        if self.more is None:
            self.more = {key: value}
            return True
        before = len(self.more)
        self.more[key] = value
        return len(self.more) > before

    def holds(self, key: K) -> bool:
        return self.key == key or (self.more is not None and key in self.more)

    def remove(self, key: K) -> bool:
        """Remove a key that it holds; True if nothing is left."""
        more = self.more
        if more is None:
            return True
        if self.key == key:
            self.key, self.value = next(iter(more.items()))
            del more[self.key]
        else:
            del more[key]
        if not more:
            self.more = None
        return False

    def count(self) -> int:
        return 1 if self.more is None else 1 + len(self.more)

    def collect(self, found: list[V]) -> None:
        found.append(self.value)
        if self.more is not None:
            found.extend(self.more.values())


class _Node(Generic[K, V]):
    """A level of the trie.

    1. A node has children, `+` child, entries or rest; only the root may have none.
    2. Each of the four exists only while it holds something: most nodes have one of them.
    """

    def __init__(self) -> None:
        self.children: dict[bytes, _Node[K, V]] | None = None
        self.plus: _Node[K, V] | None = None
        #: Subscriptions whose filter ends here.
        self.entries: _Slot[K, V] | None = None
        #: Subscriptions whose filter ends with `#` below here.
        self.rest: _Slot[K, V] | None = None

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
    """Subscriptions by filter. At most one value per (filter, key); the key is the subscriber.

    1. `len(matcher)` is the number of (filter, key) pairs.
    2. Nothing stays behind when everything is unsubscribed.
    """

    def __init__(self) -> None:
        self._literal: Final[dict[bytes, _Slot[K, V]]] = {}
        self._root: Final[_Node[K, V]] = _Node()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def subscribe(self, topic_filter: TopicFilter, key: K, value: V) -> bool:
        """Add or replace; True if the pair is new."""
        if topic_filter.wildcard:
            added = self._put_wildcard(topic_filter.levels, key, value)
        else:
            topic = topic_filter.inner()
            slot = self._literal.get(topic)
            if slot is None:
                self._literal[topic] = _Slot(key, value)
                added = True
            else:
                added = slot.put(key, value)
        if added:
            self._count += 1
        return added

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
            literal.collect(found)
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
                        node.rest.collect(found)
            if not following:
                return found
            reached = following
            hide_wildcards = False
        for node in reached:
            if node.entries is not None:
                node.entries.collect(found)
            if node.rest is not None:  # `a/#` matches `a` too
                node.rest.collect(found)
        return found

    def _put_wildcard(self, levels: tuple[bytes, ...], key: K, value: V) -> bool:
        node = self._root
        for level in levels:
            if level == REST:
                if node.rest is None:
                    node.rest = _Slot(key, value)
                    return True
                return node.rest.put(key, value)
            node = node.child_or_new(level)
        if node.entries is None:
            node.entries = _Slot(key, value)
            return True
        return node.entries.put(key, value)

    def _remove_literal(self, topic: bytes, key: K) -> bool:
        slot = self._literal.get(topic)
        if slot is None or not slot.holds(key):
            return False
        if slot.remove(key):
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
        slot = node.rest if at_rest else node.entries
        if slot is None or not slot.holds(key):
            return False
        if slot.remove(key):
            if at_rest:
                node.rest = None
            else:
                node.entries = None
            while steps > 0 and path[steps].empty():
                steps -= 1
                path[steps].drop(levels[steps])
        return True

    def check_invariants(self) -> None:
        """Walk everything and assert the rules of the class, its nodes and its slots."""
        slots: list[_Slot[K, V]] = list(self._literal.values())
        pending = [self._root]
        while pending:
            node = pending.pop()
            assert node is self._root or not node.empty(), "an empty node stayed behind"
            assert node.children is None or node.children, "an empty dictionary stayed behind"
            slots.extend([slot for slot in (node.entries, node.rest) if slot is not None])
            pending.extend([] if node.children is None else node.children.values())
            pending.extend([] if node.plus is None else [node.plus])
        for slot in slots:
            assert slot.more is None or (slot.more and slot.key not in slot.more), "a slot is out of order"
        count = sum(slot.count() for slot in slots)
        assert count == self._count, f"{count} subscriptions found, {self._count} counted"
