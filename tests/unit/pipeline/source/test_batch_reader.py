"""A batch gives what a plain walk through the log finds, whatever it is asked for and however it is cut."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)
from pyspark.sql.types import StringType, StructField, StructType

from holdfast.durable.log import NO_END
from holdfast.history.reader.view import Part
from holdfast.history.tokens import Tokens
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.pipeline.source.batch_reader import PushdownReader
from holdfast.pipeline.source.history_source import open_source
from holdfast.pipeline.source.offsets import Offset, to_json
from holdfast.pipeline.source.partitions import HistoryPartition, cut_parts
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.source.schema import DEFAULT_COLUMNS, FIELDS, JSON, SIZE, check_schema, spark_schema
from holdfast.records.messages import StoredMessage
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.topics.filters import levels_match
from holdfast.topics.names import is_dollar
from tests.unit.pipeline.filled_log import START_US, Key, Log, keys, rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", params=["paged", "learned", "timeline", "bitmask"])
def any_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """In each layout."""
    yield from filled(Log(tmp_path_factory.mktemp(request.param), request.param))


@pytest.fixture(scope="module", params=["path", "endpoint"])
def paged_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """In the layout of segments, by each way to it."""
    tokens = Tokens(None) if request.param == "endpoint" else None
    yield from filled(Log(tmp_path_factory.mktemp("paged"), "paged", tokens=tokens))


@pytest.fixture(scope="module", params=["path", "endpoint"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """In the layout that is usual, by each way to it."""
    tokens = Tokens(None) if request.param == "endpoint" else None
    yield from filled(Log(tmp_path_factory.mktemp("log"), tokens=tokens))


def filled(log: Log) -> Iterator[Log]:
    """Two generations of two shards; of pages, the first half in segments."""
    log.fill(300)
    log.rotate()
    if log.layout == "paged":
        assert SegmentWriter(log.node.log, SegmentSize(messages=40)).write_all() > 4
        log.node.settle()
    log.fill(200)
    yield log
    log.close()


def reader_of(log: Log, made: tuple[str, ...] = DEFAULT_COLUMNS, **given: str) -> PushdownReader:
    return PushdownReader(spark_schema(made), parse_read_options({**log.where, **given}))


def expected(log: Log, wanted: Callable[[StoredMessage], bool] = lambda stored: True) -> list[Key]:
    return sorted(key for key, stored in log.walk().items() if wanted(stored))


def matching(levels: tuple[bytes, ...]) -> Callable[[StoredMessage], bool]:
    def matches(stored: StoredMessage) -> bool:
        topic = stored.message.topic
        return levels_match(levels, topic.split(b"/"), dollar=is_dollar(topic))

    return matches


def moment(position_us: int) -> datetime:
    return EPOCH + timedelta(microseconds=position_us)


@pytest.mark.parametrize("rows_per_partition", ["1000000", "37"])
def test_everything_is_read_once_however_it_is_cut(any_log: Log, rows_per_partition: str) -> None:
    reader = reader_of(any_log, rowsPerPartition=rows_per_partition)
    partitions = reader.partitions()
    read = rows(reader, partitions)
    walked = any_log.walk()

    assert keys(read) == sorted(walked)
    assert len(read) == len(any_log.sent)
    for row in read:
        stored = walked[row["shard"], row["serial"]]
        assert (row["topic"].encode(), row["payload"], row["client_id"], row["offset"]) == (
            stored.message.topic,
            stored.message.payload,
            stored.message.publisher,
            stored.position_us,
        )
        assert row["ts"] == moment(row["offset"])
    if rows_per_partition == "37":
        assert len(partitions) > 12


def test_the_size_of_a_payload_comes_without_it(log: Log) -> None:
    read = rows(reader_of(log, ("shard", "serial", SIZE)))

    assert {(row["shard"], row["serial"]): row[SIZE] for row in read} == {
        key: len(stored.message.payload) for key, stored in log.walk().items()
    }
    assert set(read[0]) == {"shard", "serial", SIZE}


def test_every_task_knows_its_serials(log: Log) -> None:
    """So a short read is noticed at the edges of a piece, too."""
    partitions = reader_of(log, rowsPerPartition="20").partitions()

    parts = [partition.part for partition in partitions if isinstance(partition, HistoryPartition)]
    assert sum(part.last_serial - part.after_serial for part in parts) == len(log.sent)
    assert all(part.after_serial >= 0 for part in parts)


def test_a_burst_after_a_long_silence_is_cut_as_well(tmp_path: Path) -> None:
    log = Log(tmp_path, shards=1)
    log.node.clock.advance(86_400_000_000)
    log.fill(100)
    log.node.clock.advance(86_400_000_000)
    log.fill(60)

    reader = reader_of(log, rowsPerPartition="20")
    sizes = [len(rows(reader, [partition])) for partition in reader.partitions()]

    assert sum(sizes) == 160
    assert max(sizes) <= 20
    assert len(sizes) <= 16
    log.close()


def test_a_piece_that_lacks_a_message_is_an_error(log: Log) -> None:
    reader = reader_of(log, rowsPerPartition="20")
    first = reader.partitions()[3]
    assert isinstance(first, HistoryPartition)
    short = HistoryPartition(first.part._replace(hi_us=first.part.hi_us - 1_000))

    with pytest.raises(PermanentError, match="by their serials there are"):
        rows(reader, [short])


@pytest.mark.parametrize(
    "topic_filter", ["#", "plant/#", "plant/+/temp", "plant/7/temp", "+", "$events/+/up", "plant/7/#", "no/such"]
)
def test_a_filter_gives_what_it_matches(any_log: Log, topic_filter: str) -> None:
    levels = tuple(topic_filter.encode().split(b"/"))

    read = rows(reader_of(any_log, topicFilter=topic_filter))

    assert keys(read) == expected(any_log, matching(levels))


@pytest.mark.parametrize("since_us", [0, START_US + 5_500, START_US + 60_035_500])
@pytest.mark.parametrize("until_us", [START_US + 9_000, START_US + 60_045_123, 2**62])
def test_times_cut_at_the_microsecond(log: Log, since_us: int, until_us: int) -> None:
    reader = reader_of(log, startingTime=str(since_us), endingTime=str(until_us))

    assert keys(rows(reader)) == expected(log, lambda stored: since_us <= stored.position_us < until_us)


@pytest.mark.parametrize(
    ("columns", "schema"),
    [("topic", ("topic",)), ("payload,ts", ("payload", "ts")), (",".join(FIELDS), tuple(FIELDS)), ("json", (JSON,))],
)
def test_only_the_columns_asked_for_are_read(log: Log, columns: str, schema: tuple[str, ...]) -> None:
    reader = reader_of(log, schema, columns=columns)

    read = rows(reader)

    assert {tuple(row) for row in read} == {schema}
    assert len(read) == len(log.sent)


MIDDLE_US = START_US + 60_035_000
PUSHED: list[tuple[list[Filter], Callable[[StoredMessage], bool], int]] = [
    ([GreaterThan(("ts",), moment(MIDDLE_US))], lambda s: s.position_us > MIDDLE_US, 0),
    ([GreaterThanOrEqual(("ts",), moment(MIDDLE_US))], lambda s: s.position_us >= MIDDLE_US, 0),
    ([LessThan(("ts",), moment(MIDDLE_US))], lambda s: s.position_us < MIDDLE_US, 0),
    ([LessThanOrEqual(("offset",), MIDDLE_US)], lambda s: s.position_us <= MIDDLE_US, 0),
    ([EqualTo(("ts",), moment(MIDDLE_US))], lambda s: s.position_us == MIDDLE_US, 0),
    (
        [GreaterThan(("ts",), moment(MIDDLE_US)), LessThan(("offset",), MIDDLE_US + 7_000), IsNotNull(("ts",))],
        lambda s: MIDDLE_US < s.position_us < MIDDLE_US + 7_000,
        0,
    ),
    ([EqualTo(("topic",), "plant/7/temp")], matching((b"plant", b"7", b"temp")), 0),
    ([EqualTo(("topic",), "$events/7/up")], matching((b"$events", b"7", b"up")), 0),
    ([EqualTo(("topic",), "plant/+/temp")], lambda s: False, 0),
    ([In(("topic",), ("plant/7/temp", "status", "no"))], lambda s: s.message.topic in (b"plant/7/temp", b"status"), 0),
    ([In(("topic",), ("status", "plant/1/temp")), EqualTo(("topic",), "status")], matching((b"status",)), 0),
    ([EqualTo(("topic",), "status"), EqualTo(("topic",), "other")], lambda s: False, 0),
    ([StringStartsWith(("topic",), "plant/7")], lambda s: s.message.topic.startswith(b"plant/7"), 1),
    ([StringStartsWith(("topic",), "plant/7/")], lambda s: s.message.topic.startswith(b"plant/7/"), 1),
    ([StringStartsWith(("topic",), "$events/")], lambda s: s.message.topic.startswith(b"$events/"), 1),
    ([StringStartsWith(("topic",), "sta")], lambda s: s.message.topic.startswith(b"sta"), 1),
    ([StringContains(("topic",), "7")], lambda s: b"7" in s.message.topic, 1),
    ([Not(EqualTo(("topic",), "status"))], lambda s: s.message.topic != b"status", 1),
    ([EqualTo(("client_id",), "c3")], lambda s: s.message.publisher == "c3", 1),
    ([IsNotNull(("content_type",))], lambda s: False, 1),
]


@pytest.mark.parametrize(("filters", "wanted", "left"), PUSHED, ids=[str(case[0])[:60] for case in PUSHED])
def test_conditions_of_a_query_narrow_what_is_read_and_lose_nothing(
    log: Log, filters: list[Filter], wanted: Callable[[StoredMessage], bool], left: int
) -> None:
    """With what Spark has to check again, and does."""
    reader = reader_of(log)

    remaining = list(reader.pushFilters(filters))
    read = keys(rows(reader))
    right = expected(log, wanted)

    assert len(remaining) == left
    assert set(right) <= set(read) if left else right == read


def test_a_beginning_reads_less_than_everything(log: Log) -> None:
    reader = reader_of(log)
    list(reader.pushFilters([StringStartsWith(("topic",), "plant/7/te")]))

    assert keys(rows(reader)) == expected(log, lambda stored: stored.message.topic.startswith(b"plant/7/"))


def test_conditions_stay_within_the_filter_of_the_options(log: Log) -> None:
    reader = reader_of(log, topicFilter="plant/+/temp")
    list(reader.pushFilters([In(("topic",), ("plant/7/temp", "plant/7/flow", "status"))]))
    beginning = reader_of(log, topicFilter="plant/+/temp")
    list(beginning.pushFilters([StringStartsWith(("topic",), "plant/7/")]))

    assert {row["topic"] for row in rows(reader)} == {"plant/7/temp"}
    assert {row["topic"].split("/")[2] for row in rows(beginning)} == {"temp"}


def test_one_shard_alone(log: Log) -> None:
    reader = reader_of(log)
    shard = max(row["shard"] for row in rows(reader))

    assert list(reader.pushFilters([EqualTo(("shard",), shard)])) == []

    read = rows(reader)
    assert {row["shard"] for row in read} == {shard}
    assert max(row["serial"] for row in read) == len(read)


def test_a_batch_may_begin_behind_the_offsets_of_a_stream(log: Log) -> None:
    walked = log.walk()
    starts = {shard: Offset(walked[shard, 70].position_us, 70) for shard in (0, 1)}

    later = reader_of(log, startingOffsets=json.dumps(to_json(starts)), rowsPerPartition="33")

    assert keys(rows(later)) == sorted(key for key in walked if key[1] > 70)
    assert rows(reader_of(log, startingOffsets="latest")) == []


def test_nothing_to_read_is_no_partition(log: Log) -> None:
    reader = reader_of(log)
    list(reader.pushFilters([In(("topic",), ())]))

    assert reader.partitions() == []


def test_a_zone_that_does_not_exist_is_named(log: Log) -> None:
    with pytest.raises(SettingsError, match="option zone: there is no zone 'nowhere'; there are default"):
        reader_of(log, zone="nowhere").partitions()


def test_a_generation_that_is_dropped_while_a_query_runs_is_an_error_or_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(tmp_path)
    log.fill(20)
    log.rotate()
    log.fill(10)
    strict, lenient = reader_of(log), reader_of(log, failOnDataLoss="false")
    planned = strict.partitions()
    log.drop_oldest()

    with pytest.raises(PermanentError, match="generation 1 of zone 'default' was dropped by retention before it"):
        rows(strict, planned)
    assert len(rows(lenient, planned)) == 10
    assert "history has a gap: generation 1 of zone 'default' was dropped" in caplog.text
    log.close()


@pytest.mark.parametrize(
    ("columns", "change", "message"),
    [
        (("topic",), {"topic": "colour"}, "schema: there is no column 'colour'"),
        (("serial",), {}, "schema: column 'serial' is bigint, not string"),
    ],
)
def test_a_schema_that_history_has_not_is_refused(
    columns: tuple[str, ...], change: dict[str, str], message: str
) -> None:
    schema = StructType([StructField(change.get(name, name), StringType()) for name in columns])

    with pytest.raises(SettingsError, match=message):
        check_schema(schema)


@pytest.mark.parametrize(("least", "tasks"), [(1_000, 4), (10, 16)])
def test_without_a_wish_there_are_as_many_tasks_as_are_worth_it(
    log: Log, monkeypatch: pytest.MonkeyPatch, least: int, tasks: int
) -> None:
    monkeypatch.setattr("holdfast.pipeline.source.partitions.MIN_ROWS", least)
    with open_source(parse_read_options(log.where)) as source:
        heads = source.heads()
        pieces = cut_parts(source, source.parts(0, NO_END), heads, None)

    assert sum(piece.last_serial - piece.after_serial for piece in pieces) == 500
    assert tasks <= len(pieces) <= tasks + 4


def test_pieces_are_full_and_follow_each_other(log: Log) -> None:
    with open_source(parse_read_options(log.where)) as source:
        parts = source.parts(0, NO_END)
        pieces = cut_parts(source, parts, source.heads(), 40)

    by_part: dict[tuple[int, int], list[Part]] = {}
    for piece in pieces:
        by_part.setdefault((piece.shard, piece.generation), []).append(piece)
    for those in by_part.values():
        for before, after in pairwise(those):
            assert before.last_serial == after.after_serial
            assert before.hi_us == after.lo_us
        assert all(38 <= piece.last_serial - piece.after_serial <= 40 for piece in those[:-1])
        assert 0 < those[-1].last_serial - those[-1].after_serial <= 40


def test_pieces_begin_where_segments_begin(paged_log: Log) -> None:
    """Each message is read once, and a segment by one task alone."""
    with open_source(parse_read_options(paged_log.where)) as source:
        heads = source.heads()
        parts = source.parts(0, NO_END)
        starts = {place for part in parts for place in source.cuts(part)}
        pieces = cut_parts(source, parts, heads, 90)
    assert len(starts) > 3

    first_parts = {(part.shard, part.generation): part for part in parts}
    in_segments = [piece for piece in pieces if piece.generation == min(part.generation for part in parts)]
    begun = [piece for piece in in_segments if piece.lo_us > first_parts[piece.shard, piece.generation].lo_us]
    assert begun
    assert all((piece.lo_us, piece.after_serial + 1) in starts for piece in begun)
    reader = reader_of(paged_log, rowsPerPartition="90")
    assert sorted(keys(rows(reader, reader.partitions()))) == sorted(paged_log.walk())
