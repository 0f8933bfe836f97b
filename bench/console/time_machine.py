"""How fast the past is shown: strips, pages, states and plots, each p95 of several questions through the console."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice

from bench.console.api import Api
from bench.console.nodes import HISTORY, Node
from bench.console.past_data import PastDay
from bench.console.quantiles import quantile
from bench.console.topics import MEASURES, METER, device_topic, filters
from bench.stress.memory import Memory
from holdfast.history.past.counts_cache import FOLDER as COUNTS
from holdfast.model.time import DAY_S

_BUCKETS = 240
_PAGE = 100
_SEED = 18


class TimeMachine:
    """Questions about one day."""

    def __init__(self, node: Node, api: Api, day: PastDay, times: int) -> None:
        self._node = node
        self._api = api
        self._day = day
        self._times = times
        self._chance = random.Random(_SEED)

    def _strip(self, wanted: str, at_least: int = 0) -> tuple[float, float]:
        """Until the first strip, and until it is exact, in ms."""
        day = self._day
        began_s = time.perf_counter()
        first_s = 0.0
        last = b""
        for line in self._api.lines(
            "/api/v1/history/density", filter=wanted, from_=day.from_us, to=day.to_us, buckets=_BUCKETS
        ):
            first_s = first_s or time.perf_counter()
            last = line
        ended_s = time.perf_counter()
        answer = json.loads(last)
        if not answer["done"] or sum(answer["counts"]) < at_least:
            raise SystemExit(f"density of {wanted}: {sum(answer['counts'])} messages, done: {answer['done']}")
        return (first_s - began_s) * 1e3, (ended_s - began_s) * 1e3

    def strips(self) -> Iterator[tuple[str, float]]:
        self._strip("#", self._day.messages)  # the first question starts the history process
        everything = [self._strip("#", self._day.messages) for _time in range(self._times)]
        yield "past/all_first_ms", _p95([first for first, _exact in everything])
        yield "past/all_exact_ms", _p95([exact for _first, exact in everything])
        devices = [self._strip(f"plant/+/{self._device().split('/')[2]}/#") for _time in range(self._times)]
        yield "past/device_exact_ms", _p95([exact for _first, exact in devices])
        memory = Memory(self._node.child(HISTORY).pid)
        began_ns = time.monotonic_ns()
        firsts, agains = [], []
        for wanted in islice(filters(), max(2, self._times // 2)):
            shutil.rmtree(self._node.data / COUNTS, ignore_errors=True)
            firsts.append(self._strip(wanted, 1))
            agains.append(self._strip(wanted, 1))
        memory.stop()
        yield "past/filter_first_ms", _p95([first for first, _exact in firsts])
        yield "past/filter_exact_ms", _p95([exact for _first, exact in firsts])
        yield "past/filter_again_ms", _p95([exact for _first, exact in agains])
        yield "memory/history_mb", memory.peak(began_ns, time.monotonic_ns()) / 1e6

    def moments(self) -> Iterator[tuple[str, float]]:
        day = self._day
        yield "past/page_ms", self._each(self._page)
        yield "past/topic_state_ms", self._each(self._topic_state)
        yield "past/many_state_ms", self._each(self._many_state)
        answer = self._plot()
        if not answer["series"][0]["columns"]:
            raise SystemExit(f"a plot of {METER} from {day.from_us} to {day.to_us} is empty")
        yield "past/plot_ms", self._each(self._plot)

    def _each(self, ask: Callable[[], object]) -> float:
        waits = []
        for _time in range(self._times):
            began_s = time.perf_counter()
            ask()
            waits.append((time.perf_counter() - began_s) * 1e3)
        return _p95(waits)

    def _page(self) -> None:
        self._api.get("/api/v1/history/messages", filter="#", at=self._moment(), direction="older", limit=_PAGE)

    def _topic_state(self) -> None:
        self._api.get("/api/v1/history/state", filter=self._device(), at=self._moment(), look_back_s=DAY_S)

    def _many_state(self) -> None:
        talkers = self._day.talkers
        answer = self._api.value("/api/v1/history/state", filter="minute/+", at=self._day.to_us)
        if len(answer["topics"]) < talkers:
            raise SystemExit(f"a state had {len(answer['topics'])} topics of {talkers}: {answer['stopped']}")

    def _plot(self) -> dict[str, list[dict[str, object]]]:
        found: dict[str, list[dict[str, object]]] = self._api.value(
            "/api/v1/history/plot", topic=METER, path="$.t", from_=self._day.from_us, to=self._day.to_us
        )
        return found

    def _moment(self) -> int:
        return self._chance.randrange(self._day.from_us, self._day.to_us)

    def _device(self) -> str:
        return device_topic(self._chance.randrange(self._day.devices), self._chance.choice(MEASURES))


def _p95(values: list[float]) -> float:
    return quantile(values, 0.95)


def time_machine(node: Node, day: PastDay, times: int) -> Iterator[tuple[str, float]]:
    with node.api() as api:
        machine = TimeMachine(node, api, day, times)
        yield from machine.strips()
        yield from machine.moments()
