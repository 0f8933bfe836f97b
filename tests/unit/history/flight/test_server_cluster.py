"""Arrow Flight of a node in a cluster: what its folder shows, and the same at every node."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.history.flight.client import FlightHistory
from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import BehindError
from holdfast.history.tokens import Tokens
from holdfast.storage.rocks.log.leases import read_leases
from tests.unit.history.cluster_folder import NodeFolder, Row, fill
from tests.unit.storage.rocks.vnodes.vnode_world import Logs, opened

COLUMNS = ("shard", "offset", "serial", "topic", "payload")


class ServedNode:
    """A node, and the Flight server beside it."""

    def __init__(self, folder: Path, logs: Logs | None = None) -> None:
        self._kept = ExitStack()
        self.node = NodeFolder(self._kept.enter_context(opened(folder)), logs=logs)
        self.node.apply()
        self.node.publish()
        self.pool = ReaderPool(folder, 2, wait_s=0.0)
        self.server = FlightServer(folder, self.pool, Tokens(None), "127.0.0.1", 0)
        self._kept.callback(self.pool.close)
        self._kept.callback(self.server.shutdown)

    def history(self) -> FlightHistory:
        return FlightHistory(f"grpc://127.0.0.1:{self.server.port}", patience_s=0.0)

    def close(self) -> None:
        self._kept.close()


@pytest.fixture
def first(tmp_path: Path) -> Iterator[ServedNode]:
    served = ServedNode(tmp_path / "one")
    yield served
    served.close()


@pytest.fixture
def second(tmp_path: Path, first: ServedNode) -> Iterator[ServedNode]:
    """Another node of the same cluster."""
    served = ServedNode(tmp_path / "two", first.node.logs)
    yield served
    served.close()


def rows(reader: FlightHistory | HistoryReader, parts: list[Part], levels: tuple[bytes, ...] = ()) -> list[Row]:
    batches = [batch for part in parts for batch in reader.batches(part, levels, COLUMNS)]
    return [tuple(row[name] for name in COLUMNS) for batch in batches for row in batch.to_pylist()]


def test_flight_shows_what_the_folder_shows(first: ServedNode) -> None:
    fill(first.node)
    with first.history() as history, HistoryReader.open(first.node.engine.folder) as reader:
        assert history.is_of_cluster
        assert history.heads() == reader.heads()
        assert history.parts() == reader.parts()
        assert history.zones() == reader.zones()
        assert rows(history, history.parts(), (b"a", b"+")) == rows(reader, reader.parts(), (b"a", b"+"))
        assert sorted(rows(history, history.parts())) == sorted(first.node.rows)


def test_a_reader_goes_on_at_another_node_from_the_same_offsets(first: ServedNode, second: ServedNode) -> None:
    """R1"""
    fill(first.node)
    with first.history() as history:
        read = rows(history, history.parts())
        offsets = history.heads()
    first.server.shutdown()
    second.node.apply()
    second.node.fill(3)
    second.node.publish()
    with second.history() as history:
        for shard, head in history.heads().items():
            behind = history.shard_parts(shard, offsets[shard].position_us + 1, head.position_us + 1)
            assert behind[0]._replace(after_serial=offsets[shard].serial).last_serial > 0
            read += rows(history, [behind[0]._replace(after_serial=offsets[shard].serial), *behind[1:]])
    assert sorted(read) == sorted(second.node.rows)


def test_a_node_that_is_behind_says_so_until_it_has_caught_up(first: ServedNode, second: ServedNode) -> None:
    fill(first.node)
    with first.history() as here, second.history() as there:
        parts = here.parts()
        with pytest.raises(BehindError, match="ask another node"):
            rows(there, parts)
        second.node.apply()
        second.node.publish()
        assert rows(there, parts) == rows(here, parts)


def test_a_lease_is_renewed_beside_the_node(first: ServedNode) -> None:
    fill(first.node)
    with first.history() as history:
        history.renew("job", {shard: head.position_us for shard, head in history.heads().items()})
        assert [lease.name for lease in read_leases(first.node.engine.folder)] == ["job"]
