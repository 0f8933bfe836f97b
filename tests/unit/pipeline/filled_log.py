"""A log with messages in several generations and shards, and what a plain walk through it finds."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.tokens import Tokens
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import StoredMessage, decode_message
from tests.unit.storage.rocks.log_node import Node, some_message

#: Shard and serial.
Key = tuple[int, int]

START_US = 1_700_000_000_000_000


class Log:
    """Messages are durable as soon as they are written, unless the test says otherwise."""

    def __init__(self, folder: Path, layout: str = "learned", shards: int = 2, *, tokens: Tokens | None = None) -> None:
        """With tokens it is served by Flight, too."""
        self.node = Node(folder / "data", ManualClock(wall_us=START_US), layout=layout, shards=shards)
        self.layout = layout
        self.sent: list[Message] = []
        self._random = Random(1)
        self.pool: ReaderPool | None = None
        self.server: FlightServer | None = None
        if tokens is not None:
            self.pool = ReaderPool(self.node.folder, 4)
            self.server = FlightServer(self.node.folder, self.pool, tokens, "127.0.0.1", 0)

    @property
    def path(self) -> str:
        return str(self.node.folder)

    @property
    def where(self) -> dict[str, str]:
        """The option that leads here."""
        return {"path": self.path} if self.server is None else {"endpoint": f"grpc://127.0.0.1:{self.server.port}"}

    @property
    def now_us(self) -> int:
        return self.node.clock.wall_us()

    def fill(self, count: int, *, settle: bool = True) -> None:
        """Messages on many topics, ten a millisecond."""
        for _commit in range(0, count, 10):
            self.node.clock.advance(1_000)
            messages = [some_message(self._random, self.node.clock) for _index in range(min(10, count))]
            self._write(messages)
        if settle:
            self.node.settle()

    def publish(self, *topics: str, client_id: str = "c1") -> None:
        self.node.clock.advance(1_000)
        self._write([Message(topic.encode(), b"x", 1, ClientId(client_id), self.now_us) for topic in topics])
        self.node.settle()

    def rotate(self) -> None:
        self.node.clock.advance(60_000_000)
        self.node.maintenance.rotate(self.node.zone)
        self.node.settle()

    def drop_oldest(self) -> None:
        self.node.maintenance.drop_oldest(self.node.zone)
        self.node.settle()

    def walk(self) -> dict[Key, StoredMessage]:
        """Everything durable, one message after the other."""
        found = {}
        with HistoryReader.open(self.node.folder) as reader:
            for part in reader.parts():
                for value in reader.start_replay([part]).records():
                    stored = decode_message(value)
                    found[part.shard, stored.serial] = stored
        return found

    def close(self) -> None:
        if self.server is not None and self.pool is not None:
            self.server.shutdown()
            self.pool.close()
        self.node.log.close()

    def _write(self, messages: list[Message]) -> None:
        self.node.taken(self.node.log.write(self.node.batch(messages)))
        self.sent += messages


def rows(
    reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[InputPartition] | None = None
) -> list[dict[str, Any]]:
    """What tasks would read."""
    if partitions is None:
        assert isinstance(reader, DataSourceReader)
        partitions = reader.partitions()
    batches: list[Any] = [batch for partition in partitions for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]


def keys(found: Sequence[dict[str, Any]]) -> list[Key]:
    """Which messages these are; sorted, and any that came twice is there twice."""
    return sorted((row["shard"], row["serial"]) for row in found)
