"""Which commits are synced on the event loop, and what happens to their receipts (L20)."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.loop_sync import MAX_CHANGES, MAX_UNSYNCED_BYTES, SLOW_S, LoopSyncRule
from tests.crash.batches import FAMILY, batch, stored

QUICK_S = SLOW_S / 10


# The rule


def test_small_commits_are_synced_on_the_loop() -> None:
    rule = LoopSyncRule()
    assert rule.allows(MAX_CHANGES, MAX_UNSYNCED_BYTES, 0.0)
    assert not rule.allows(MAX_CHANGES + 1, 0, 0.0)
    assert not rule.allows(1, MAX_UNSYNCED_BYTES + 1, 0.0)


def test_it_can_be_switched_off() -> None:
    assert not LoopSyncRule(enabled=False).allows(1, 0, 0.0)


def test_a_slow_sync_sends_all_to_the_commit_thread_for_a_minute() -> None:
    for slow in (LoopSyncRule.synced_on_loop, LoopSyncRule.synced_on_thread):
        rule = LoopSyncRule()
        slow(rule, SLOW_S, 100.0)
        assert not rule.allows(1, 0, 159.9)
        assert rule.allows(1, 0, 160.0)


def test_syncs_are_counted_with_their_time_on_whichever_thread() -> None:
    rule = LoopSyncRule()
    rule.synced_on_loop(0.25, 1.0)
    rule.synced_on_thread(0.5, 2.0)
    assert rule.counts.seconds.sum == 0.75
    assert sum(rule.counts.seconds.counts) == 2


def test_quick_syncs_change_nothing() -> None:
    rule = LoopSyncRule()
    rule.synced_on_loop(QUICK_S, 1.0)
    rule.synced_on_thread(QUICK_S, 2.0)
    assert rule.allows(1, 0, 2.0)


def test_the_second_slow_sync_of_an_hour_on_the_loop_is_the_last_one() -> None:
    rule = LoopSyncRule()
    rule.synced_on_loop(SLOW_S, 100.0)
    rule.synced_on_loop(SLOW_S, 3_600.0)
    assert not rule.allows(1, 0, 1e9)


def test_slow_syncs_on_the_loop_more_than_an_hour_apart_are_forgiven() -> None:
    rule = LoopSyncRule()
    rule.synced_on_loop(SLOW_S, 100.0)
    rule.synced_on_loop(SLOW_S, 3_701.0)
    assert rule.allows(1, 0, 3_761.0)


def test_slow_syncs_of_the_commit_thread_never_switch_it_off() -> None:
    rule = LoopSyncRule()
    for number in range(100):
        rule.synced_on_thread(SLOW_S, float(number))
    assert rule.allows(1, 0, 1_000.0)


def test_both_kinds_are_counted() -> None:
    rule = LoopSyncRule()
    rule.synced_on_loop(0.001, 1.0)
    rule.synced_on_loop(0.0005, 1.0)
    rule.synced_on_thread(0.5, 1.0)
    assert (rule.counts.on_loop, rule.counts.on_thread, rule.counts.longest_on_loop_us) == (2, 1, 1000)


# The engine


class PatientRule(LoopSyncRule):
    """However slow this machine's disk is."""

    def synced_on_loop(self, took_s: float, now_s: float) -> None:
        super().synced_on_loop(0.0, now_s)

    def synced_on_thread(self, took_s: float, now_s: float) -> None:
        super().synced_on_thread(0.0, now_s)


def wait_until_idle(engine: Engine) -> None:
    """A receipt may be there a moment before the commit thread is done with it."""
    for _look in range(30_000):
        if engine._commit.is_idle():
            return
        threading.Event().wait(0.001)
    pytest.fail("the commit thread does not come to rest")


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit thread holds the engine's lock while it settles the mark."""
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 1e6)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(tmp_path / "data", reserve_bytes=0, loop_sync=PatientRule())
    engine.create_family(FAMILY)
    yield engine
    engine.close()


def test_a_commit_that_is_synced_on_the_loop_is_on_disk_and_noted(engine: Engine) -> None:
    told: list[int] = []
    engine.on_synced(told.append)
    engine.write(1, batch(1))
    assert engine.sync_on_loop(1)
    assert engine.synced == 1
    assert told == [], "its owner knows already"
    assert engine._mark.last is not None
    assert engine._mark.last.batch == 1
    assert engine.sync_counts.on_loop == 1
    assert engine.sync_counts.on_thread == 0
    engine.sync_now()
    assert engine.sync_counts.on_thread == 0, "nothing is synced twice"


def test_a_killed_engine_opens_without_damage_after_a_sync_on_the_loop(tmp_path: Path, engine: Engine) -> None:
    engine.write(1, batch(1))
    assert engine.sync_on_loop(1)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "copy" / "rocks" / "LOCK").unlink()
    reopened = Engine.open(tmp_path / "copy", reserve_bytes=0)
    assert stored(reopened) == [1]
    assert reopened.damage == []
    reopened.close()


def test_large_commits_go_to_the_commit_thread(engine: Engine) -> None:
    engine.write(1, batch(1))
    assert not engine.sync_on_loop(MAX_CHANGES + 1)
    assert engine.synced == 0


def test_much_that_is_not_synced_goes_to_the_commit_thread(engine: Engine) -> None:
    engine.write(1, batch(1, MAX_UNSYNCED_BYTES))
    engine.write(2, batch(2))
    assert not engine.sync_on_loop(1)
    engine.sync_now()
    wait_until_idle(engine)
    engine.write(3, batch(3))
    assert engine.sync_on_loop(1)


def test_nothing_is_synced_on_the_loop_while_rocksdb_makes_tables(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync beside a flush or a compaction waits for its writes."""
    database = engine._database
    assert database is not None
    running = {"rocksdb.num-running-flushes": 0, "rocksdb.num-running-compactions": 0}
    assert {name: database.property_int_value(name) for name in running} == running, "RocksDB knows these names"

    class Busy:
        def property_int_value(self, name: str) -> int:
            return running[name]

    engine.write(1, batch(1))
    for name in running:
        running[name] = 1
        with monkeypatch.context() as patch:
            patch.setattr(engine, "_database", Busy())
            assert not engine.sync_on_loop(1)
        running[name] = 0
    assert (engine.synced, engine.sync_counts.on_loop) == (0, 0)
    assert engine.sync_on_loop(1)


def test_nothing_is_synced_on_the_loop_while_the_mark_is_settled(engine: Engine) -> None:
    """The commit thread holds the lock then, for as long as the disk takes: the loop does not wait for it."""
    engine.write(1, batch(1))
    with engine._in_use:
        assert not engine.sync_on_loop(1)
    assert engine.synced == 0
    assert engine.sync_on_loop(1)


def test_nothing_is_synced_on_the_loop_while_the_commit_thread_has_work(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L20: the commit thread holds a sync; the loop neither waits for it nor overtakes it."""
    entered, go_on = threading.Event(), threading.Event()
    sync = engine._sync_wal

    def held(database: object) -> bool:
        entered.set()
        assert go_on.wait(30)
        return sync(database)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_sync_wal", held)
        engine.write(1, batch(1))
        engine.request_sync()
        assert entered.wait(30)
        engine.write(2, batch(2))
        assert not engine.sync_on_loop(1)
        assert engine.synced == 0
        engine.request_sync()
        go_on.set()
        assert engine._commit.wait_for(2, 30)
    engine.write(3, batch(3))
    engine.sync_now()
    assert engine.synced == 3


def test_a_request_that_comes_while_the_loop_syncs_gives_no_second_receipt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread asks for a sync in the middle of one on the loop: the commit thread waits, and finds it done."""
    told: list[int] = []
    engine.on_synced(told.append)
    sync = engine._sync_wal

    def asked_meanwhile(database: object) -> bool:
        engine.request_sync()
        return sync(database)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_sync_wal", asked_meanwhile)
        engine.write(1, batch(1))
        assert engine.sync_on_loop(1)
    engine.write(2, batch(2))
    engine.sync_now()
    assert told == [2], "batch 1 had its receipt"
    assert engine.synced == 2


def test_no_receipt_follows_a_failed_sync_of_the_loop(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """L20: the commit thread was asked meanwhile, waits for the lock, and its second sync would succeed."""
    told: list[int] = []
    engine.on_synced(told.append)
    sync = engine._sync_wal
    calls: list[int] = []

    def first_fails(database: object) -> bool:
        calls.append(1)
        if len(calls) > 1:
            return sync(database)  # type: ignore[arg-type]
        engine.request_sync()
        while engine._commit._asked:
            threading.Event().wait(0.001)
        raise OSError("the disk has gone")

    monkeypatch.setattr(engine, "_sync_wal", first_fails)
    engine.write(1, batch(1))
    assert not engine.sync_on_loop(1)
    wait_until_idle(engine)
    assert (told, engine.synced, str(engine.poison)) == ([], 0, "the disk has gone")


def test_the_loop_does_not_sync_after_a_failed_sync_of_the_thread(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_database: object) -> bool:
        raise OSError("the disk has gone")

    engine.write(1, batch(1))
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_sync_wal", fails)
        engine.request_sync()
        assert not engine._commit.wait_for(1, 30)
    assert not engine.sync_on_loop(1)
    assert engine.synced == 0


def test_a_failed_sync_on_the_loop_poisons(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    poisons: list[Exception] = []
    engine.on_poisoned(poisons.append)

    def fails(_database: object) -> bool:
        raise OSError("the disk has gone")

    engine.write(1, batch(1))
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_sync_wal", fails)
        assert not engine.sync_on_loop(1)
    assert [str(error) for error in poisons] == ["the disk has gone"]
    engine.request_sync()
    assert not engine._commit.wait_for(1, 0.0)
    assert engine.synced == 0


def test_the_mark_is_settled_though_the_commit_thread_has_nothing_to_sync(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 0.0)
    settled = threading.Event()
    monkeypatch.setattr(engine, "settle", settled.set)
    engine.write(1, batch(1))
    assert engine.sync_on_loop(1)
    assert settled.wait(30)
