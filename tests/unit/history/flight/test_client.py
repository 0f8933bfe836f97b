"""A client of history whose server is busy, or lost between two batches, reads on as if nothing had happened."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from holdfast.history.audit import queries, stored_rows
from holdfast.history.audit.queries import AuditQuery, QueuesQuery, StoredQuery, TopicsQuery, audit_batches
from holdfast.history.flight.client import FlightHistory
from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import DroppedError
from holdfast.history.tokens import Tokens
from holdfast.model.clock import ManualClock
from holdfast.model.errors import TransientError
from tests.disk_world import DiskWorld
from tests.slow_world import kept, subscribe
from tests.unit.storage.rocks.log_node import Node


class Pool(ReaderPool):
    """One reader, which is refused after a short wait, and taken away from a read after its first batch if wanted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1, wait_s=0.02)
        self.asked = 0
        self.asked_often = Event()
        #: How many reads still lose their reader.
        self.revoked = 0

    def read(
        self, read: Callable[[HistoryReader], Iterator[Any]], gone: Callable[[], bool] = lambda: False
    ) -> Iterator[Any]:
        self.asked += 1
        if self.asked > 3:
            self.asked_often.set()
        for batch in super().read(read, gone):
            yield batch
            if self.revoked:
                self.revoked -= 1
                raise TransientError("nothing was taken for a while, and others have the reader now; read again")


class World:
    def __init__(self, folder: Path) -> None:
        self.node = Node(folder / "data", ManualClock(wall_us=1_700_000_000_000_000), shards=1)
        self.node.fill()
        self.pool = Pool(self.node.folder)
        self.server = FlightServer(self.node.folder, self.pool, Tokens(None), "127.0.0.1", 0)

    def history(self, patience_s: float) -> FlightHistory:
        return FlightHistory(f"grpc://127.0.0.1:{self.server.port}", patience_s=patience_s)

    def rows(self, query: AuditQuery) -> list[dict[str, Any]]:
        with HistoryReader.open(self.node.folder) as reader:
            return [row for batch in audit_batches(reader, query) for row in batch.to_pylist()]

    def close(self) -> None:
        self.server.shutdown()
        self.pool.close()
        self.node.log.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


def read(history: FlightHistory, query: AuditQuery) -> list[dict[str, Any]]:
    return [row for batch in history.audit(query) for row in batch.to_pylist()]


def test_a_reader_that_others_have_is_waited_for(world: World) -> None:
    """For longer than the client has patience with a server that is away: this one answers."""
    with world.history(0.01) as history, ThreadPoolExecutor() as others:
        [part] = history.parts()
        query = StoredQuery(part, checksums=True)
        with world.pool.reading():
            waiting = others.submit(read, history, query)
            assert world.pool.asked_often.wait(60)
        assert waiting.result(60) == world.rows(query)


def test_who_has_no_patience_is_told_that_all_readers_are_busy(world: World) -> None:
    with world.history(0.0) as history:
        [part] = history.parts()
        with world.pool.reading(), pytest.raises(TransientError, match="all 1 readers are busy"):
            read(history, StoredQuery(part, checksums=False))
        assert world.pool.asked == 1


def test_an_audit_goes_on_behind_the_last_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row once, in its order, whenever the server takes the reader away."""
    monkeypatch.setattr(stored_rows, "_BATCH_ROWS", 100)
    monkeypatch.setattr(queries, "_BATCH_ROWS", 2)
    with world.history(60.0) as history:
        [part] = history.parts()
        topics = ("status", *[f"plant/{number}/temp" for number in range(5)])
        for query in (StoredQuery(part, checksums=True), TopicsQuery(part, topics)):
            world.pool.revoked = 2
            assert read(history, query) == world.rows(query)
            assert world.pool.revoked == 0


def test_an_audit_does_not_go_on_in_a_part_that_was_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """L12"""
    monkeypatch.setattr(stored_rows, "_BATCH_ROWS", 100)
    with world.history(60.0) as history:
        [part] = history.parts()
        world.pool.revoked = 1
        found = history.audit(StoredQuery(part, checksums=True))
        assert next(found).num_rows == 100
        world.node.clock.advance(3_600_000_000)
        world.node.maintenance.rotate(world.node.zone)
        world.node.fill(1)
        world.node.maintenance.drop_oldest(world.node.zone)
        world.node.settle()
        with pytest.raises(DroppedError, match="was dropped by retention before it was read"):
            list(found)


def test_queues_that_were_passed_on_are_not_read_once_more(tmp_path: Path) -> None:
    """They may be others by then."""
    with DiskWorld(tmp_path) as broker:
        kept(broker, "reader").send(subscribe("plant/#", 1))
        broker.tick()
        pool = Pool(tmp_path)
        server = FlightServer(tmp_path, pool, Tokens(None), "127.0.0.1", 0)
        with FlightHistory(f"grpc://127.0.0.1:{server.port}") as history:
            [keys] = history.session_ranges()
            query = QueuesQuery(keys, 1)
            assert [row["owner"] for row in read(history, query)] == ["reader"]
            pool.revoked = 1
            with pytest.raises(TransientError, match="read again"):
                read(history, query)
        server.shutdown()
        pool.close()
