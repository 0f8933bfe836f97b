"""Segments that are being made when something goes wrong: a repair, a full disk, a sync that fails or takes long.

A segment is written as slices of pages and one last batch (`log/segment_writer.py`). Before that batch its messages are
in commit pages, after it in the segment: at every step all of them are read once, and `verify` finds nothing wrong.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.durable.log import NO_END
from holdfast.durable.zones import Zone
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError, PoisonedError
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import DiskFullError
from holdfast.storage.rocks.engine.family_handles import FamilyHandles
from holdfast.storage.rocks.engine.loop_sync import LoopSyncRule
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, read_mark
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.crash.disks import FragileDisk, SmallDisk
from tests.crash.test_damage import manifest, tables
from tests.unit.storage.rocks.layouts.test_paged import contents, fill
from tests.unit.storage.rocks.log.store import Store, places
from tests.unit.storage.rocks.log.test_segment_writer import (
    FAMILY,
    SHARD,
    SMALL,
    Steps,
    assert_sound,
    commit_pages,
    history_places,
    wide,
)

pytestmark = pytest.mark.slow

MB = 1 << 20
PAGED = Zone("default", layout="paged", store_qos0=True)
#: Batches of the segment that `wide` makes: its pages, one at a time, and the last one.
BATCHES = 8


def begin_segment(store: Store, batches: int, *, synced: bool = True) -> Steps:
    """A segment of which so many batches are stored; -1 for all. What it is made of is on disk in any case."""
    wide(store)
    fill(store, [3, 4])
    steps = Steps(store)
    todo = list(steps.batches())
    assert len(todo) == BATCHES
    for batch in todo[:batches] if batches >= 0 else todo:
        batch()
    if synced:
        store.engine.sync_now()
    return steps


def killed(store: Store, folder: Path) -> Path:
    """The data folder as kill -9 leaves it now."""
    shutil.copytree(store.folder, folder)
    return folder


def assert_whole(folder: Path, store: Store) -> None:
    """Another node on the folder has everything that was acknowledged, makes the segment, and verifies."""
    other = Store(folder, default=PAGED)
    other.written = store.written
    assert contents(other.read()) == contents(store.written)
    assert contents(other.read("plant/7/#")) == contents(store.expected("plant/7/#"))
    assert_sound(other, len(store.written))
    SegmentWriter(other.log, SMALL).write_all()
    assert commit_pages(other) == 2, "those behind the segment"
    other.reopen()
    assert contents(other.read()) == contents(store.written)
    assert_sound(other, len(store.written))
    other.close()


@pytest.fixture
def paged(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "live", default=PAGED)
    yield store
    store.close()


# Repair


@pytest.mark.parametrize("flushed", [False, True], ids=["in the WAL", "in tables"])
@pytest.mark.parametrize("batches", [1, 4, BATCHES - 1, BATCHES])
def test_a_repair_keeps_all_messages_of_a_segment_that_is_being_made(
    paged: Store, tmp_path: Path, batches: int, *, flushed: bool
) -> None:
    """L21: the repair knows the family of segments by its first table, which has nothing of the segment yet."""
    begin_segment(paged, batches)
    if flushed:
        paged.engine.flush()
        paged.log.close()  # no table is compacted while it is copied
    folder = killed(paged, tmp_path / "killed")
    if flushed:
        paged._open()
    manifest(folder).unlink()
    engine = Engine.open(folder, reserve_bytes=0)
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert FAMILY in engine.families()
    engine.close()
    assert_whole(folder, paged)


def test_a_repair_before_the_first_table_of_segments_loses_nothing(
    paged: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L21: a crash after the family was made and before its table is there. The MANIFEST alone has its name."""
    copies: list[Path] = []
    anchor = FamilyHandles._anchor

    def crashed_here(handles: FamilyHandles, name: str) -> None:
        if name == FAMILY:
            copies.append(killed(paged, tmp_path / "killed"))
        anchor(handles, name)

    with monkeypatch.context() as patch:
        patch.setattr(FamilyHandles, "_anchor", crashed_here)
        begin_segment(paged, 1)
    (folder,) = copies
    shutil.copytree(folder, tmp_path / "intact")
    manifest(folder).unlink()
    engine = Engine.open(folder, reserve_bytes=0)
    assert [damage.kind for damage in engine.damage] == ["repaired"]
    assert FAMILY not in engine.families(), "nothing leads to it, and nothing was in it"
    engine.close()
    assert_whole(folder, paged)
    assert_whole(tmp_path / "intact", paged)


def test_a_repair_that_gives_up_a_table_of_segments_is_reported(paged: Store, tmp_path: Path) -> None:
    """L21: never shorter in silence. `verify` names the segment, a reader fails, and what is behind it is read."""
    steps = begin_segment(paged, -1)
    paged.engine.flush()  # else the WAL has it, too
    paged.engine.family(FAMILY).compact_range(None, None)  # so that one table is all there is of it
    paged.log.close()
    folder = killed(paged, tmp_path / "killed")
    paged._open()
    table = tables(folder)[-1]
    assert table.stat().st_size > 420 * 900, "the one with the pages: flushed commit pages were deleted before"
    table.unlink()
    engine = Engine.open(folder, reserve_bytes=0)
    (damage,) = engine.damage
    assert damage.kind == "repaired"
    assert table.name in str(damage)
    engine.close()
    report = verify_folder(folder)
    (problem,) = report.problems
    assert problem.what == f"messages up to {steps.stretch.last_us} are in {FAMILY}, which is missing"
    assert report.messages == 7
    other = Store(folder, default=PAGED)
    with pytest.raises(PermanentError, match=f"{FAMILY} is missing"):
        other.read()
    behind_us = steps.stretch.last_us + 1
    assert contents(other.read("#", behind_us)) == contents(paged.expected("#", behind_us))
    other.close()


# A power loss


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[FragileDisk]:
    disk = FragileDisk(tmp_path)
    yield disk
    disk.close()


@pytest.mark.parametrize("then", ["synced", "not synced", "tables of the shard", "tables of the segments"])
@pytest.mark.parametrize("batches", [1, 4, BATCHES - 1, BATCHES])
def test_a_power_loss_between_any_two_batches_of_a_segment_loses_nothing(
    fragile: FragileDisk, batches: int, then: str
) -> None:
    """L20: whether the disk has its batches or not, and if RocksDB has made tables of one of its two families alone."""
    store = Store(fragile.folder / "data", default=PAGED)
    begin_segment(store, batches, synced=then == "synced")
    if then.startswith("tables"):
        # As RocksDB does by itself when memory is full. The WAL of the other family has to be synced with it.
        store.engine.family(SHARD if then.endswith("shard") else FAMILY).flush()
    fragile.cut_power()
    with suppress(PoisonedError):
        store.close()
    fragile.restart()
    engine = Engine.open(fragile.folder / "data", reserve_bytes=0)
    assert engine.damage == [], "what was not synced is not missed"
    engine.close()
    assert_whole(fragile.folder / "data", store)


# A full disk


@pytest.mark.parametrize("stored", [0, 1, 4, BATCHES - 1])
def test_a_segment_waits_for_room_and_is_made_when_it_is_there(tmp_path: Path, stored: int) -> None:
    """L20: RocksDB itself meets the full disk, at each step of a segment. Its batches wait in order, behind what
    clients publish; the database is opened again, and everything follows.
    """
    disk = SmallDisk(tmp_path / "small", 48 * MB)
    try:
        store = Store(disk.folder / "data", default=PAGED)
        wide(store)
        steps = Steps(store)
        batches = list(steps.batches())
        for batch in batches[:stored]:
            batch()
        store.engine.sync_now()
        acknowledged = list(store.written)
        ballast = disk.fill(leave_bytes=MB // 2)
        assert store.write(store.message("plant/7/late", payload=bytes(MB))) is None, "larger than what is left"
        if not stored:
            with pytest.raises(DiskFullError):
                batches[0]()  # its family is the first thing to be made
            assert not steps.stretch.stored
        for batch in batches[stored or len(batches) :]:
            batch()
        assert isinstance(store.log.obstacle, DiskFullError)
        assert store.log.waits_for(FAMILY) == (stored > 0)
        assert store.write(store.message("plant/7/last")) is None
        assert contents(store.read()) == contents(acknowledged), "reading goes on"
        ballast.unlink()
        store.log.retry()
        store.settle()
        assert store.log.idle()
        if not stored:
            SegmentWriter(store.log, SMALL).write_all()
        assert read_mark(store.engine.family(SHARD)) == acknowledged[-1].position_us
        assert commit_pages(store) == 2
        assert places(store.read()) == places(store.written)
        store.reopen()
        assert places(store.read()) == places(store.written)
        assert_sound(store, len(store.written))
        store.close()
    finally:
        disk.close()


def test_a_node_that_is_killed_while_a_segment_waits_for_room_has_all_messages(tmp_path: Path) -> None:
    """L20, L21: the last batch never came to the disk; commit pages are there."""
    disk = SmallDisk(tmp_path / "small", 48 * MB)
    try:
        store = Store(disk.folder / "data", default=PAGED)
        wide(store)
        fill(store, [3, 4])
        steps = Steps(store)
        batches = list(steps.batches())
        for batch in batches[:3]:
            batch()
        store.engine.sync_now()
        disk.fill(leave_bytes=MB // 2)
        store.write(store.message("plant/7/late", payload=bytes(MB)))
        store.written.pop()  # never acknowledged
        for batch in batches[3:]:
            batch()
        assert not store.log.idle()
        folder = tmp_path / "killed"
        shutil.copytree(store.folder, folder)
        assert_whole(folder, store)
        store.close()
    finally:
        disk.close()


# Syncs


class TestRule(LoopSyncRule):
    """A rule that hears of the durations that the test says."""

    __test__ = False
    took_s = 0.0

    def synced_on_loop(self, took_s: float, now_s: float) -> None:
        super().synced_on_loop(self.took_s, now_s)

    def synced_on_thread(self, took_s: float, now_s: float) -> None:
        super().synced_on_thread(0.0, now_s)


@pytest.fixture
def rule(monkeypatch: pytest.MonkeyPatch) -> TestRule:
    """Small commits are synced on the loop, however slow this machine's disk is."""
    rule = TestRule()
    open_engine = Engine.open
    monkeypatch.setattr(Engine, "open", lambda folder, **how: open_engine(folder, **how, loop_sync=rule))
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 1e6)
    monkeypatch.setattr("holdfast.storage.rocks.engine.engine._writes_tables", lambda _database: False)
    return rule


def wait_until_idle(engine: Engine) -> None:
    for _look in range(30_000):
        if engine._commit.is_idle():
            return
        threading.Event().wait(0.001)
    pytest.fail("the commit thread does not come to rest")


@pytest.mark.parametrize("stored", [1, 4, BATCHES - 1])
def test_after_a_failed_sync_on_the_loop_nothing_of_a_segment_is_written(
    rule: TestRule, tmp_path: Path, stored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L20: what the disk has is unknown, so no commit page is deleted any more."""
    store = Store(tmp_path / "live", default=PAGED)
    steps = begin_segment(store, stored)
    acknowledged = list(store.written)
    wait_until_idle(store.engine)

    def fails(_database: object) -> bool:
        raise OSError("the disk has gone")

    on_loop = rule.counts.on_loop
    with monkeypatch.context() as patch:
        patch.setattr(store.engine, "_sync_wal", fails)
        assert store.write(store.message("plant/7/late")) is None, "no receipt"
    assert rule.counts.on_loop == on_loop
    assert str(store.engine.poison) == "the disk has gone"
    with pytest.raises(PoisonedError):
        list(steps.batches())[stored]()
    assert read_mark(store.engine.family(SHARD)) == NOTHING_INDEXED
    assert contents(store.read()) == contents(acknowledged), "the head has not moved"
    late = store.written.pop()
    folder = killed(store, tmp_path / "killed")
    store.close()
    other = Store(folder, default=PAGED)
    found = other.read()
    assert contents(found[: len(acknowledged)]) == contents(acknowledged)
    assert places(found[len(acknowledged) :]) in ([], places([late])), "without a receipt it may be there or not"
    assert_sound(other, len(found))
    other.close()


def test_a_sync_of_a_second_on_the_loop_sends_commits_to_the_thread_and_the_segment_is_made(
    rule: TestRule, tmp_path: Path
) -> None:
    store = Store(tmp_path / "live", default=PAGED)
    wide(store)
    steps = Steps(store)
    wait_until_idle(store.engine)
    rule.took_s = 1.0
    for number, batch in enumerate(steps.batches()):
        batch()
        receipt = store.write(store.message("plant/7/late"))
        assert (receipt is not None) == (number == 0), "the first one, which was slow, is the last one on the loop"
    store.settle()
    assert rule.counts.on_loop == 1
    assert read_mark(store.engine.family(SHARD)) == steps.stretch.last_us
    store.reopen()
    assert places(store.read()) == places(store.written)
    assert_sound(store, len(store.written))
    store.close()


def test_a_segment_is_made_while_the_commit_thread_waits_for_the_disk(
    paged: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L20: the sync is held back from before the first page until behind the last batch. Nothing of the segment waits
    for it, and no receipt comes before it.
    """
    wide(paged)
    steps = Steps(paged)
    entered, go_on = threading.Event(), threading.Event()
    sync = paged.engine._sync_wal

    def held(database: object) -> bool:
        entered.set()
        assert go_on.wait(60)
        return sync(database)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(paged.engine, "_sync_wal", held)
        assert paged.write(paged.message("plant/7/late")) is None
        assert entered.wait(60)
        for batch in steps.batches():
            batch()
            assert contents(paged.read()) == contents(paged.written[:420])
        assert read_mark(paged.engine.family(SHARD)) == steps.stretch.last_us
        assert len(paged.receipts) == 1
        folder = killed(paged, tmp_path / "killed")
        go_on.set()
        paged.settle()
    assert contents(paged.read()) == contents(paged.written)
    other = Store(folder, default=PAGED)
    assert contents(other.read()) == contents(paged.written), "killed while it waited"
    assert_sound(other, 421)
    other.close()


def test_messages_without_a_receipt_are_not_shown_though_they_are_in_a_segment(
    paged: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L20: a segment takes what is written while the disk is slow. Readers end at the durable head, inside of it."""
    wide(paged)
    entered, go_on = threading.Event(), threading.Event()
    sync = paged.engine._sync_wal

    def held(database: object) -> bool:
        entered.set()
        assert go_on.wait(60)
        return sync(database)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(paged.engine, "_sync_wal", held)
        assert paged.write(*[paged.message(f"plant/{number}/late") for number in range(20)]) is None
        assert entered.wait(60)
        steps = Steps(paged, SegmentSize(messages=440))
        for batch in steps.batches():
            batch()
        assert read_mark(paged.engine.family(SHARD)) == paged.written[-1].position_us, "they are in the segment"
        (shard,) = paged.zone_log().shards.values()
        shard.ring.evicted_us = shard.position_us  # nothing is read from memory
        assert contents(paged.read()) == contents(paged.written[:420])
        assert paged.read("plant/+/late") == []
        assert places(paged.reader.scan(0, (), 0).next(1_000, NO_END)) == places(paged.written[:420])
        reader = HistoryReader(paged.folder)
        try:
            assert history_places(reader, in_order=True) == places(paged.written[:420])
            assert history_places(reader, in_order=False) == places(paged.written[:420])
        finally:
            reader.close()
        folder = killed(paged, tmp_path / "killed")
        go_on.set()
        paged.settle()
    assert contents(paged.read()) == contents(paged.written)
    other = Store(folder, default=PAGED)
    assert contents(other.read()) == contents(paged.written), "a start syncs what a killed process has left"
    assert_sound(other, 440)
    other.close()


# A secondary


@pytest.mark.parametrize("batches", [1, 4, BATCHES - 1, BATCHES])
def test_history_that_is_opened_while_a_segment_is_made_reads_each_message_once(paged: Store, batches: int) -> None:
    """L4: it may be opened between any two batches, and reads on through those that follow."""
    steps = begin_segment(paged, batches)
    reader = HistoryReader(paged.folder)
    try:
        begun = reader.start_replay(reader.parts(0, 2**62))
        early = begun.next(10).messages
        assert history_places(reader, in_order=True) == places(paged.written)
        assert history_places(reader, in_order=False) == places(paged.written)
        for batch in list(steps.batches())[batches:]:
            batch()
        fill(paged, [2])
        assert history_places(reader, in_order=True) == places(paged.written[:-2]), "it keeps the state it has"
        reader.refresh()
        assert history_places(reader, in_order=True) == places(paged.written)
        assert len(early) + len(list(begun.records())) == len(paged.written) - 2
    finally:
        reader.close()
