"""What an export reads: everything that matches, in order, with a share that is true."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.log import NO_END
from holdfast.history import export
from holdfast.history.export import Export, merge_by_time
from holdfast.history.reader import record_replay
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.record_replay import RecordReplay
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.topics.filters import levels_match, parse_filter
from tests.unit.storage.rocks.log_node import Node

START_US = 1_700_000_000_000_000
COLUMNS = ("payload",)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Two shards, two generations, 600 messages."""
    node = Node(tmp_path / "data", ManualClock(wall_us=START_US), shards=2)
    node.fill(commits=15)
    node.clock.advance(3_600_000_000)
    node.maintenance.rotate(node.zone)
    node.fill(commits=15)
    yield node
    node.log.close()


@pytest.fixture
def reader(node: Node) -> Iterator[HistoryReader]:
    with HistoryReader.open(node.folder) as reader:
        yield reader


def made(reader: HistoryReader, text: str, since_us: int = 0, until_us: int = NO_END) -> Export:
    return Export(reader, parse_filter(text.encode()), ("topic", "offset", "shard"), since_us, until_us)


def rows(work: Export, *, by_time: bool = False) -> list[tuple[str, int, int]]:
    found = [row for batch in work.batches(by_time=by_time) for row in batch.to_pylist()]
    return [(row["topic"], row["offset"], row["shard"]) for row in found]


def stored(reader: HistoryReader) -> list[tuple[str, int, int]]:
    """All that there is, read without an export."""
    columns = ("topic", "offset", "shard")
    return [
        (row["topic"], row["offset"], row["shard"])
        for part in reader.parts()
        for batch in reader.batches(part, (), columns)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("text", ["#", "plant/#", "plant/+/temp", "plant/7/temp", "$events/#", "nothing"])
def test_what_matches_is_there_once_and_in_order(reader: HistoryReader, text: str, *, by_time: bool) -> None:
    """L6: `#` leaves `$`-topics out, as everywhere."""
    levels = parse_filter(text.encode()).levels
    wanted = [
        row
        for row in stored(reader)
        if levels_match(levels, row[0].encode().split(b"/"), dollar=row[0].startswith("$"))
    ]
    assert wanted or text == "nothing"
    work = made(reader, text)
    got = rows(work, by_time=by_time)
    assert sorted(got) == sorted(wanted)
    if by_time:
        assert [row[1:] for row in got] == sorted(row[1:] for row in got)
    for shard in (0, 1):
        positions = [row[1] for row in got if row[2] == shard]
        assert positions == sorted(positions)
    assert work.messages == len(wanted)
    assert work.share() == pytest.approx(1.0)
    if wanted:
        assert (work.first_us, work.last_us) == (min(row[1] for row in wanted), max(row[1] for row in wanted))


def test_since_is_included_and_until_is_not(reader: HistoryReader) -> None:
    everything = sorted(row[1:] for row in stored(reader) if not row[0].startswith("$"))
    (since_us, _), (until_us, _) = everything[100], everything[400]
    work = made(reader, "#", since_us, until_us)
    assert sorted(row[1:] for row in rows(work)) == [row for row in everything if since_us <= row[0] < until_us]
    assert work.share() == pytest.approx(1.0)


def test_the_share_grows_also_where_nothing_matches(reader: HistoryReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_SLICE_MESSAGES", 20)
    seen: list[float | None] = []
    start_replay = reader.start_replay

    def watched(*arguments: object, **options: object) -> RecordReplay:
        seen.append(work.share())
        return start_replay(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "start_replay", watched)
    work = made(reader, "nothing")
    assert rows(work) == []
    assert len(seen) > 20
    assert seen == sorted(seen)  # type: ignore[type-var]
    assert seen[0] == 0.0


def test_the_share_of_everything_counts_messages(reader: HistoryReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_BATCH_ROWS", 50)
    work = made(reader, "#")
    looked_at: list[float | None] = [work.share() for _batch in work.batches(by_time=False)]
    assert looked_at[0] == pytest.approx(50 / 600)
    assert looked_at == sorted(looked_at)  # type: ignore[type-var]


def test_batches_are_bounded_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Payloads of a megabyte make small batches, which end with the message that reaches the bound."""
    monkeypatch.setattr(record_replay, "PAGE_BYTES", 1000)
    node = Node(tmp_path / "data", ManualClock(wall_us=START_US), shards=1)
    messages = [Message(b"a", bytes(400), 1, ClientId("c"), START_US) for _number in range(10)]
    node.taken(node.log.write(node.batch(messages)))
    node.settle()
    with HistoryReader.open(node.folder) as reader:
        sizes = [batch.num_rows for batch in made(reader, "a").batches(by_time=False)]
    node.log.close()
    assert sizes == [3, 3, 3, 1]


def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    node = Node(tmp_path / "data", ManualClock(wall_us=START_US), shards=2)
    node.settle()
    with HistoryReader.open(node.folder) as reader:
        for by_time in (True, False):
            work = made(reader, "#")
            assert rows(work, by_time=by_time) == []
            assert work.share() in (None, 1.0)
    node.log.close()


@st.composite
def streams(draw: st.DrawFn) -> list[list[list[int]]]:
    """For each shard its positions, cut into batches."""
    made: list[list[list[int]]] = []
    for _shard in range(draw(st.integers(0, 4))):
        positions = sorted(draw(st.sets(st.integers(1, 60), max_size=30)))
        cuts = sorted(draw(st.sets(st.integers(1, max(1, len(positions) - 1)), max_size=5)))
        pieces = [positions[i:j] for i, j in zip([0, *cuts], [*cuts, len(positions)], strict=True)]
        made.append([piece for piece in pieces if piece])
    return made


def batches(shard: int, pieces: list[list[int]]) -> Iterator[Any]:
    for piece in pieces:
        yield pa.record_batch(
            {"offset": pa.array(piece, pa.int64()), "shard": pa.array([shard] * len(piece), pa.uint16())}
        )


@given(streams())
def test_everything_comes_once_and_in_order(made: list[list[list[int]]]) -> None:
    merged = merge_by_time([batches(shard, pieces) for shard, pieces in enumerate(made)])
    got = [(row["offset"], row["shard"]) for batch in merged for row in batch.to_pylist()]
    assert got == sorted(
        (position, shard) for shard, pieces in enumerate(made) for piece in pieces for position in piece
    )


def test_a_stream_is_not_read_further_than_needed() -> None:
    """Memory is a batch for each stream: the second batch of one waits until the first is used up."""
    read: list[int] = []

    def counted() -> Iterator[Any]:
        for number in range(3):
            read.append(number)
            yield from batches(0, [[number * 10 + 5]])

    merged = merge_by_time([counted(), batches(1, [[1, 2, 3], [4]])])
    next(merged)
    assert read == [0]
