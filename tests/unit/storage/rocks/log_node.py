"""A log with all its parts, for tests: time is set by hand, and receipts come when they are asked for."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from holdfast.durable.commit import Batch, Receipt
from holdfast.durable.zones import Zone
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.log.maintenance import Maintenance
from holdfast.storage.rocks.log.startup import open_log
from holdfast.storage.rocks.log.zone_log import ZoneLog


class Node:
    """A log with its loop: what the commit thread posts is done in `settle`."""

    def __init__(self, folder: Path, clock: ManualClock, *, layout: str = "learned", shards: int = 2) -> None:
        self.folder = folder
        self.clock = clock
        self.layout = layout
        self.shards = shards
        self.receipts: list[int] = []
        self.open()

    def open(self) -> None:
        self.engine = Engine.open(self.folder, reserve_bytes=0)
        default = Zone("default", shards=self.shards, layout=self.layout)
        self.log = open_log(self.engine, [], default, [], self.clock, "0")
        self.posted: list[Callable[[], None]] = []
        self.log.attach(self.posted.append, self.taken)
        self.zone: ZoneLog = self.log.zone_logs["default"]
        self.maintenance = Maintenance(self.log)
        self.number = self.receipts[-1] if self.receipts else 0

    def settle(self) -> None:
        self.engine.sync_now()
        while self.posted:
            self.posted.pop(0)()

    def batch(self, messages: list[Message]) -> Batch:
        self.number += 1
        batch = Batch(self.number)
        batch.messages.extend(messages)
        return batch

    def taken(self, receipt: Receipt | None) -> None:
        if receipt is not None:
            self.receipts.append(receipt.number)

    def reopen(self) -> None:
        self.settle()
        self.log.close()
        self.open()

    def index(self) -> None:
        """Write behind whatever waits."""
        for _turn in range(5):
            while self.maintenance.write_index_slice():
                self.settle()
            self.settle()

    def fill(self, commits: int = 30, count: int = 20) -> None:
        """Messages on many topics, with receipts."""
        random = Random(self.number)
        for _index in range(commits):
            self.clock.advance(1_000)
            messages = [some_message(random, self.clock) for _index in range(count)]
            self.taken(self.log.write(self.batch(messages)))
        self.settle()


def some_message(random: Random, clock: ManualClock) -> Message:
    topic = random.choice(
        [
            f"plant/{random.randrange(40)}/temp",
            f"plant/{random.randrange(40)}/{random.choice(['flow', 'level'])}",
            f"$events/{random.randrange(30)}/up",
            "status",
        ]
    )
    payload = random.randbytes(random.randrange(60))
    return Message(topic.encode(), payload, 1, ClientId(f"c{random.randrange(9)}"), clock.wall_us())
