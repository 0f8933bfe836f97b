"""A bounded cache from topic bytes to the subscriptions they reach, right at every moment.

Matching walks a trie; most topics repeat. A hit is one dictionary lookup and one comparison.

How it stays right while subscriptions change:
- A filter without a wildcard concerns one topic: that entry is dropped.
- A filter with one is noted in a short list of changes. An entry remembers how many changes it has
  seen. On its next use it is checked against the ones it missed, and matched again only if one of
  them concerns its topic. So a storm of subscriptions does not empty the cache, and costs nothing
  for topics without publishers.

How it stays bounded: entries have a cost (their key, their references, and what the owner derives
from them). They fill a young half;
when that is full it becomes the old half and the former old half is dropped. A hit in the old half
moves the entry to the young one. So what is in use stays, without bookkeeping on a hit.

A topic is cached when it is asked for the second time: a client that publishes to ever new topics leaves nothing here
but bits, neither entries that push out those in use nor objects for the garbage collector.
"""

from typing import Final, Generic, TypeVar

from holdfast.topics.filters import TopicFilter, levels_match
from holdfast.topics.matcher import Matcher
from holdfast.topics.names import SEPARATOR, check_topic_name, is_dollar

K = TypeVar("K")
V = TypeVar("V")

#: Longer topics are matched each time: caching them would let a client fill the memory with names.
MAX_CACHED_TOPIC_BYTES: Final = 512
#: Bytes that an entry costs beside its topic and its references: objects and dictionary slot, about.
_ENTRY_BYTES: Final = 200
_REFERENCE_BYTES: Final = 8
#: An entry that missed more changes than this is matched again: cheaper than checking each.
MAX_CHECKED_CHANGES: Final = 32
#: Each half holds 100,000 topics with one subscriber: a cycle of more topics than that is matched again and again.
DEFAULT_LIMIT_BYTES: Final = 128 * 1024 * 1024
#: Bits for the topics that were asked for once, by their hash; and how many are set before all are cleared: up to then
#: a new topic is taken for a known one every fourth time at most, which only costs an entry.
_SEEN_BITS: Final = 1 << 20
_MOST_SEEN: Final = _SEEN_BITS // 4


class Route(Generic[V]):
    """Whom a topic reaches."""

    def __init__(self, targets: list[V], change: int) -> None:
        #: Shared by all who ask: never changed in place.
        self.targets: Final = targets
        self.change = change
        #: What the owner of the cache derives from the targets, kept as long as they are right. Set by `attach`.
        self.plan: object | None = None
        self.plan_bytes = 0


def _cost(topic: bytes, route: Route[V]) -> int:
    return len(topic) + _ENTRY_BYTES + _REFERENCE_BYTES * len(route.targets) + route.plan_bytes


class RouteCache(Generic[K, V]):
    """A matcher with a cache in front; every change of subscriptions goes through it.

    1. `route(topic).targets` equals `matcher.match(topic)` after any sequence of changes.
    2. The estimated size never exceeds the limit, plans included.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self._matcher: Final[Matcher[K, V]] = Matcher()
        self._half_bytes: Final = limit_bytes // 2
        self._young: dict[bytes, Route[V]] = {}
        self._old: dict[bytes, Route[V]] = {}
        self._young_bytes = 0
        self._seen = bytearray(_SEEN_BITS >> 3)
        self._seen_count = 0
        #: Topics that were matched because they were not cached, so far.
        self.misses = 0
        #: Number of changes so far, of any kind: a route is right for as long as it does not move.
        self.version = 0
        #: Number of wildcard changes so far; the newest of them are kept.
        self._change = 0
        self._changes: list[tuple[bytes, ...]] = []

    def __len__(self) -> int:
        """The number of subscriptions."""
        return len(self._matcher)

    def subscribe(self, topic_filter: TopicFilter, key: K, value: V) -> bool:
        """Add or replace a subscription; True if it is new."""
        self.touch(topic_filter)
        return self._matcher.subscribe(topic_filter, key, value)

    def unsubscribe(self, topic_filter: TopicFilter, key: K) -> bool:
        """Remove a subscription; False if there was none."""
        removed = self._matcher.unsubscribe(topic_filter, key)
        if removed:
            self.touch(topic_filter)
        return removed

    def route(self, topic: bytes) -> Route[V]:
        """Whom `topic` reaches. Raises PeerError if it is no valid topic name: a cached one was checked before."""
        found = self._young.get(topic)
        if found is not None and found.change == self._change:
            return found
        return self._refresh(topic, found)

    def attach(self, topic: bytes, route: Route[V], plan: object, plan_bytes: int) -> None:
        """Keep with a route what was derived from it, about `plan_bytes` large.

        Requires: `route` is what `route(topic)` returned, and it has no plan yet.
        Ensures: it is counted; a route that is too large with its plan is not kept, and its plan serves this once.
        """
        kept = self._young.get(topic) is route or self._old.get(topic) is route
        if kept:
            self._forget(topic)
        route.plan = plan
        route.plan_bytes = plan_bytes
        if kept:
            self._keep(topic, route)

    def touch(self, topic_filter: TopicFilter) -> None:
        """Something about a filter's subscribers changed: routes of its topics are worked out again."""
        self.version += 1
        if not topic_filter.wildcard:
            self._forget(topic_filter.inner())
            return
        self._change += 1
        self._changes.append(topic_filter.levels)
        if len(self._changes) > 2 * MAX_CHECKED_CHANGES:
            del self._changes[:MAX_CHECKED_CHANGES]

    def touch_all(self) -> None:
        """The same for all filters, at once, however many there are."""
        self.version += 1
        self._change += 1
        self._changes.clear()

    def clear(self) -> None:
        """Everything about everybody may have changed: work all routes out again."""
        self.version += 1
        self._young = {}
        self._old = {}
        self._young_bytes = 0

    def cached_topics(self) -> int:
        """How many topics are in the cache."""
        return len(self._young.keys() | self._old.keys())

    def _refresh(self, topic: bytes, found: Route[V] | None) -> Route[V]:
        if found is None:
            found = self._old.get(topic)
            if found is None:
                check_topic_name(topic)
                self.misses += 1
                if not self._seen_before(topic):
                    return Route(self._matcher.match(topic), self._change)
                return self._match(topic)
            self._forget(topic)
            self._keep(topic, found)
        if not self._touched(topic, found.change):
            found.change = self._change
            return found
        self._forget(topic)
        return self._match(topic)

    def _seen_before(self, topic: bytes) -> bool:
        """Whether a topic was asked for lately, or one with the same bit."""
        place = hash(topic) & (_SEEN_BITS - 1)
        bit = 1 << (place & 7)
        seen = self._seen[place >> 3]
        if seen & bit:
            return True
        if self._seen_count == _MOST_SEEN:
            self._seen = bytearray(_SEEN_BITS >> 3)
            self._seen_count = seen = 0
        self._seen[place >> 3] = seen | bit
        self._seen_count += 1
        return False

    def _match(self, topic: bytes) -> Route[V]:
        fresh: Route[V] = Route(self._matcher.match(topic), self._change)
        self._keep(topic, fresh)
        return fresh

    def _touched(self, topic: bytes, seen: int) -> bool:
        """Whether a wildcard change that came after the first `seen` concerns `topic`."""
        missed = self._change - seen
        if missed > len(self._changes):
            return True
        if missed == 0:
            return False
        levels = topic.split(SEPARATOR)
        dollar = is_dollar(topic)
        return any(levels_match(self._changes[-i], levels, dollar=dollar) for i in range(1, missed + 1))

    def _keep(self, topic: bytes, route: Route[V]) -> None:
        """Requires: the topic is in neither half."""
        cost = _cost(topic, route)
        if len(topic) > MAX_CACHED_TOPIC_BYTES or cost > self._half_bytes:
            return
        if self._young_bytes + cost > self._half_bytes:
            self._old = self._young
            self._young = {}
            self._young_bytes = 0
        self._young_bytes += cost
        self._young[topic] = route

    def _forget(self, topic: bytes) -> None:
        dropped = self._young.pop(topic, None)
        if dropped is not None:
            self._young_bytes -= _cost(topic, dropped)
        self._old.pop(topic, None)

    def check_invariants(self) -> None:
        """Compare every usable entry with the matcher, and the size with the limit."""
        self._matcher.check_invariants()
        young_bytes = sum(_cost(topic, route) for topic, route in self._young.items())
        assert young_bytes == self._young_bytes <= self._half_bytes
        for half in (self._young, self._old):
            for topic, route in half.items():
                if not self._touched(topic, route.change):
                    found = sorted(map(id, self._matcher.match(topic)))
                    assert sorted(map(id, route.targets)) == found, topic
