"""Tables by Arrow Flight are those that the files have, and a wrong name is told with the right ones."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.history.flight.client import FlightHistory
from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.tables.tables import SCHEMAS, TableQuery, table_batches
from holdfast.history.tokens import Tokens
from holdfast.model.errors import PermanentError
from holdfast.wire.packets import Publish
from tests.disk_world import DiskWorld, publish
from tests.slow_world import kept


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[tuple[Path, FlightHistory]]:
    """A broker that has sessions and retained messages, and its tables by Flight."""
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("plant/#", qos=1)
        reader.drop()
        publish(world, ("plant/1", b"1"), ("other", b"2"))
        writer = world.connect("writer")
        writer.send(*(Publish(f"plant/{i}", b"x", 1, i, retain=True) for i in (1, 2, 3)))
        pool = ReaderPool(tmp_path, 1, wait_s=0.0)
        server = FlightServer(tmp_path, pool, Tokens(None), "127.0.0.1", 0)
        with FlightHistory(f"grpc://127.0.0.1:{server.port}", patience_s=0.0) as history:
            yield tmp_path, history
        server.shutdown()
        pool.close()


def test_tables_come_as_the_files_have_them(tables: tuple[Path, FlightHistory]) -> None:
    folder, history = tables
    queries = [TableQuery(name, tuple(SCHEMAS[name].names)) for name in SCHEMAS]
    queries += [
        TableQuery("queues", ("owed", "client_id"), exact=True),
        TableQuery("retained", ("topic",), (b"plant", b"2")),
    ]
    for query in queries:
        by_flight = [row for batch in history.table(query) for row in batch.to_pylist()]
        with HistoryReader.open(folder) as files:
            by_files = [
                row for batch in table_batches(files, query, time.time_ns() // 1000) for row in batch.to_pylist()
            ]
        assert by_flight == by_files
        assert by_flight
    assert by_flight == [{"topic": "plant/2"}]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (TableQuery("session", ("a",)), "there is no table 'session'; there are sessions, queues, retained"),
        (TableQuery("sessions", ("a",)), "there is no column 'a' in sessions; there are client_id"),
        (TableQuery("sessions", ("client_id",), exact=True), 'a "filter" is for retained, and "exact" for queues'),
    ],
)
def test_a_wrong_table_is_told(tables: tuple[Path, FlightHistory], query: TableQuery, told: str) -> None:
    with pytest.raises(PermanentError) as caught:
        list(tables[1].table(query))
    assert str(caught.value).startswith(told)
