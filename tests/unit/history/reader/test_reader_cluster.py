"""The history of a node in a cluster, read beside it: every shard as one node would have it (L1, R1)."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.durable.log import NO_END
from holdfast.history.arrow.message_batches import COLUMNS
from holdfast.history.export import Export
from holdfast.history.reader.reader import HistoryReader, Part
from holdfast.history.reader.view import UNKNOWN, BehindError, DroppedError
from holdfast.model.errors import PermanentError
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.storage.rocks.vnodes.vnode_heads import VnodeHeads
from holdfast.topics.filters import levels_match, parse_filter
from tests.unit.history.cluster_folder import NodeFolder, Row, fill
from tests.unit.storage.rocks.vnodes.vnode_world import Node, opened, shard_of

SHARDS = 4
FILTERS: list[tuple[bytes, ...]] = [(), (b"a", b"#"), (b"+", b"3"), (b"b", b"2"), (b"audit", b"+"), (b"none",)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def world(engine: Engine) -> NodeFolder:
    return NodeFolder(engine)


@pytest.fixture
def reader(world: NodeFolder) -> Iterator[HistoryReader]:
    with HistoryReader.open(world.engine.folder) as reader:
        yield reader


def read(
    reader: HistoryReader, parts: list[Part], levels: tuple[bytes, ...] = (), *, in_order: bool = True
) -> list[Row]:
    columns = ("shard", "offset", "serial", "topic", "payload")
    found: list[Row] = []
    for part in parts:
        for batch in reader.batches(part, levels, columns, in_order=in_order):
            found += [tuple(row[name] for name in columns) for row in batch.to_pylist()]
    return found


def matching(rows: list[Row], levels: tuple[bytes, ...]) -> list[Row]:
    return [row for row in rows if not levels or levels_match(levels, row[3].encode().split(b"/"), dollar=False)]


@pytest.mark.parametrize("layout", ["paged", "timeline", "bitmask"])
@pytest.mark.parametrize("in_order", [True, False])
def test_every_filter_finds_in_every_shard_what_was_applied(engine: Engine, layout: str, in_order: bool) -> None:
    world = NodeFolder(engine, layout)
    fill(world)
    middle_us = sorted(row[1] for row in world.rows)[len(world.rows) // 2]
    with HistoryReader.open(engine.folder) as reader:
        assert sorted(reader.heads()) == list(range(SHARDS))
        for levels in FILTERS:
            for since_us, until_us in ((0, NO_END), (middle_us, NO_END), (0, middle_us)):
                parts = reader.parts(since_us, until_us)
                for shard in range(SHARDS):
                    own = [part for part in parts if part.shard == shard]
                    wanted = [row for row in matching(world.of(shard), levels) if since_us <= row[1] < until_us]
                    found = read(reader, own, levels, in_order=in_order)
                    assert (found if in_order else sorted(found)) == wanted
                    assert own == reader.shard_parts(shard, since_us, until_us)


def test_zones_have_the_shards_of_all_vnodes(world: NodeFolder, reader: HistoryReader) -> None:
    fill(world)
    reader.refresh()
    assert reader.is_of_cluster
    zones = {zone.name: zone for zone in reader.zones()}
    assert zones["default"].shards == (shard_of(0), shard_of(1))
    assert zones["audit"].shards == (shard_of(0, "audit"), shard_of(1, "audit"))
    assert (zones["default"].filters, zones["audit"].filters) == ((), ("audit/#",))
    audit = read(reader, reader.parts(zone="audit"))
    assert audit
    assert {row[3].partition("/")[0] for row in audit} == {"audit"}


def test_parts_have_the_serials_at_both_ends_and_do_not_overlap(world: NodeFolder, reader: HistoryReader) -> None:
    fill(world)
    reader.refresh()
    for shard in range(SHARDS):
        parts = reader.shard_parts(shard, 0, NO_END)
        rows = world.of(shard)
        assert parts[0].after_serial == 0
        assert parts[-1].last_serial == rows[-1][2] == reader.heads()[shard].serial
        for one, following in pairwise(parts):
            assert one.hi_us <= following.lo_us
            assert one.last_serial == following.after_serial
        # A reader that divides a part by time meets messages in each piece, not fifty years without any.
        assert rows[0][1] - parts[0].lo_us < 60_000_000


def test_nothing_above_a_head_is_shown_and_heads_follow_a_sync(world: NodeFolder, reader: HistoryReader) -> None:
    """L1."""
    world.apply()
    world.publish()
    world.fill(3)
    publish = world.heads.note()
    world.fill(3)
    reader.refresh()
    assert set(reader.heads().values()) == {Head(0, 0)}
    assert reader.parts() == []
    world.engine.sync_now()
    publish()
    reader.refresh()
    for shard in range(SHARDS):
        rows = world.of(shard)
        head = reader.heads()[shard]
        assert head.serial < len(rows)
        assert read(reader, reader.shard_parts(shard, 0, NO_END)) == rows[: head.serial]
    world.publish()
    reader.refresh()
    assert sorted(read(reader, reader.parts())) == sorted(world.rows)


def test_an_earlier_note_does_not_take_a_head_back(world: NodeFolder, reader: HistoryReader) -> None:
    world.fill(1)
    earlier = world.heads.note()
    world.fill(1)
    world.publish()
    earlier()
    reader.refresh()
    assert sum(head.serial for head in reader.heads().values()) == len(world.rows)


def test_what_retention_dropped_is_told_for_its_shard_alone(world: NodeFolder, reader: HistoryReader) -> None:
    fill(world)
    reader.refresh()
    [*_others, gone] = reader.shard_parts(shard_of(0), 0, NO_END)[:2]
    dropped = [row for row in world.of(shard_of(0)) if row[1] < gone.hi_us]
    world.drop(0, 1)
    world.drop(0, 2)
    world.publish()
    reader.refresh()
    for shard in range(SHARDS):
        head = reader.heads()[shard]
        lost = reader.lost(shard, 1, head.position_us + 1)
        assert (0 if lost is None else lost.at_most) == (len(dropped) if shard == shard_of(0) else 0)
    [left] = reader.shard_parts(shard_of(0), 0, NO_END)
    assert left.after_serial == len(dropped)
    # From the middle of what is gone, at a time at which other shards have generations that go on.
    middle = reader.lost(shard_of(0), dropped[3][1], NO_END)
    assert middle is not None
    assert middle.to_us == left.lo_us
    assert read(reader, [left]) == world.of(shard_of(0))[len(dropped) :]
    with pytest.raises(DroppedError):
        read(reader, [gone])


def test_a_gap_before_an_empty_generation_is_counted(world: NodeFolder, reader: HistoryReader) -> None:
    world.fill(2)
    world.rotate(0, 2)
    world.drop(0, 1)
    world.publish()
    reader.refresh()
    shard = shard_of(0)
    assert reader.shard_parts(shard, 0, NO_END) == []
    lost = reader.lost(shard, 1, NO_END)
    assert lost is not None
    assert lost.at_most == len(world.of(shard))
    before = len(world.of(shard))
    world.fill(1)
    world.publish()
    reader.refresh()
    [part] = reader.shard_parts(shard, 0, NO_END)
    assert part.after_serial == before
    assert read(reader, [part]) == world.of(shard)[before:]


def test_a_message_that_is_missing_is_an_error_and_no_gap(
    world: NodeFolder, reader: HistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(world)
    reader.refresh()
    part = reader.shard_parts(shard_of(1), 0, NO_END)[0]
    monkeypatch.setattr(HistoryReader, "_as_stored", _without_last(HistoryReader._as_stored))
    with pytest.raises(PermanentError, match="run: holdfast verify"):
        list(reader.batches(part))


def _without_last(real: Callable[..., object]) -> Callable[..., object]:
    def read_less(self: HistoryReader, part: Part, levels: tuple[bytes, ...], *, in_order: bool) -> object:
        return real(self, part._replace(hi_us=part.hi_us - 10_000_000), levels, in_order=in_order)

    return read_less


def test_an_export_has_all_of_it_also_by_time(world: NodeFolder, reader: HistoryReader) -> None:
    fill(world)
    reader.refresh()
    for text in ("#", "a/+"):
        wanted = matching(world.rows, parse_filter(text.encode()).levels)
        for by_time in (False, True):
            work = Export(reader, parse_filter(text.encode()), ("shard", "offset", "topic"), 0, NO_END)
            rows = [row for batch in work.batches(by_time=by_time) for row in batch.to_pylist()]
            assert work.share() == pytest.approx(1.0)
            found = [(row["shard"], row["offset"], row["topic"]) for row in rows]
            assert sorted(found) == sorted((row[0], row[1], row[3]) for row in wanted)
            if by_time:
                assert [row["offset"] for row in rows] == sorted(row["offset"] for row in rows)


def test_offsets_of_one_node_continue_at_another(tmp_path: Path) -> None:
    """R1: positions, serials and generations are those of the log."""
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        first = NodeFolder(one)
        fill(first)
        second = NodeFolder(two, logs=first.logs)
        second.apply()
        # Another node has other segments, and none of that is seen.
        second.node.stores.segments.writer(SegmentSize(messages=7, commits=3)).write_all()
        second.publish()
        with HistoryReader.open(one.folder) as here, HistoryReader.open(two.folder) as there:
            assert here.heads() == there.heads()
            assert here.parts() == there.parts()
            for part in here.parts():
                cut_us = (part.lo_us + part.hi_us) // 2
                below, above = part.cut(cut_us)
                assert read(here, [below]) + read(there, [above]) == read(here, [part])
                assert part.last_serial != UNKNOWN


def test_a_node_that_is_installed_again_is_read_again(tmp_path: Path) -> None:
    """Its database has the same names, and was written by another node."""
    folder, other = tmp_path / "one", tmp_path / "two"
    with opened(folder) as engine:
        world = NodeFolder(engine)
        world.fill(8)
        world.node.stores.segments.writer(SegmentSize(messages=8, commits=2)).write_all()
        world.publish()
    with opened(other) as engine:
        longer = NodeFolder(engine, logs=world.logs)
        longer.apply()
        longer.fill(3)
        longer.node.stores.segments.writer(SegmentSize(messages=24, commits=6)).write_all()
    levels = (b"a", b"+")
    with HistoryReader.open(folder) as reader:
        assert sorted(read(reader, reader.parts())) == sorted(world.rows)
        assert sorted(read(reader, reader.parts(), levels)) == sorted(matching(world.rows, levels))
        (folder / "rocks").rename(folder / "replaced")
        (other / "rocks").rename(folder / "rocks")
        (folder / "synced").unlink()
        with opened(folder) as engine:
            VnodeHeads(engine.folder, Node(engine).stores.log).close()
            reader.refresh()
            assert sorted(read(reader, reader.parts())) == sorted(longer.rows)
            assert sorted(read(reader, reader.parts(), levels)) == sorted(matching(longer.rows, levels))


def test_what_another_node_has_shown_and_this_one_does_not_have_yet_is_behind_and_not_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "one") as one, opened(tmp_path / "two") as two:
        ahead = NodeFolder(one)
        ahead.fill(3)
        late = NodeFolder(two, logs=ahead.logs)
        late.apply()
        late.publish()
        ahead.fill(3)
        ahead.publish()
        with HistoryReader.open(one.folder) as here, HistoryReader.open(two.folder) as there:
            for part in here.parts():
                with pytest.raises(BehindError, match="this node of the cluster is behind"):
                    read(there, [part])
                assert there.lost(part.shard, part.lo_us, part.hi_us) is None
            late.apply()
            late.publish()
            there.refresh()
            assert read(there, here.parts()) == read(here, here.parts())


def test_heads_above_the_database_are_not_believed(tmp_path: Path) -> None:
    """A node may have been installed between the two looks of a reader."""
    with opened(tmp_path) as engine:
        world = NodeFolder(engine)
        world.fill(2)
        world.publish()
        with HistoryReader.open(tmp_path) as reader:
            above = {shard: Head(head.position_us + 1_000, head.serial + 3) for shard, head in reader.heads().items()}
            assert reader._catalog.load(above).heads == reader.heads()


def test_all_columns_can_be_read(world: NodeFolder, reader: HistoryReader) -> None:
    fill(world)
    reader.refresh()
    for part in reader.parts():
        for batch in reader.batches(part, (), COLUMNS):
            assert batch.schema.names == list(COLUMNS)
            assert set(batch.column("shard").to_pylist()) == {part.shard}
