"""What workers of an audit read: everything that is stored, and sessions with their queues, of one moment."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.durable.log import NO_END
from holdfast.history.audit.queries import QueuesQuery, StoredQuery
from holdfast.history.audit.stored_rows import STORED
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.view import UNKNOWN, Part, View
from holdfast.pipeline.audit.serial_check import ExpectedSerials, expected_serials
from holdfast.pipeline.audit.stored_state import read_answers
from holdfast.pipeline.source.history_source import session_ranges
from holdfast.pipeline.source.read_options import ReadOptions
from holdfast.storage.rocks.log.erasure_file import erase
from tests.disk_world import DiskWorld, publish, replay
from tests.slow_world import kept, subscribe
from tests.unit.pipeline.filled_log import Log


def numbers(count: int) -> Iterator[Any]:
    return iter([pa.RecordBatch.from_pydict({"number": pa.array(range(count), pa.int32())})])


def test_everything_that_is_stored_is_read_in_its_order(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.fill(200)
    log.rotate()
    log.fill(100)
    with HistoryReader.open(log.node.folder) as reader:
        parts = reader.parts()
        up_to = {shard: head.position_us for shard, head in reader.heads().items()}
        assert expected_serials(reader.view()) == [
            ExpectedSerials(shard, 0, 1, head.serial) for shard, head in sorted(reader.heads().items())
        ]
    everything = log.walk()
    erase(log.node.folder, client="c3", up_to=up_to, now_us=1, made_by="test")
    queries = tuple(StoredQuery(part, checksums=True) for part in parts)
    batches = list(read_answers(ReadOptions(path=log.path), queries, numbers(len(parts))))
    log.close()

    rows = [row for batch in batches for row in batch.to_pylist()]
    assert {batch.schema for batch in batches} == {STORED}
    assert {(row["shard"], row["serial"]) for row in rows} == set(everything)
    assert {row["client_id"] for row in rows if row["erased"]} == {"c3"}
    for before, row in pairwise(rows):
        first = (before["shard"], before["generation"]) != (row["shard"], row["generation"])
        assert row["before_serial"] == (-1 if first else before["serial"])
        assert row["before_offset"] == (-1 if first else before["offset"])


def test_what_the_log_has_to_have_begins_where_retention_stopped(tmp_path: Path) -> None:
    """L12."""
    log = Log(tmp_path, shards=1)
    log.fill(50)
    log.rotate()
    log.fill(30)
    log.drop_oldest()
    with HistoryReader.open(log.node.folder) as reader:
        assert expected_serials(reader.view()) == [ExpectedSerials(0, 0, 51, 80)]
    log.close()


def test_a_generation_that_was_brought_back_is_a_stretch_of_its_own() -> None:
    class Seen:
        """As far as parts go."""

        def parts(self, _since_us: int, _until_us: int, _zone: str | None) -> list[Part]:
            found = [(0, 2, 10, 20), (0, 5, 50, 60), (0, 6, 60, 70), (1, 3, UNKNOWN, 9)]
            return [Part("z", shard, number, 1, 2, after, last) for shard, number, after, last in found]

    assert expected_serials(cast(View, Seen())) == [
        ExpectedSerials(0, 0, 11, 20),
        ExpectedSerials(0, 1, 51, 70),
        ExpectedSerials(1, 0, UNKNOWN, 9),
    ]


def test_a_session_is_read_with_its_queue_whatever_it_waits_for(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader", receive_maximum=1)
        reader.send(subscribe("plant/#", 1), subscribe("$share/team/jobs", 1, packet_id=51))
        publish(world, ("plant/1", b"in flight"), ("jobs", b"1"))
        reader.drop()
        publish(world, ("plant/2", b"owed"), ("jobs", b"2"))
        other = kept(world, "other", receive_maximum=1)
        replay(other, "plant/#", qos=1, replay_from="earliest")
        other.drop()
        world.tick()
        options = ReadOptions(path=str(tmp_path))
        queries = tuple(QueuesQuery(keys, world.clock.wall_us()) for keys in session_ranges(options))
        found = read_answers(options, queries, numbers(len(queries)))
        rows = {(row["owner"], row["replay"]): row for batch in found for row in batch.to_pylist()}

    own = rows["reader", None]
    assert ([one["filter"] for one in own["wanted"]], own["owed"], len(own["done"])) == (["plant/#"], 1, 1)
    assert rows["$share/team/jobs", None]["client"] is None
    assert rows["$share/team/jobs", None]["wanted"][0]["filter"] == "jobs"
    assert rows["other", "plant/#"]["any_qos"] is True
    assert rows["other", None]["wanted"][0]["replayed"] == NO_END, "a replay under way has everything"
