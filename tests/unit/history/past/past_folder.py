"""A data folder with a past: several zones, shards, generations and segments, something erased; and brute force."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

from holdfast.durable.log import NO_END
from holdfast.history.past.time_scan import Place
from holdfast.model.message import Message
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.erasure_file import erase
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.unit.storage.rocks.layouts.test_paged import messages
from tests.unit.storage.rocks.log.store import SECOND_US, Store, zone

FILTERS = (
    "#",
    "plant/7/#",
    "plant/+/temp",
    "plant/7/temp",
    "+/+/flow",
    "$own/#",
    "$own/3",
    "nothing/#",
    "plant/3/flow",
)
ERASED_CLIENT = "publisher-3"
LAYOUTS = ("paged", "learned", "bitmask", "timeline")


class PastFolder:
    """Requires: `close` at the end."""

    def __init__(self, folder: Path, layout: str, *, seed: int = 1, erased: bool = True) -> None:
        default = zone("default", layout=layout, shards=2, store_qos0=True)
        machines = zone("machines", "plant/7/#", "plant/8/#", layout=layout, shards=2, store_qos0=True)
        self.folder = folder
        self.store = Store(folder, machines, default=default)
        self._random = Random(seed)
        self._erased_up_to: dict[int, int] = {}
        for turn in range(3):
            self.fill(12)
            if turn < 2:
                self.store.rotate("default")
            if turn == 1:
                self.store.rotate("machines")
            if layout == "paged":
                SegmentWriter(self.store.log, SegmentSize(messages=100)).write_all()
            elif turn != 1:
                self.store.index()
            if turn == 1 and erased:
                self.erase()
        self.fill(3)

    def fill(self, commits: int) -> None:
        for _commit in range(commits):
            self.store.clock.advance(self._random.choice([1, 1_000, SECOND_US, 90 * SECOND_US]))
            size = self._random.choice([1, 3, 30, 40])
            self.store.write(*messages(size, self._random, self.store.clock.wall_us()))
        self.store.settle()

    def erase(self) -> None:
        """Hide what a client has published until now."""
        for message in self.store.written:
            self._erased_up_to[message.shard] = max(message.position_us, self._erased_up_to.get(message.shard, 0))
        erase(
            self.folder,
            client=ERASED_CLIENT,
            up_to=self._erased_up_to,
            now_us=self.store.clock.wall_us(),
            made_by="test",
        )

    def is_erased(self, message: Message) -> bool:
        up_to_us = self._erased_up_to.get(message.shard, -1)
        return message.publisher == ERASED_CLIENT and message.position_us <= up_to_us

    def expected(self, text: str = "#", from_us: int = 0, before_us: int = NO_END) -> list[Message]:
        """Brute force: what was published, matches and was not erased, in the order of places."""
        found = [one for one in self.store.expected(text, from_us, before_us) if not self.is_erased(one)]
        return sorted(found, key=place_of)

    def close(self) -> None:
        self.store.close()


def place_of(message: Message) -> Place:
    return message.position_us, message.shard


def places_of(found: Iterable[Message]) -> list[Place]:
    return [place_of(message) for message in found]
