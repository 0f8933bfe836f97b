"""Measures subscriptions: adding them, finding them with and without the cache, and their memory."""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from bench.codec import hot_loop, rows, workload
from bench.codec.stopwatch import Effort, pass_us, run_s
from holdfast.topics.matcher import Matcher
from holdfast.topics.route_cache import RouteCache

Measured = Iterator[tuple[str, float]]

#: Filters made at a time, so that a million of them never lie in memory beside what is measured.
_CHUNK = 10_000
#: Passes over fresh topics. Each needs other topics, so a pass cannot be repeated.
_MISS_PASSES = 5
#: A matcher of ten subscriptions is filled within microseconds: fill enough of them for the clock to see.
_LEAST_SUBSCRIBED = 20_000


def measure_match(effort: Effort, sizes: tuple[int, ...]) -> Measured:
    for size in sizes:
        yield from _without_cache(effort, size, weigh=size == sizes[-1])
        yield from _with_cache(effort, size)


def resident_bytes() -> int:
    """Memory of this process that is really there; 0 where the system does not tell."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return 0
    return int(status.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _chunks(size: int) -> Iterator[list[bytes]]:
    source = workload.filters(size)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def _without_cache(effort: Effort, size: int, *, weigh: bool) -> Measured:
    clients = workload.client_ids(size)
    topics = workload.known_topics(size)
    gc.collect()
    before = resident_bytes()
    filled_s = 0.0
    filled = 0
    while filled < min(_LEAST_SUBSCRIBED, 100 * size):
        matcher: Matcher[str, str] = Matcher()
        for chunk in _chunks(size):
            filled_s += run_s(partial(hot_loop.subscribe_all, matcher, chunk, clients))
        filled += size
    yield f"subscribe/{size}", filled_s / filled * 1e6
    if weigh:
        gc.collect()
        yield rows.memory_key(size), max(0, resident_bytes() - before) / size
    match = partial(hot_loop.match_topics, matcher, topics, workload.TOPIC_BYTES)
    count = len(topics) // workload.TOPIC_BYTES
    if match() != 3 * count:
        raise RuntimeError("a topic does not reach its three subscriptions")
    yield f"match/{size}", pass_us(match, count, effort)


def _with_cache(effort: Effort, size: int) -> Measured:
    clients = workload.client_ids(size)
    cache: RouteCache[str, str] = RouteCache()
    for chunk in _chunks(size):
        hot_loop.fill_cache(cache, chunk, clients)
    topics = workload.known_topics(size)
    count = len(topics) // workload.TOPIC_BYTES
    hit = partial(hot_loop.route_topics, cache, topics, workload.TOPIC_BYTES)
    for _use in range(2):  # a topic is kept from its second use on
        hit()
    yield f"hit/{size}", pass_us(hit, count, effort)
    samples_s = []
    for turn in range(_MISS_PASSES):
        fresh = workload.fresh_topics(size, turn, workload.PASS_TOPICS)
        cached = cache.cached_topics()
        samples_s.append(run_s(partial(hot_loop.route_topics, cache, fresh, workload.TOPIC_BYTES)))
        # Some share the mark of a topic that was seen, and are taken for one that comes again.
        if cache.cached_topics() > cached + workload.PASS_TOPICS // 2:
            raise RuntimeError("most topics that came once are in the cache")
    yield f"miss/{size}", statistics.median(samples_s) / workload.PASS_TOPICS * 1e6
