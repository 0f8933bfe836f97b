"""The scenarios, each on a separate broker: what is prepared, and what happens while everything is watched."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from bench.brokers.crowd import AT_ONCE, Crowd, allow_open_files
from bench.brokers.processes import Running
from bench.stress.bystander import Bystander
from bench.stress.clients import RETAINED, VERSION, Fetcher, Flooder, Publishers, Sluggard
from bench.stress.memory import Memory

#: What a bystander still notices of trouble that is over; also, some of its messages are always within.
_REACH_NS = 50_000_000
#: A limit for what takes long on a slow machine.
_LONG_S = 1800.0
#: Filters of one SUBSCRIBE that match nothing.
_SCANS = 10


@dataclass(frozen=True)
class Amounts:
    clients: int
    #: Messages that each client finds when all return at once, and that each is owed in the last two rows.
    backlog: int
    owed: int
    #: Messages on topics of their own, of all clients together.
    distinct: int
    #: Messages of 1 KB for who is slow or deaf, and how many of them in a second.
    trouble: int
    rate: int
    #: Seconds before and after.
    settle_s: float
    #: Topics with a retained message, for filters that match none of them.
    retained: int


FULL = Amounts(1000, 1000, 10_000, 1_000_000, 40_000, 2000, 5.0, 100_000)
QUICK = Amounts(20, 20, 50, 400, 200, 400, 0.1, 500)


@dataclass(frozen=True)
class Scenario:
    key: str
    label: str
    run: Callable[[Stage], int]


class Stage:
    """A broker that is watched. A scenario prepares, then calls `begin`, then makes trouble, then calls `over`."""

    def __init__(self, broker: Running, amounts: Amounts) -> None:
        allow_open_files(3 * amounts.clients + 100)
        self.amounts = amounts
        self.crowd = Crowd([broker.port], VERSION)
        self.memory = Memory(broker.pid)
        self._bystander = Bystander(broker.port)
        self._times_ns: list[int] = []
        self._before_bytes = 0

    def begin(self) -> None:
        """Everything is ready: look at how it is, before the trouble."""
        time.sleep(self.amounts.settle_s)
        self._times_ns.append(time.monotonic_ns())
        time.sleep(self.amounts.settle_s)
        self._before_bytes = self.memory.now()
        self._times_ns.append(time.monotonic_ns())

    def over(self) -> None:
        """The trouble is over."""
        self._times_ns.append(time.monotonic_ns())

    def figures(self, messages: int) -> dict[str, float]:
        time.sleep(self.amounts.settle_s)
        after_bytes = self.memory.now()
        self.memory.stop()
        samples = self._bystander.leave()
        calm_ns, began_ns, ended_ns = self._times_ns
        before = sorted([late for due, late in samples if calm_ns <= due < began_ns])
        during = sorted([late for due, late in samples if began_ns <= due < ended_ns + _REACH_NS])
        return {
            "messages": float(messages),
            "seconds": (ended_ns - began_ns) / 1e9,
            "before_bytes": float(self._before_bytes),
            "peak_bytes": float(self.memory.peak(began_ns, ended_ns)),
            "after_bytes": float(after_bytes),
            "before_p50_ms": before[len(before) // 2] / 1e6,
            "before_p99_ms": before[len(before) * 99 // 100] / 1e6,
            "during_p50_ms": during[len(during) // 2] / 1e6,
            "during_p99_ms": during[len(during) * 99 // 100] / 1e6,
        }

    def close(self) -> None:
        self.memory.stop()
        self._bystander.kill()

    # ---- what several scenarios need

    def leave_sessions(self, filters: Callable[[int], str]) -> None:
        """Clients come, subscribe, and go."""
        for begin in range(0, self.amounts.clients, AT_ONCE):
            places = range(begin, min(self.amounts.clients, begin + AT_ONCE))
            clients = self.crowd.plain([f"away-{place}" for place in places], clean=False)
            self.crowd.subscribe(clients, [[filters(place)] for place in places], 1)
            self.crowd.close(clients)

    def fetch(self, expected: int) -> None:
        """All of them return at once, and take what is theirs."""
        names = [f"away-{place}" for place in range(self.amounts.clients)]
        fetchers = self.crowd.open(lambda _place: Fetcher(self.crowd), names, clean=False)

        def there() -> bool:
            return all(fetcher.got >= expected for fetcher in fetchers)

        self.crowd.until(there, what="the backlogs", limit_s=_LONG_S)
        self.crowd.close(fetchers)


def sluggish(stage: Stage, *sluggards: Sluggard) -> int:
    amounts = stage.amounts
    publishers = Publishers(stage.crowd, ["b/trouble"], 1024)
    stage.begin()
    publishers.publish(amounts.trouble, rate=amounts.rate, sluggards=sluggards)
    stage.over()
    for sluggard in sluggards:
        sluggard.close()
    publishers.close()
    return amounts.trouble


def no_client(stage: Stage) -> int:
    """The same load without a slow client: what the load alone does."""
    return sluggish(stage)


def slow(stage: Stage) -> int:
    port = stage.crowd.port
    return sluggish(
        stage,
        Sluggard(port, "slow-0", "b/trouble", 0, bytes_per_s=50_000),
        Sluggard(port, "slow-1", "b/trouble", 1, bytes_per_s=50_000),
    )


def deaf(stage: Stage) -> int:
    port = stage.crowd.port
    return sluggish(stage, Sluggard(port, "deaf-0", "b/trouble", 0), Sluggard(port, "deaf-1", "b/trouble", 1))


def all_return(stage: Stage) -> int:
    stage.leave_sessions(lambda _place: "b/all")
    publishers = Publishers(stage.crowd, ["b/all"], 64)
    publishers.publish(stage.amounts.backlog)
    publishers.close()
    stage.begin()
    stage.fetch(stage.amounts.backlog)
    stage.over()
    return stage.amounts.backlog * stage.amounts.clients


def owed_by_all(stage: Stage) -> int:
    stage.leave_sessions(lambda _place: "b/all")
    publishers = Publishers(stage.crowd, ["b/all"], 64)
    stage.begin()
    publishers.publish(stage.amounts.owed)
    stage.over()
    publishers.close()
    return stage.amounts.owed * stage.amounts.clients


def owed_by_each(stage: Stage) -> int:
    stage.leave_sessions(lambda place: f"b/own/{place}")
    each = stage.amounts.distinct // stage.amounts.clients
    stage.begin()
    for begin in range(0, stage.amounts.clients, AT_ONCE):
        places = range(begin, min(stage.amounts.clients, begin + AT_ONCE))
        publishers = Publishers(stage.crowd, [f"b/own/{place}" for place in places], 64)
        publishers.publish(each)
        publishers.close()
    stage.over()
    return each * stage.amounts.clients


def scan(stage: Stage) -> int:
    """The last filter's message comes when the others have been looked for among all."""
    writer = Flooder(stage.crowd.port, "retains")
    writer.publish((f"b/a{number % 300}/b{number}/c" for number in range(stage.amounts.retained)), retain=True)
    writer.publish(["b/z/z/z"], retain=True)
    stage.begin()
    writer.subscribe([*(f"b/+/+/nosuch{number}" for number in range(_SCANS)), "b/z/z/z"])
    writer.until(RETAINED)
    stage.over()
    writer.close()
    return _SCANS * stage.amounts.retained


def new_topics(stage: Stage) -> int:
    writer = Flooder(stage.crowd.port, "floods")
    stage.begin()
    writer.publish((f"b/flood/{number}/v" for number in range(stage.amounts.distinct)), retain=False)
    stage.over()
    writer.close()
    return stage.amounts.distinct


SCENARIOS = (
    Scenario("nobody", "no slow client, the same load", no_client),
    Scenario("slow", "two that read 50 KB/s, of 2 MB/s", slow),
    Scenario("deaf", "two that never read", deaf),
    Scenario("return", "all return at once to their backlogs", all_return),
    Scenario("owed-all", "queued for all, each message once in the log", owed_by_all),
    Scenario("owed-each", "queued for each, on a separate topic", owed_by_each),
    Scenario("scan", "ten filters that match no retained topic", scan),
    Scenario("new-topics", "one that publishes to ever new topics", new_topics),
)
