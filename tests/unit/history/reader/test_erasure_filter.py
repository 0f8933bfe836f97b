"""What was erased is in no reader's result, and no reader takes it for a short read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.flight.client import FlightHistory
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tokens import Tokens
from holdfast.records.messages import stored_publisher, stored_topic
from holdfast.storage.rocks.log.erasure_file import FILE_NAME, erase
from holdfast.storage.rocks.log.published_heads import Head
from tests.unit.pipeline.filled_log import Log


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path, tokens=Tokens(None))
    made.fill(300)
    made.publish("home/1/temp", "home/2/temp", client_id="meter")
    made.publish("$own/1", client_id="meter")
    yield made
    made.close()


def erased(log: Log, **what: str) -> None:
    up_to = {shard: head.position_us for shard, head in heads(log).items()}
    erase(log.node.folder, up_to=up_to, now_us=log.now_us, made_by="test", **what)


def heads(log: Log) -> dict[int, Head]:
    with HistoryReader.open(log.node.folder) as reader:
        return reader.heads()


def rows(log: Log, levels: tuple[bytes, ...] = (), *, in_order: bool = True) -> list[tuple[str, str]]:
    """By the files, checked against Flight and against values."""
    with HistoryReader.open(log.node.folder) as reader, FlightHistory(log.where["endpoint"]) as flight:
        found = [
            [
                (row["topic"], row["client_id"])
                for part in source.parts()
                for batch in source.batches(part, levels, COLUMNS, in_order=in_order)
                for row in batch.to_pylist()
            ]
            for source in (reader, flight)
        ]
        values = list(reader.start_replay(reader.parts(), levels, in_order=in_order).records())
    found.append([(stored_topic(value).decode(), stored_publisher(value)) for value in values])
    assert [sorted(one) for one in found] == [sorted(found[0])] * 3
    return found[0]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_client_that_was_erased_is_in_no_result(log: Log, in_order: bool) -> None:
    before = rows(log, in_order=in_order)
    erased(log, client="meter")
    assert rows(log, in_order=in_order) == [row for row in before if row[1] != "meter"]
    assert rows(log, (b"home", b"+", b"temp"), in_order=in_order) == []
    log.publish("home/1/temp", client_id="meter")
    assert rows(log, (b"home", b"+", b"temp")) == [("home/1/temp", "meter")], "what comes later is shown"


def test_topics_that_were_erased_are_in_no_result(log: Log) -> None:
    before = rows(log)
    erased(log, topic="home/+/temp")
    assert rows(log) == [row for row in before if not row[0].startswith("home/")]
    erased(log, topic="#")
    assert rows(log) == [row for row in before if row[0].startswith("$")]


def test_a_reader_that_was_there_before_sees_an_erasure_with_its_next_read(log: Log) -> None:
    with FlightHistory(log.where["endpoint"]) as history:
        part = history.parts()[0]
        before = [topic for batch in history.batches(part) for topic in batch.column("topic").to_pylist()]
        erased(log, topic="#")
        after = [topic for batch in history.batches(part) for topic in batch.column("topic").to_pylist()]
        assert len(before) > len(after)
        assert after == [topic for topic in before if topic.startswith("$")]


def test_the_log_itself_can_be_checked_all_the_same(log: Log) -> None:
    with HistoryReader.open(log.node.folder) as reader:
        stored = [value for part in reader.parts() for value in reader.stored(part)]
        erased(log, topic="#")
        assert [value for part in reader.parts() for value in reader.stored(part)] == stored


def test_nothing_is_shown_if_it_is_not_known_what_was_erased(log: Log) -> None:
    (log.node.folder / FILE_NAME).write_text("?")
    with HistoryReader.open(log.node.folder) as reader, pytest.raises(Exception, match="damaged"):
        list(reader.start_replay([reader.parts()[0]]).records())
