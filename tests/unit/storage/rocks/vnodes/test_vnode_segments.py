"""Segments of vnodes: readers find the same, rows stay as they are, generations take them along."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.model.errors import PermanentError, TransientError
from holdfast.records.cluster.items import Border, DropGeneration
from holdfast.records.generations import family_name, segments_name
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.paged import SegmentSize
from tests.conformance.state_stores import rows
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, Node, log_families, opened, shard_of

SMALL = SegmentSize(messages=20, commits=10)
FILTERS: list[tuple[bytes, ...]] = [(), (b"a", b"#"), (b"+", b"3"), (b"a", b"3"), (b"none",)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with opened(tmp_path) as engine:
        yield engine


@pytest.fixture
def node(engine: Engine) -> Node:
    return Node(engine)


def filled_logs(records: int = 12) -> Logs:
    logs = Logs()
    for number in range(records * VNODES):
        logs.write(number % VNODES, *[message(b"%c/%d" % (b"ab"[one % 2], one), b"%d" % number) for one in range(5)])
    return logs


def found(node: Node) -> object:
    heads = node.stores.log.heads()
    return [
        {shard: [(one.position_us, one) for one in some] for shard, some in node.replay(levels, since_us).items()}
        for levels in FILTERS
        for since_us in (1, heads[0] - 7_000_000, heads[2])
    ]


def commit_pages(engine: Engine, shard: int) -> int:
    return len(page_keys(engine, shard))


def page_keys(engine: Engine, shard: int) -> list[bytes]:
    return [key for key, _value in scan_items(engine.family(family_name(shard, 1)), MESSAGES, POSTINGS)]


def test_readers_find_the_same_in_segments_and_rows_do_not_change(engine: Engine, node: Node) -> None:
    logs = filled_logs()
    outcomes = node.catch_up(logs)
    before, tables = found(node), [rows(vnode) for vnode in node.stores.vnodes.values()]
    made = node.stores.segments.writer(SMALL).write_all()
    assert made >= 2
    assert commit_pages(engine, shard_of(0)) < 12
    for at in (node, node.restarted()):
        assert found(at) == before
        assert [rows(vnode) for vnode in at.stores.vnodes.values()] == tables
        for published in [one.message for outcome in outcomes for one in outcome.published]:
            assert at.stores.log.at(published.shard, (), published.position_us) == published


def test_a_restart_knows_what_waits_for_segments(engine: Engine, node: Node) -> None:
    node.catch_up(filled_logs())
    again = node.restarted()
    assert again.stores.segments.writer(SMALL).write_all() >= 2
    assert commit_pages(engine, shard_of(0)) < 12


def test_a_sealed_generation_becomes_segments_to_its_end_and_they_go_with_it(engine: Engine, node: Node) -> None:
    logs = filled_logs(2)
    logs.write(0, Border("default", 2, "paged", {}), message(b"a/3", b"behind"))
    node.catch_up(logs)
    before = found(node)
    node.stores.segments.writer(SMALL).write_all()
    assert segments_name(0, 1) in engine.families()
    assert commit_pages(engine, 0) == 0
    assert found(node) == found(node.restarted()) == before
    logs.write(0, DropGeneration("default", 1))
    node.catch_up(logs)
    assert segments_name(0, 1) not in engine.families()
    assert family_name(0, 1) not in engine.families()
    for at in (node, node.restarted()):
        assert [one.payload for one in at.replay()[0]] == [b"behind"]


def test_a_batch_without_room_is_written_later_and_that_of_a_dropped_generation_never(
    engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = filled_logs(1)
    logs.write(0, Border("default", 2, "paged", {}))
    node.catch_up(logs)
    segments = node.stores.segments
    kept, dropped = Changes(), Changes()
    kept.into(family_name(2, 1)).put(b"\x00kept", b"")
    dropped.into(family_name(0, 1)).put(b"\x00gone", b"")
    with monkeypatch.context() as full:
        full.setattr(engine, "_reserve_bytes", 2**62)
        for changes in (dropped, kept):
            segments.write_own(changes)
        assert not segments.idle()
    logs.write(0, DropGeneration("default", 1))
    node.catch_up(logs)
    segments.retry()
    assert segments.idle()
    assert engine.family(family_name(2, 1)).get(b"\x00kept") == b""
    assert family_name(0, 1) not in engine.families()


def test_segments_wait_while_a_record_does(engine: Engine, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = filled_logs(1)
    node.catch_up(logs)
    logs.write(0, message())
    with monkeypatch.context() as full:
        full.setattr(engine, "_reserve_bytes", 2**62)
        with pytest.raises(TransientError, match="in reserve"):
            node.catch_up(logs)
    assert not node.stores.segments.idle()
    node.stores.vnodes[0].retry()
    assert node.stores.segments.idle()


def test_a_damaged_commit_page_stays_and_its_readers_are_told(engine: Engine, node: Node) -> None:
    node.catch_up(filled_logs(3))
    name = family_name(0, 1)
    key = page_keys(engine, 0)[1]
    changes = Changes()
    changes.into(name).put(key, b"\x01damaged")
    engine.write(engine.written + 1, changes)
    again = node.restarted()
    tables = [rows(vnode) for vnode in again.stores.vnodes.values()]
    assert again.stores.segments.writer(SegmentSize(messages=1, commits=1)).write_all() >= 1
    assert engine.family(name).get(key) == b"\x01damaged"
    for at in (again, again.restarted()):
        with pytest.raises(PermanentError):
            at.replay()
        assert [rows(vnode) for vnode in at.stores.vnodes.values()] == tables
    assert name in log_families(engine)
