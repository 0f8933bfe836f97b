"""The matcher and its cache give what brute force gives, after any sequence of changes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from holdfast.topics.filters import TopicFilter, parse_filter
from holdfast.topics.matcher import Matcher
from holdfast.topics.route_cache import RouteCache

pytestmark = pytest.mark.compiled

# Few names, so that filters and topics meet; the odd ones are the ones that break matchers.
LEVELS = ["a", "b", "c", "", "$s", "é"]
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=5).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn) -> TopicFilter:
    levels = draw(st.lists(st.sampled_from([*LEVELS, "+", "+"]), max_size=4))
    if not levels or draw(st.integers(0, 2)) == 0:
        levels.append("#")
    text = "/".join(levels) or "/"
    if draw(st.integers(0, 5)) == 0:
        text = f"$share/g/{text}"
    return parse_filter(text.encode())


def brute_force(filter_text: str, topic: str) -> bool:
    """The rules of the standard, one character class at a time and with no cleverness."""
    if topic.startswith("$") and filter_text[0] in "+#":
        return False
    return _levels_match(filter_text.split("/"), topic.split("/"))


def _levels_match(wanted: list[str], found: list[str]) -> bool:
    if not wanted:
        return not found
    if wanted[0] == "#":
        return True
    if not found:
        return False
    return wanted[0] in ("+", found[0]) and _levels_match(wanted[1:], found[1:])


@given(filters(), topics)
def test_a_filter_matches_what_the_standard_says(topic_filter: TopicFilter, topic: str) -> None:
    assert topic_filter.matches(topic.encode()) == brute_force(topic_filter.inner().decode(), topic)


@given(st.lists(st.tuples(filters(), st.integers(0, 3)), max_size=30), st.lists(topics, max_size=10))
def test_the_matcher_agrees_with_brute_force(subscriptions: list[tuple[TopicFilter, int]], asked: list[str]) -> None:
    matcher: Matcher[tuple[str, int], str] = Matcher()
    expected: dict[tuple[bytes, int], TopicFilter] = {}
    for topic_filter, client in subscriptions:
        key = (topic_filter.inner(), client)
        added = matcher.subscribe(topic_filter, (topic_filter.inner().decode(), client), repr(key))
        assert added == (key not in expected)
        expected[key] = topic_filter
    matcher.check_invariants()
    for topic in asked:
        wanted = sorted(repr(key) for key in expected if brute_force(key[0].decode(), topic))
        assert sorted(matcher.match(topic.encode())) == wanted
    for (inner, client), topic_filter in expected.items():
        assert matcher.unsubscribe(topic_filter, (inner.decode(), client))
        assert not matcher.unsubscribe(topic_filter, (inner.decode(), client))
    matcher.check_invariants()
    assert len(matcher) == 0


class CacheUnderChange(RuleBasedStateMachine):
    """Subscriptions come and go while topics are routed; the cache is small, so that it also forgets."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.cache: RouteCache[int, str] = RouteCache(limit_bytes=3000)
        self.subscriptions: dict[tuple[bytes, int], str] = {}

    @rule(target=known, topic_filter=filters())
    def name_a_filter(self, topic_filter: TopicFilter) -> TopicFilter:
        return topic_filter

    @rule(topic_filter=known, client=st.integers(0, 2), options=st.integers(0, 2))
    def subscribe(self, topic_filter: TopicFilter, client: int, options: int) -> None:
        key = (topic_filter.inner(), client)
        value = f"{key!r} {options}"
        assert self.cache.subscribe(topic_filter, client, value) == (key not in self.subscriptions)
        self.subscriptions[key] = value

    @rule(topic_filter=known, client=st.integers(0, 2))
    def unsubscribe(self, topic_filter: TopicFilter, client: int) -> None:
        key = (topic_filter.inner(), client)
        assert self.cache.unsubscribe(topic_filter, client) == (key in self.subscriptions)
        self.subscriptions.pop(key, None)

    @rule(topic=topics)
    def route(self, topic: str) -> None:
        wanted = [value for key, value in self.subscriptions.items() if brute_force(key[0].decode(), topic)]
        assert sorted(self.cache.route(topic.encode()).targets) == sorted(wanted)

    @rule(topic=topics, plan_bytes=st.integers(0, 2000))
    def plan(self, topic: str, plan_bytes: int) -> None:
        """A plan is found again only with the targets that it was made from."""
        route = self.cache.route(topic.encode())
        if route.plan is None:
            self.cache.attach(topic.encode(), route, sorted(route.targets), plan_bytes)
        wanted = [value for key, value in self.subscriptions.items() if brute_force(key[0].decode(), topic)]
        assert route.plan == sorted(wanted)

    @rule(count=st.integers(30, 80))
    def churn(self, count: int) -> None:
        """More changes than the cache remembers."""
        passing = parse_filter(b"a/+/b")
        for _round in range(count):
            self.cache.subscribe(passing, 99, "passing")
            self.cache.unsubscribe(passing, 99)

    @invariant()
    def counts_and_bounds_hold(self) -> None:
        assert len(self.cache) == len(self.subscriptions)
        self.cache.check_invariants()


TestCacheUnderChange = CacheUnderChange.TestCase
TestCacheUnderChange.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
