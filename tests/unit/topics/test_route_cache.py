"""The route cache: bounded, right under changes, and checked once."""

import pytest

from holdfast.model.errors import PeerError
from holdfast.topics.filters import parse_filter
from holdfast.topics.matcher import Matcher
from holdfast.topics.route_cache import MAX_CACHED_TOPIC_BYTES, Route, RouteCache

pytestmark = pytest.mark.compiled


def cache_with(*filters: str, limit_bytes: int = 1 << 20) -> RouteCache[str, str]:
    cache: RouteCache[str, str] = RouteCache(limit_bytes)
    for text in filters:
        cache.subscribe(parse_filter(text.encode()), "client", text)
    return cache


def known(cache: RouteCache[str, str], topic: bytes) -> Route[str]:
    """A topic that was asked for before."""
    cache.route(topic)
    return cache.route(topic)


def test_a_third_lookup_is_answered_from_the_cache() -> None:
    cache = cache_with("a/+")
    assert known(cache, b"a/b") is cache.route(b"a/b")
    assert cache.misses == 2


def test_topics_that_come_once_leave_nothing_in_the_cache() -> None:
    """A client that publishes to ever new topics neither fills the memory nor pushes out what is in use."""
    cache = cache_with("#")
    hot = known(cache, b"hot")
    for number in range(20_000):
        assert cache.route(b"once/%d" % number).targets == ["#"]
    assert cache.cached_topics() < 1_000
    assert cache.route(b"hot") is hot
    assert cache.misses == 20_002
    cache.check_invariants()


def test_topics_are_known_again_after_those_that_came_once_were_forgotten() -> None:
    cache = cache_with("#")
    for number in range(300_000):
        cache.route(b"%d" % number)
    for number in range(100):
        known(cache, b"later/%d" % number)
    assert cache.cached_topics() >= 100


def test_a_wildcard_that_does_not_concern_a_topic_leaves_its_entry_alone() -> None:
    cache = cache_with("a/+")
    before = known(cache, b"a/b")
    cache.subscribe(parse_filter(b"x/#"), "client", "x/#")
    assert cache.route(b"a/b") is before


def test_a_wildcard_that_concerns_a_topic_is_seen_at_once() -> None:
    cache = cache_with("a/+")
    cache.route(b"a/b")
    cache.subscribe(parse_filter(b"#"), "client", "#")
    assert sorted(cache.route(b"a/b").targets) == ["#", "a/+"]
    cache.unsubscribe(parse_filter(b"#"), "client")
    assert cache.route(b"a/b").targets == ["a/+"]


def test_every_route_is_worked_out_again_after_a_change_of_all() -> None:
    cache = cache_with("a/+", "b")
    before = [known(cache, b"a/b"), known(cache, b"b")]
    cache.touch_all()
    cache.subscribe(parse_filter(b"x/#"), "client", "x/#")
    after = [cache.route(b"a/b"), cache.route(b"b")]
    assert all(new is not old and new.targets == old.targets for new, old in zip(after, before, strict=True))
    assert [cache.route(b"a/b"), cache.route(b"b")] == after, "once"
    cache.check_invariants()


def test_a_literal_filter_is_seen_at_once() -> None:
    cache = cache_with("a/+")
    cache.route(b"a/b")
    cache.subscribe(parse_filter(b"a/b"), "client", "a/b")
    assert sorted(cache.route(b"a/b").targets) == ["a/+", "a/b"]
    cache.unsubscribe(parse_filter(b"a/b"), "client")
    assert cache.route(b"a/b").targets == ["a/+"]


def test_invalid_topics_are_refused_and_never_cached() -> None:
    cache = cache_with("#")
    for _try in range(2):
        with pytest.raises(PeerError):
            cache.route(b"a/+")
    assert cache.cached_topics() == 0


def test_the_number_of_cached_topics_is_bounded() -> None:
    cache = cache_with("#", limit_bytes=100_000)
    for number in range(5_000):
        known(cache, b"topic/%d" % number)
    cache.check_invariants()
    assert 100 < cache.cached_topics() < 500


def test_topics_in_use_stay_while_others_pass_through() -> None:
    cache = cache_with("#", limit_bytes=100_000)
    hot = known(cache, b"hot")
    for number in range(5_000):
        known(cache, b"topic/%d" % number)
        assert cache.route(b"hot") is hot


def test_long_topics_are_routed_but_not_cached() -> None:
    """L6: a topic of 65,535 bytes works, without filling the cache."""
    cache = cache_with("#")
    longest = b"a" * 65_535
    assert known(cache, longest).targets == ["#"]
    assert len(longest) > MAX_CACHED_TOPIC_BYTES
    assert cache.cached_topics() == 0


def test_many_targets_count_toward_the_bound() -> None:
    cache: RouteCache[int, int] = RouteCache(limit_bytes=100_000)
    everything = parse_filter(b"#")
    for client in range(10_000):
        cache.subscribe(everything, client, client)
    assert [len(cache.route(b"a").targets) for _time in range(2)] == [10_000] * 2
    assert cache.cached_topics() == 0


def test_the_deepest_filter_and_topic_need_no_deep_stack() -> None:
    matcher: Matcher[str, str] = Matcher()
    deepest = parse_filter(b"+/" * 32_767 + b"+")
    matcher.subscribe(deepest, "client", "deep")
    assert matcher.match(b"/" * 32_767) == ["deep"]
    assert matcher.match(b"/" * 32_766) == []
    matcher.unsubscribe(deepest, "client")
    matcher.check_invariants()
    assert len(matcher) == 0


def test_plans_count_toward_the_bound() -> None:
    """A plan may be many times as large as the references it was made from."""
    cache = cache_with("#", limit_bytes=100_000)
    for number in range(1_000):
        topic = b"topic/%d" % number
        cache.attach(topic, known(cache, topic), object(), 5_000)
        cache.check_invariants()
    assert 5 <= cache.cached_topics() < 20


def test_a_plan_is_found_with_its_route() -> None:
    cache = cache_with("#")
    plan = object()
    cache.attach(b"a", known(cache, b"a"), plan, 1_000)
    assert cache.route(b"a").plan is plan
    cache.subscribe(parse_filter(b"a"), "client", "a")
    assert cache.route(b"a").plan is None
    cache.check_invariants()


def test_a_route_in_use_keeps_its_plan_while_others_pass_through() -> None:
    cache = cache_with("#", limit_bytes=100_000)
    plan = object()
    cache.attach(b"hot", known(cache, b"hot"), plan, 10_000)
    for number in range(1_000):
        topic = b"topic/%d" % number
        cache.attach(topic, known(cache, topic), object(), 1_000)
        assert cache.route(b"hot").plan is plan
        cache.check_invariants()


def test_a_plan_too_large_for_the_cache_serves_once_and_takes_nothing_with_it() -> None:
    cache = cache_with("#", limit_bytes=100_000)
    other = known(cache, b"other")
    wide = known(cache, b"wide")
    cache.attach(b"wide", wide, object(), 50_000)
    assert wide.plan is not None
    assert cache.cached_topics() == 1
    assert cache.route(b"other") is other
    assert cache.route(b"wide") is not wide
    cache.check_invariants()


def test_a_plan_for_a_route_that_was_replaced_meanwhile_is_not_counted() -> None:
    cache = cache_with("#")
    before = cache.route(b"a")
    cache.subscribe(parse_filter(b"a"), "client", "a")
    now = cache.route(b"a")
    cache.attach(b"a", before, object(), 1_000)
    assert cache.route(b"a") is now
    assert now.plan is None
    cache.check_invariants()


def test_the_version_moves_with_everything_that_may_change_a_route() -> None:
    cache = cache_with("a/+")
    seen = {cache.version}
    literal, wildcard = parse_filter(b"a/b"), parse_filter(b"a/#")
    for change in (
        lambda: cache.subscribe(literal, "client", "a/b"),
        lambda: cache.subscribe(wildcard, "client", "a/#"),
        lambda: cache.unsubscribe(literal, "client"),
        lambda: cache.unsubscribe(wildcard, "client"),
        lambda: cache.touch(literal),
        cache.touch_all,
        cache.clear,
    ):
        change()
        assert cache.version not in seen
        seen.add(cache.version)
    cache.route(b"a/b")
    cache.unsubscribe(literal, "client")
    assert cache.version in seen
