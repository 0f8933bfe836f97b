"""A log in a folder, with a clock that moves when told to and receipts that come when told to; and brute force."""

import queue
from collections.abc import Callable, Iterable
from pathlib import Path

from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.log import NO_END, LostRange
from holdfast.durable.replay import LogReplay
from holdfast.durable.zones import Zone
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.generations import Generation
from holdfast.storage.rocks.engine.column_families import ColumnFamilies
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.commit_log import RocksLog
from holdfast.storage.rocks.log.log_reader import RocksLogReader
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.shard_scan import matches
from holdfast.storage.rocks.log.startup import open_log
from holdfast.storage.rocks.log.zone_log import ZoneLog
from holdfast.topics.filters import parse_filter
from tests.replays import replay_of

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
#: Longer than the commit thread ever needs.
_PATIENCE_S = 60


def zone(name: str, *filters: str, **settings: object) -> Zone:
    return Zone(name, tuple(parse_filter(text.encode()).levels for text in filters), **settings)  # type: ignore[arg-type]


def levels(text: str) -> tuple[bytes, ...]:
    return parse_filter(text.encode()).levels


class Store:
    """Requires: `close` at the end."""

    def __init__(self, folder: Path, *zones: Zone, default: Zone | None = None, mounts: Iterable[str] = ()) -> None:
        self.folder = folder
        self.clock = ManualClock()
        #: Everything that was written, in the order of writing, and all receipts that were handed over.
        self.written: list[Message] = []
        self.receipts: list[int] = []
        self._settings = (list(zones), default or Zone("default"), [mount.encode() for mount in mounts])
        self._number = 0
        self._open()

    def _open(self) -> None:
        zones, default, mounts = self._settings
        self.engine = Engine.open(self.folder, reserve_bytes=0)
        try:
            self.log: RocksLog = open_log(self.engine, zones, default, mounts, self.clock, "test")
        except Exception:
            self.engine.close()
            raise
        self.maintenance = Maintenance(self.log)
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._number = 0
        self.receipts = []
        self.log.attach(self._posted.put, self._receive)

    def _receive(self, receipt: Receipt) -> None:
        self.receipts.append(receipt.number)

    def reopen(self, *zones: Zone, default: Zone | None = None, mounts: Iterable[str] = ()) -> None:
        """With new settings; with none at all, those of before."""
        self.close()
        if zones or default or mounts:
            self._settings = (list(zones), default or Zone("default"), [mount.encode() for mount in mounts])
        self._open()

    def close(self) -> None:
        self.log.close()

    # ---- writing

    def write(self, *messages: Message, time_us: int = 0) -> Receipt | None:
        """One batch; whether its receipt was there at once is the answer."""
        self._number += 1
        batch = Batch(self._number)
        batch.time_us = time_us
        batch.messages.extend(messages)
        receipt = self.log.write(batch)
        if receipt is not None:
            self.receipts.append(receipt.number)
        self.written.extend(message for message in messages if message.position_us)
        return receipt

    def message(self, topic: str, publisher: str = "p", payload: bytes = b"") -> Message:
        return Message(topic.encode(), payload, 1, ClientId(publisher), self.clock.wall_us())

    def publish(self, *topics: str, publisher: str = "p") -> list[Message]:
        """A batch with a message to each topic, durable."""
        messages = [self.message(topic, publisher) for topic in topics]
        self.write(*messages)
        self.settle()
        return messages

    def settle(self) -> None:
        """Every batch that was written has its receipt."""
        while (self.receipts[-1] if self.receipts else 0) < self._number:
            self.engine.request_sync()
            self._posted.get(timeout=_PATIENCE_S)()

    # ---- generations

    def zone_log(self, name: str = "default") -> ZoneLog:
        return self.log.zone_logs[name]

    def layouts(self) -> list[str]:
        """The layouts of the default zone's generations."""
        return [generation.record.layout for generation in self.zone_log().live]

    def end_behind(self, messages: list[Message]) -> int:
        """Where a generation that was dropped is known to end, with these messages the last of it."""
        return messages[-1].position_us + 1

    def rotate(self, name: str = "default") -> None:
        self.maintenance.rotate(self.zone_log(name))

    def drop_oldest(self, name: str = "default") -> list[Generation]:
        """What is gone then."""
        record = self.zone_log(name).live[0].record
        self.maintenance.drop_oldest(self.zone_log(name))
        return [record]

    def zone_names(self, *, sealed: bool = False) -> list[str]:
        """The zones that store; with `sealed` those that have a generation which can be dropped."""
        zone_logs = self.log.zone_logs.values()
        if sealed:
            return [one.zone.name for one in zone_logs if one.live and one.live[0].record.end_us]
        return [one.zone.name for one in zone_logs if one.zone.store]

    def index(self) -> None:
        """Write behind until nothing is left, sealed generations included."""
        for _round in range(10_000):
            more = self.maintenance.write_index_slice()
            if not more and not any(zone_log.pending_indexes for zone_log in self.log.zone_logs.values()):
                return
        raise AssertionError("writing behind does not come to an end")

    # ---- reading

    @property
    def reader(self) -> RocksLogReader:
        return self.log.reader

    def reader_over(self, families: ColumnFamilies) -> RocksLogReader:
        """A reader that sees the families as a test does."""
        return RocksLogReader(families, self.log.zones, list(self.log.zone_logs.values()))

    def replay(self, text: str = "#", since_us: int = 0, until_us: int = NO_END, **how: bool) -> LogReplay:
        return replay_of(self.reader, levels(text), since_us, until_us, **how)

    def read(self, text: str = "#", since_us: int = 0, until_us: int = NO_END, **how: bool) -> list[Message]:
        return drain(self.replay(text, since_us, until_us, **how))[0]

    def expected(self, text: str = "#", since_us: int = 0, until_us: int = NO_END) -> list[Message]:
        """Brute force: what was written and matches, in the order of writing."""
        wanted = levels(text)
        return [
            message
            for message in self.written
            if matches(wanted, message.topic) and since_us <= message.position_us < until_us
        ]


#: Opens a store with zones, and as options with those of `Store`.
OpenStore = Callable[..., Store]


def drain(replay: LogReplay, limit: int = 500) -> tuple[list[Message], list[LostRange]]:
    """Everything up to the end, and what was lost on the way."""
    messages: list[Message] = []
    lost: list[LostRange] = []
    for _page in range(100_000):
        page = replay.next(limit)
        assert len(page.messages) <= limit
        messages.extend(page.messages)
        lost.extend(page.lost)
        if page.at_end:
            return messages, lost
    raise AssertionError("a replay does not come to its end")


def places(messages: Iterable[Message]) -> list[tuple[int, int]]:
    return [(message.shard, message.position_us) for message in messages]


def by_shard(messages: Iterable[Message]) -> dict[int, list[Message]]:
    found: dict[int, list[Message]] = {}
    for message in messages:
        found.setdefault(message.shard, []).append(message)
    return found


def by_publisher_and_topic(messages: Iterable[Message]) -> dict[tuple[str, bytes], list[Message]]:
    """L1 is about each of these lists."""
    found: dict[tuple[str, bytes], list[Message]] = {}
    for message in messages:
        found.setdefault((message.publisher, message.topic), []).append(message)
    return found
