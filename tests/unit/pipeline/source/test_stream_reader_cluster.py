"""A stream over nodes of a cluster: its offsets hold at every node, and a node that is behind is waited for."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.reader.view import BehindError
from holdfast.history.tokens import Tokens
from holdfast.pipeline.source import batch_reader, stream_reader
from holdfast.pipeline.source.batch_reader import BatchReader
from holdfast.pipeline.source.history_source import wait_for_offsets
from holdfast.pipeline.source.partitions import clear_cache
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS, spark_schema
from holdfast.pipeline.source.stream_reader import StreamReader
from tests.unit.history.cluster_folder import NodeFolder, fill
from tests.unit.pipeline.filled_log import Key, keys, rows
from tests.unit.storage.rocks.vnodes.vnode_world import Logs, opened

Where = dict[str, str]


class Nodes:
    """Two nodes of one cluster, each with the option that leads to it."""

    def __init__(self, folder: Path, *, served: bool) -> None:
        self._kept = ExitStack()
        self._kept.callback(clear_cache)
        logs = Logs()
        self.folders = [NodeFolder(self._kept.enter_context(opened(folder / name)), logs=logs) for name in "ab"]
        for node in self.folders:
            node.apply()
            node.publish()
        self.where: list[Where] = [self._served(node) if served else _path(node) for node in self.folders]

    def _served(self, node: NodeFolder) -> Where:
        pool = ReaderPool(node.engine.folder, 4)
        server = FlightServer(node.engine.folder, pool, Tokens(None), "127.0.0.1", 0)
        self._kept.callback(pool.close)
        self._kept.callback(server.shutdown)
        return {"endpoint": f"grpc://127.0.0.1:{server.port}"}

    def close(self) -> None:
        self._kept.close()


def _path(node: NodeFolder) -> Where:
    return {"path": str(node.engine.folder)}


@pytest.fixture(params=["path", "endpoint"])
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path, served=request.param == "endpoint")
    yield nodes
    nodes.close()


def stream(where: Where, **given: str) -> StreamReader:
    return StreamReader(spark_schema(DEFAULT_COLUMNS), parse_read_options({**where, **given}))


def all_keys(node: NodeFolder) -> list[Key]:
    return sorted((row[0], row[2]) for row in node.rows)


def next_end(reader: StreamReader, start: str) -> str:
    return json.dumps(reader.latestOffset(json.loads(start), reader.getDefaultReadLimit()))


def between(reader: StreamReader, start: str, end: str) -> list[Key]:
    return keys(rows(reader, reader.partitions(json.loads(start), json.loads(end))))


def impatient(monkeypatch: pytest.MonkeyPatch, pause: Callable[[float], None] | None = None) -> None:
    given = {"patience_s": 0.0} if pause is None else {"pause": pause}
    for module in (stream_reader, batch_reader):
        monkeypatch.setattr(module, "wait_for_offsets", partial(wait_for_offsets, **given))


def test_a_stream_that_moves_from_node_to_node_gives_every_message_once(nodes: Nodes) -> None:
    """R1: batches of a few messages, each at the other node."""
    one, two = nodes.folders
    fill(one)
    two.apply()
    two.publish()
    readers = [stream(where, maxRowsPerTrigger="7") for where in nodes.where]
    start = json.dumps(readers[0].initialOffset())
    assert start == json.dumps(readers[1].initialOffset())
    found: list[Key] = []
    batches = 0
    while (end := next_end(readers[batches % 2], start)) != start:
        # What one node has planned, the other one reads.
        found += between(readers[(batches + 1) % 2], start, end)
        start, batches = end, batches + 1
        if batches == 5:
            one.fill(2)
            one.publish()
            two.apply()
            two.publish()
    assert batches > 10
    assert sorted(found) == all_keys(one)
    for reader in readers:
        reader.stop()


def test_a_node_that_is_behind_has_nothing_new_and_nothing_is_lost(nodes: Nodes) -> None:
    one, two = nodes.folders
    fill(one)
    reader = stream(nodes.where[0])
    start = json.dumps(reader.initialOffset())
    end = next_end(reader, start)
    found = between(reader, start, end)
    reader.stop()

    late = stream(nodes.where[1])
    assert next_end(late, end) == end

    two.apply()
    two.fill(2)
    two.publish()
    following = next_end(late, end)
    assert sorted([*found, *between(late, end, following)]) == all_keys(two)
    late.stop()


def test_a_batch_that_a_node_does_not_have_yet_is_waited_for(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark plans the last batch again, and may do so at a node that is behind: a short batch would be a loss."""
    one, two = nodes.folders
    fill(one)
    reader = stream(nodes.where[0])
    start = json.dumps(reader.initialOffset())
    end = next_end(reader, start)
    reader.stop()
    late = stream(nodes.where[1])
    impatient(monkeypatch)
    with pytest.raises(BehindError, match="this node of the cluster is behind"):
        between(late, start, end)

    paused = 0

    def catch_up(_pause_s: float) -> None:
        nonlocal paused
        paused += 1
        two.apply()
        two.publish()

    impatient(monkeypatch, catch_up)
    assert between(late, start, end) == all_keys(one)
    assert paused == 1
    late.stop()


def test_a_table_behind_offsets_waits_for_its_node(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = nodes.folders
    fill(one)
    reader = stream(nodes.where[0])
    offsets = json.dumps(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()))
    reader.stop()
    options = parse_read_options({**nodes.where[1], "startingOffsets": offsets})
    impatient(monkeypatch)
    with pytest.raises(BehindError):
        rows(BatchReader(spark_schema(DEFAULT_COLUMNS), options))
    two.apply()
    before = len(two.rows)
    two.fill(1)
    two.publish()
    found = keys(rows(BatchReader(spark_schema(DEFAULT_COLUMNS), options)))
    assert found == sorted((row[0], row[2]) for row in two.rows[before:])


def test_a_stream_up_to_a_time_does_not_pass_what_a_node_has_not_applied(nodes: Nodes) -> None:
    one, two = nodes.folders
    fill(one)
    two.publish()
    until_us = max(row[1] for row in one.rows) + 1
    late = stream(nodes.where[1], endingTime=str(until_us))
    start = json.dumps(late.initialOffset())
    assert next_end(late, start) == start
    two.apply()
    two.publish()
    end = next_end(late, start)
    assert between(late, start, end) == all_keys(one)
    late.stop()


def test_a_table_has_every_message_of_every_shard_once(nodes: Nodes) -> None:
    one = nodes.folders[0]
    fill(one)
    for given in ({}, {"zone": "audit"}, {"topicFilter": "a/+"}, {"rowsPerPartition": "5"}):
        options = parse_read_options({**nodes.where[0], **given})
        found = keys(rows(BatchReader(spark_schema(DEFAULT_COLUMNS), options)))
        audit = "zone" in given
        wanted = [
            (row[0], row[2])
            for row in one.rows
            if (not audit or row[3].startswith("audit/")) and ("topicFilter" not in given or row[3].startswith("a/"))
        ]
        assert found == sorted(wanted)
