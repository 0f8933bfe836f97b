"""A stream gives every message once, in whatever bites, across restarts, rotations and retention."""

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.history.tokens import Tokens
from holdfast.model.errors import PermanentError
from holdfast.pipeline.source.offsets import Offset, to_json
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS, spark_schema
from holdfast.pipeline.source.stream_reader import StreamReader
from holdfast.storage.rocks.log.leases import read_leases
from tests.unit.pipeline.filled_log import Key, Log, keys, rows


@pytest.fixture(params=["path", "endpoint"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path, tokens=Tokens(None) if request.param == "endpoint" else None)
    yield log
    log.close()


class Query:
    """What Spark's driver does with a reader: offsets go through texts, tasks get the reader by pickle."""

    def __init__(self, log: Log, start: str | None = None, **given: str) -> None:
        self.reader = StreamReader(spark_schema(DEFAULT_COLUMNS), parse_read_options({**log.where, **given}))
        self.start: str = json.dumps(self.reader.initialOffset()) if start is None else start

    def batch(self) -> list[dict[str, Any]] | None:
        """The next batch; None if nothing is new."""
        end = json.dumps(self.reader.latestOffset(json.loads(self.start), self.reader.getDefaultReadLimit()))
        if end == self.start:
            return None
        found = self.between(self.start, end)
        self.reader.commit(json.loads(end))
        self.start = end
        return found

    def between(self, start: str, end: str) -> list[dict[str, Any]]:
        partitions = self.reader.partitions(json.loads(start), json.loads(end))
        task: StreamReader = pickle.loads(pickle.dumps(self.reader))
        return rows(task, partitions)

    def all(self) -> list[Key]:
        """Batch after batch until nothing is new."""
        found = []
        while (batch := self.batch()) is not None:
            found += batch
        return keys(found)

    def restarted(self, log: Log, **given: str) -> "Query":
        self.reader.stop()
        return Query(log, self.start, **given)


def test_each_message_comes_once_and_in_its_turn(log: Log) -> None:
    log.fill(50)
    query = Query(log)
    first = query.all()
    assert first == sorted(log.walk())
    assert query.batch() is None

    log.fill(30)

    assert sorted([*first, *query.all()]) == sorted(log.walk())
    query.reader.stop()


def test_nothing_comes_before_it_is_durable(log: Log) -> None:
    """L20"""
    log.fill(20)
    query = Query(log)
    log.fill(20, settle=False)

    assert len(query.all()) == 20
    log.node.settle()
    assert len(query.all()) == 20
    query.reader.stop()


@pytest.mark.parametrize("limit", [1, 7, 64, 1000])
def test_a_limit_holds_for_every_batch_and_nothing_is_left_out(log: Log, limit: int) -> None:
    log.fill(60)
    log.rotate()
    log.fill(40)
    query = Query(log, maxRowsPerTrigger=str(limit))

    sizes = []
    found = []
    while (batch := query.batch()) is not None:
        sizes.append(len(batch))
        found += batch

    assert keys(found) == sorted(log.walk())
    assert max(sizes) <= limit
    # The last of a shard may be few.
    assert len(sizes) <= -(-100 // limit) + 2
    query.reader.stop()


@pytest.mark.parametrize("limit", [2, 7, 64])
def test_shards_that_are_read_in_step_never_go_back_in_time(log: Log, limit: int) -> None:
    """One shard has ten times as much as the other: it would be hours behind."""
    # The clients of this test lie in different shards.
    busy, quiet = "c1", next(name for name in map(str, range(99)) if _shard(log, name) != _shard(log, "c1"))
    for number in range(60):
        log.publish("plant/a", client_id=quiet if number % 10 == 0 else busy)
    query = Query(log, maxRowsPerTrigger=str(limit), inStep="true")

    sizes: list[int] = []
    found: list[dict[str, Any]] = []
    while (batch := query.batch()) is not None:
        assert not found or min(row["ts"] for row in batch) > max(row["ts"] for row in found)
        sizes.append(len(batch))
        found += batch

    assert keys(found) == sorted(log.walk())
    assert max(sizes) <= limit
    query.reader.stop()


def _shard(log: Log, client_id: str) -> int:
    log.publish("plant/a", client_id=client_id)
    return next(key[0] for key, stored in log.walk().items() if stored.message.publisher == client_id)


def test_a_batch_is_the_same_whenever_it_is_read(log: Log) -> None:
    """Also after later messages, another generation, and in a process that never saw the first reading."""
    log.fill(40)
    query = Query(log)
    start = query.start
    first = query.batch()
    end = query.start
    log.fill(20)
    log.rotate()
    log.fill(20)
    log.node.reopen()

    again = query.restarted(log)

    assert first is not None
    assert keys(again.between(start, end)) == keys(first)
    assert len(again.all()) == 40
    again.reader.stop()


def test_a_generation_that_begins_meanwhile_is_followed(log: Log) -> None:
    query = Query(log)
    found: list[Key] = []
    for _round in range(3):
        log.fill(20)
        found += query.all()
        log.rotate()
        found += query.all()

    assert sorted(found) == sorted(log.walk())
    query.reader.stop()


def test_a_shard_that_appears_meanwhile_is_read_from_its_first_message(log: Log) -> None:
    log.fill(20)
    query = Query(log)
    found = query.all()
    query.reader.stop()
    offsets = json.loads(query.start)
    del offsets["1"]
    log.fill(20)

    later = Query(log, json.dumps(offsets))

    assert sorted({*found, *later.all()}) == sorted(log.walk())
    later.reader.stop()


def test_available_now_ends_where_the_log_ended_when_it_began(log: Log) -> None:
    log.fill(30)
    query = Query(log, maxRowsPerTrigger="9")
    query.reader.prepareForTriggerAvailableNow()
    log.fill(30)

    assert len(query.all()) == 30
    query.reader.stop()


def test_a_stream_may_begin_at_a_time_and_end_at_one(log: Log) -> None:
    log.fill(30)
    since_us = log.now_us + 1
    log.fill(20)
    until_us = log.now_us + 1
    log.fill(10)

    query = Query(log, startingTime=str(since_us), endingTime=str(until_us), maxRowsPerTrigger="6")

    walked = log.walk()
    assert query.all() == sorted(key for key in walked if since_us <= walked[key].position_us < until_us)
    query.reader.stop()


def test_a_stream_may_begin_at_a_time_to_come(log: Log) -> None:
    log.fill(10)
    since_us = log.now_us + 1_500
    query = Query(log, startingTime=str(since_us), maxRowsPerTrigger="4")
    log.fill(30)

    walked = log.walk()
    assert query.all() == sorted(key for key in walked if walked[key].position_us >= since_us)
    query.reader.stop()


def test_a_stream_may_begin_at_the_end_or_at_given_offsets(log: Log) -> None:
    log.fill(30)
    walked = log.walk()
    given = to_json({shard: Offset(walked[shard, 5].position_us, 5) for shard in (0, 1)})
    newest, later = Query(log, startingOffsets="latest"), Query(log, startingOffsets=json.dumps(given))
    log.fill(10)

    assert newest.all() == sorted(set(log.walk()) - set(walked))
    assert later.all() == sorted(key for key in log.walk() if key[1] > 5)
    newest.reader.stop()
    later.reader.stop()


def test_a_filter_goes_into_the_stream(log: Log) -> None:
    query = Query(log, topicFilter="press/#")
    log.publish("press/1", "other", "press/2")

    batch = query.batch()

    assert batch is not None
    assert sorted(row["topic"] for row in batch) == ["press/1", "press/2"]
    query.reader.stop()


@pytest.mark.parametrize("limit", ["1000", "3"])
def test_what_retention_took_first_is_an_error_or_a_gap_that_is_told(
    log: Log, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    """L12"""
    log.fill(20)
    strict, lenient = Query(log), Query(log, failOnDataLoss="false", maxRowsPerTrigger=limit)
    log.rotate()
    log.fill(10)
    log.drop_oldest()

    with pytest.raises(PermanentError, match=r"retention dropped up to \d+ messages of shard \d .* failOnDataLoss"):
        strict.all()
    assert lenient.all() == sorted(log.walk())
    assert len(log.walk()) == 10
    assert "history has a gap: retention dropped up to" in caplog.text
    strict.reader.stop()
    lenient.reader.stop()


def test_a_stream_begins_with_what_is_there_and_misses_nothing_that_was_dropped_before(log: Log) -> None:
    log.fill(20)
    log.rotate()
    log.fill(10)
    log.drop_oldest()

    query = Query(log, maxRowsPerTrigger="4")

    assert query.all() == sorted(log.walk())
    query.reader.stop()


def test_the_checkpoint_of_other_data_is_refused(log: Log) -> None:
    log.fill(10)
    query = Query(log, json.dumps({"0": [log.now_us - 500, 5_000], "1": [1, 0]}))
    log.fill(10)

    with pytest.raises(PermanentError, match=r"shard 0 was read up to message 5000, and it has \d+: these are other"):
        query.all()
    query.reader.stop()


def test_a_head_behind_what_was_read_is_waited_for(log: Log) -> None:
    """After a power loss a head may be older until the broker starts."""
    log.fill(10)
    ahead = json.dumps({str(shard): [log.now_us + 1_000_000, 9_999] for shard in (0, 1)})

    query = Query(log, ahead)

    assert query.batch() is None
    query.reader.stop()


def test_a_reader_travels_without_what_it_has_open(log: Log) -> None:
    log.fill(10)
    query = Query(log)

    copy: StreamReader = pickle.loads(pickle.dumps(query.reader))

    assert copy.latestOffset({}, copy.getDefaultReadLimit()) == query.reader.reportLatestOffset()
    copy.stop()
    query.reader.stop()


def test_what_was_read_before_it_was_dropped_is_not_missed(log: Log) -> None:
    log.fill(300)
    log.rotate()
    query = Query(log)
    assert len(query.all()) == 300

    log.drop_oldest()
    log.fill(20)

    assert query.all() == sorted(log.walk())


def test_a_lease_is_at_what_was_committed(log: Log) -> None:
    log.fill(30)
    query = Query(log, lease="lake", maxRowsPerTrigger="10")
    start = json.loads(query.start)
    first = query.reader.latestOffset(start, query.reader.getDefaultReadLimit())
    [lease] = read_leases(log.node.folder)
    assert lease.positions == {shard: max(0, start[str(shard)][0]) for shard in (0, 1)}

    query.reader.partitions(start, first)
    assert read_leases(log.node.folder) == [lease]
    query.reader.commit(first)

    [lease] = read_leases(log.node.folder)
    assert (lease.name, lease.positions) == ("lake", {shard: first[str(shard)][0] for shard in (0, 1)})
    query.reader.stop()


def test_a_lease_names_shards_of_which_nothing_was_read(log: Log) -> None:
    log.fill(30)
    query = Query(log, lease="lake")
    query.reader.commit({"0": [log.now_us, 3]})

    [lease] = read_leases(log.node.folder)
    assert lease.positions == {0: log.now_us, 1: 0}
    query.reader.stop()


def test_a_lease_is_renewed_while_nothing_comes(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.fill(10)
    query = Query(log, lease="lake")
    query.all()
    [before] = read_leases(log.node.folder)

    now_s = time.monotonic()
    monkeypatch.setattr("holdfast.pipeline.source.stream_reader.time.monotonic", lambda: now_s + 31)
    assert query.batch() is None
    [after] = read_leases(log.node.folder)

    assert after.renewed_us > before.renewed_us
    assert after.positions == before.positions
    query.reader.stop()
