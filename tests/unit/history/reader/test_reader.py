"""Reading beside the writer: what is durable is seen, all of it and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.history.reader import record_replay
from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import decode_message
from holdfast.storage.rocks.log.leases import read_leases
from holdfast.storage.rocks.log.published_heads import read_heads
from tests.unit.storage.rocks.log_node import Node


@pytest.fixture(params=["learned", "timeline", "bitmask"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "data", ManualClock(wall_us=1_700_000_000_000_000), layout=request.param, shards=2)
    yield node
    node.log.close()


@pytest.fixture
def reader(node: Node) -> Iterator[HistoryReader]:
    with HistoryReader.open(node.folder) as reader:
        yield reader


def publish(node: Node, *topics: str, settle: bool = True) -> None:
    messages = [
        Message(topic.encode(), b"%d" % number, 1, ClientId(f"client-{number % 5}"), node.clock.wall_us())
        for number, topic in enumerate(topics)
    ]
    node.taken(node.log.write(node.batch(messages)))
    if settle:
        node.settle()


def topics(reader: HistoryReader, levels: tuple[bytes, ...] = (), *, in_order: bool = True) -> list[str]:
    reader.refresh()
    return sorted(
        decode_message(value).message.topic.decode()
        for part in reader.parts()
        for value in reader.start_replay([part], levels, in_order=in_order).records()
    )


@pytest.mark.parametrize("in_order", [True, False])
def test_everything_durable_is_seen(node: Node, reader: HistoryReader, *, in_order: bool) -> None:
    sent = [f"plant/{number % 7}/temp/{number % 3}" for number in range(200)]
    publish(node, *sent)
    assert topics(reader, in_order=in_order) == sorted(sent)
    wanted = sorted(topic for topic in sent if topic.split("/")[1] == "3")
    assert topics(reader, (b"plant", b"3", b"#"), in_order=in_order) == wanted


def test_what_was_written_and_not_synced_is_not_seen(node: Node, reader: HistoryReader) -> None:
    """L20"""
    publish(node, "a", "b")
    publish(node, "c", "d", settle=False)
    assert topics(reader) == ["a", "b"]
    node.settle()
    assert topics(reader) == ["a", "b", "c", "d"]


def test_between_two_refreshes_nothing_changes(node: Node, reader: HistoryReader) -> None:
    publish(node, "a")
    reader.refresh()
    parts = reader.parts()
    publish(node, "b")
    assert reader.parts() == parts
    assert sum(1 for part in parts for _value in reader.start_replay([part]).records()) == 1


def test_generations_made_and_dropped_meanwhile(node: Node, reader: HistoryReader) -> None:
    """L12: what retention dropped is told."""
    publish(node, "a", "b", "c")
    reader.refresh()
    first = reader.parts()
    node.clock.advance(3_600_000_000)
    node.maintenance.rotate(node.zone)
    publish(node, "d")
    assert topics(reader) == ["a", "b", "c", "d"]
    assert [record.number for record in reader.generations("default")] == [1, 2]
    node.settle()
    node.maintenance.drop_oldest(node.zone)
    node.settle()
    assert topics(reader) == ["d"]
    with pytest.raises(PermanentError, match="generation 1 of zone 'default' was dropped by retention"):
        list(reader.start_replay([first[0]]).records())
    lost = [reader.lost(shard, first[0].lo_us, 2**62) for shard in reader.heads()]
    assert sum(item.at_most for item in lost if item is not None) == 3


def test_parts_split_by_time_hold_the_same(node: Node, reader: HistoryReader) -> None:
    for number in range(20):
        node.clock.advance(1_000)
        publish(node, f"t/{number}", f"u/{number}")
    reader.refresh()
    whole = reader.parts()
    pieces = [piece for part in whole for piece in part.split(4)]
    assert len(pieces) == 4 * len(whole)
    assert sum(1 for piece in pieces for _value in reader.start_replay([piece]).records()) == 40


def test_batches_have_the_columns_asked_for(node: Node, reader: HistoryReader) -> None:
    publish(node, *[f"t/{number}" for number in range(50)])
    reader.refresh()
    batches = [batch for part in reader.parts() for batch in reader.batches(part, (), ("topic", "payload"), rows=8)]
    assert {tuple(batch.schema.names) for batch in batches} == {("topic", "payload")}
    assert sorted(name for batch in batches for name in batch.column("topic").to_pylist()) == sorted(
        f"t/{number}" for number in range(50)
    )


def test_large_messages_make_small_batches(node: Node, reader: HistoryReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_replay, "PAGE_BYTES", 100_000)
    messages = [Message(b"t", bytes(10_000), 1, ClientId("c"), node.clock.wall_us()) for _number in range(200)]
    node.taken(node.log.write(node.batch(messages)))
    node.settle()
    reader.refresh()
    sizes = [batch.num_rows for part in reader.parts() for batch in reader.batches(part)]
    assert sum(sizes) == 200
    assert max(sizes) <= 11


@pytest.mark.parametrize("columns", [("topic",), ("topic", "serial")])
def test_a_short_read_is_an_error(node: Node, reader: HistoryReader, columns: tuple[str, ...]) -> None:
    publish(node, *["t"] * 10)
    reader.refresh()
    part = max(reader.parts(), key=lambda part: part.last_serial)
    owed = part._replace(last_serial=part.last_serial + 1)
    with pytest.raises(PermanentError, match="by their serials there are"):
        list(reader.start_replay([owed]).records())
    with pytest.raises(PermanentError, match="by their serials there are"):
        list(reader.batches(owed, (), columns))


def test_a_reader_of_its_own_reads_the_parts_of_another(node: Node, reader: HistoryReader) -> None:
    publish(node, "a", "b", "c")
    reader.refresh()
    with HistoryReader.open(node.folder) as other:
        assert sum(1 for part in reader.parts() for _value in other.start_replay([part]).records()) == 3


def test_a_reader_holds_leases_of_its_own_folder(node: Node, reader: HistoryReader) -> None:
    publish(node, "a")
    reader.refresh()
    done = {shard: head.position_us for shard, head in reader.heads().items()}
    reader.renew("lake", done)
    assert [(lease.name, lease.positions) for lease in read_leases(node.folder)] == [("lake", done)]
    with pytest.raises(PermanentError, match="there is no shard 9"):
        reader.renew("lake", {9: 5})
    assert reader.release("lake")
    assert not reader.release("lake")


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="is no data folder of a broker"):
        HistoryReader.open(tmp_path)


def test_a_zone_that_is_not_there_is_named(reader: HistoryReader) -> None:
    with pytest.raises(PermanentError, match="no zone 'nowhere'; there are default"):
        reader.parts(zone="nowhere")


def test_closing_publishes_what_the_last_sync_covered(node: Node) -> None:
    publish(node, "a", "b", settle=False)
    node.log.close()
    assert sum(head.serial for head in read_heads(node.folder).values()) == 2
    node.open()


def test_parts_know_their_serials() -> None:
    whole = Part("z", 0, 1, 0, 100, 0, 50)
    below, rest = whole.cut(40)
    assert (below.after_serial, below.last_serial, rest.after_serial, rest.last_serial) == (0, -1, -1, 50)
