"""A log that is written and asked beside its writer, and brute force over everything that was published."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from holdfast.durable.zones import Zone
from holdfast.history.past.counts_cache import CountsCache
from holdfast.history.past.density import DensityQuery, density
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.message import Message
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.head_marks import open_marks
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.storage.rocks.log.shard_scan import matches
from holdfast.topics.filters import parse_filter
from tests.unit.storage.rocks.log.store import Store

#: Every shape of a filter, with topics of `some_topic` behind most of them.
FILTERS = (
    "#",
    "+/#",
    "+/3/#",
    "plant/3/temp",
    "plant/+/temp",
    "plant/+/+",
    "plant/7/#",
    "+/+/flow",
    "status",
    "status/#",
    "$events/+/up",
    "$events/#",
    "$SYS/#",
    "nothing/at/all",
)

Line = dict[str, Any]


def some_topic(random: Random) -> str:
    return random.choice(
        [
            f"plant/{random.randrange(40)}/temp",
            f"plant/{random.randrange(40)}/{random.choice(['flow', 'level'])}",
            f"site/{random.randrange(5)}/flow",
            f"$events/{random.randrange(30)}/up",
            "status",
        ]
    )


class StillClock:
    """Seconds that pass by so much with every look at the clock."""

    def __init__(self, step_s: float = 0.0) -> None:
        self._step_s = step_s
        self._now_s = 0.0

    def __call__(self) -> float:
        self._now_s += self._step_s
        return self._now_s


#: Everything is counted before the first line; or nothing is, and all that may be is looked at; or neither.
EXACT, SAMPLED, HASTY = 0.0, 0.15, 10.0


class DensityWorld:
    """`kept` are the messages that retention has left."""

    def __init__(self, folder: Path, *zones: Zone, default: Zone | None = None) -> None:
        self.store = Store(folder, *zones, default=default)
        self.folder = folder
        self.kept: list[Message] = []
        self.marks = open_marks(self.store.log, self.store.clock.monotonic_us)
        self.pool = ReaderPool(folder, 2)

    def fill(self, seed: int, commits: int = 40, count: int = 12, step_us: int = 7_000_000) -> None:
        random = Random(seed)
        for _commit in range(commits):
            self.store.clock.advance(random.randrange(1, 2 * step_us))
            self.marks.look()
            size = random.randrange(1, 2 * count)
            messages = [self.store.message(some_topic(random), f"c{random.randrange(6)}") for _one in range(size)]
            self.write(*messages)
        self.store.clock.advance(1_000_000)
        self.marks.look()

    def write(self, *messages: Message) -> None:
        self.store.write(*messages)
        self.store.settle()
        self.kept.extend(message for message in messages if message.position_us)

    def make_segments(self, messages: int = 100) -> int:
        made = SegmentWriter(self.store.log, SegmentSize(messages=messages)).write_all()
        self.store.engine.sync_now()
        return made

    def rotate(self, *names: str) -> None:
        self.store.clock.advance(5_000_000)
        for name in names or self.store.zone_names():
            self.store.rotate(name)
        self.store.engine.sync_now()

    def drop_oldest(self, name: str = "default") -> int:
        """How many messages went."""
        (record,) = self.store.drop_oldest(name)
        self.store.engine.sync_now()
        gone = [one for one in self.kept if one.shard in record.shards and one.position_us < record.end_us]
        self.kept = [message for message in self.kept if message not in gone]
        return len(gone)

    def restart(self, pause_us: int = 3_600_000_000) -> None:
        self.marks.write()
        self.store.close()
        self.store.clock.advance(pause_us)
        self.store._open()
        self.marks = open_marks(self.store.log, self.store.clock.monotonic_us)
        self.marks.write()

    def close(self) -> None:
        self.pool.close()
        self.store.close()

    # ---- asking

    def query(
        self, text: str = "#", *, from_us: int = 0, to_us: int = 0, buckets: int = 50, **more: Any
    ) -> DensityQuery:
        now_us = self.store.clock.wall_us()
        return DensityQuery(parse_filter(text.encode()).levels, from_us, to_us or now_us, buckets, now_us, **more)

    def ask(
        self,
        query: DensityQuery,
        pace_s: float = EXACT,
        gone: Callable[[], bool] = lambda: False,
        cache: CountsCache | None = None,
    ) -> list[Line]:
        return list(density(self.pool, query, gone, clock_s=StillClock(pace_s), cache=cache))

    def counts(self, text: str, line: Line, shards: tuple[int, ...] = ()) -> list[int]:
        """Brute force, for the buckets of a line."""
        wanted = parse_filter(text.encode()).levels
        found = [0] * len(line["counts"])
        for message in self.kept:
            inside = line["from_us"] <= message.position_us < line["to_us"]
            if inside and (not shards or message.shard in shards) and matches(wanted, message.topic):
                found[(message.position_us - line["from_us"]) // line["step_us"]] += 1
        return found
