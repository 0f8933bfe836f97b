"""Which sync gives which receipt (L20)."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from holdfast.storage.rocks.engine.commit_thread import CommitThread, WrittenMark


class FakeJournal:
    """Each sync waits until the test lets it end."""

    def __init__(self) -> None:
        self.written = WrittenMark()
        self.began: list[int] = []
        self.events: list[str] = []
        self.entered = threading.Semaphore(0)
        self.answers: SimpleQueue[bool | Exception] = SimpleQueue()
        self.settled = threading.Event()

    def last_written(self) -> WrittenMark:
        return self.written

    def sync(self) -> bool:
        self.began.append(self.written.batch)
        self.entered.release()
        answer = self.answers.get(timeout=30)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def note_synced(self, written: WrittenMark) -> None:
        self.events.append(f"noted {written.batch}")

    def settle(self) -> None:
        self.settled.set()


class Bench:
    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.thread = CommitThread(self.journal)
        self.thread.on_synced(lambda batch: self.journal.events.append(f"receipt {batch}"))
        self.poisons: list[Exception] = []
        self.thread.on_poisoned(self.poisons.append)
        self.thread.start()

    def write(self, batch: int) -> None:
        self.journal.written = WrittenMark(batch, batch * 10)
        self.thread.request()

    def sync_begins(self) -> None:
        assert self.journal.entered.acquire(timeout=30)

    def sync_ends(self, answer: bool | Exception = True) -> None:
        self.journal.answers.put(answer)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for _ in range(10):
        bench.sync_ends()
    bench.thread.stop()


def test_a_batch_written_during_a_sync_waits_for_the_next_one(bench: Bench) -> None:
    """L20: the sync under way may have passed the place in the WAL where the batch went."""
    bench.write(1)
    bench.sync_begins()
    bench.write(2)
    bench.sync_ends()
    assert bench.thread.wait_for(1, 30)
    bench.sync_begins()
    assert bench.thread.synced == 1
    bench.sync_ends()
    assert bench.thread.wait_for(2, 30)
    assert bench.journal.events == ["noted 1", "receipt 1", "noted 2", "receipt 2"]


def test_batches_written_before_a_sync_share_it(bench: Bench) -> None:
    bench.write(1)
    bench.sync_begins()
    for batch in (2, 3, 4):
        bench.write(batch)
    bench.sync_ends()
    bench.sync_begins()
    bench.sync_ends()
    assert bench.thread.wait_for(4, 30)
    assert bench.journal.began == [1, 4]


def test_a_request_without_anything_new_syncs_nothing(bench: Bench) -> None:
    bench.write(1)
    bench.sync_begins()
    bench.sync_ends()
    assert bench.thread.wait_for(1, 30)
    bench.thread.request()
    bench.thread.stop()
    assert bench.journal.began == [1]


def test_a_failed_sync_gives_no_receipt_ever_again(bench: Bench) -> None:
    bench.write(1)
    bench.sync_begins()
    bench.sync_ends(OSError("disk on fire"))
    assert not bench.thread.wait_for(1, 30)
    bench.write(2)
    bench.thread.stop()
    assert bench.thread.synced == 0
    assert bench.journal.events == []
    assert [str(error) for error in bench.poisons] == ["disk on fire"]


def test_a_sync_that_is_not_possible_now_is_no_failure(bench: Bench) -> None:
    bench.write(1)
    bench.sync_begins()
    bench.sync_ends(False)
    bench.thread.request()
    bench.sync_begins()
    bench.sync_ends()
    assert bench.thread.wait_for(1, 30)
    assert bench.thread.poison is None


def test_a_receipt_that_cannot_be_delivered_is_not_lost_in_silence(bench: Bench) -> None:
    def burst(batch: int) -> None:
        raise RuntimeError("no loop")

    bench.thread.on_synced(burst)
    bench.write(1)
    bench.sync_begins()
    bench.sync_ends()
    assert not bench.thread.wait_for(2, 30)
    assert str(bench.thread.poison) == "no loop"


def test_the_mark_is_settled_after_a_sync(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 0.0)
    bench.write(1)
    bench.sync_begins()
    bench.sync_ends()
    assert bench.journal.settled.wait(30)


def test_what_the_owner_has_synced_is_settled_without_a_sync(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced unless it was asked for, though there is more by now."""
    monkeypatch.setattr("holdfast.storage.rocks.engine.commit_thread._SETTLE_AFTER_S", 0.0)
    bench.journal.written = WrittenMark(2, 20)
    bench.thread.synced_elsewhere(1)
    assert bench.journal.settled.wait(30)
    assert bench.journal.began == []
    assert (bench.thread.synced, bench.thread.is_idle()) == (1, True)


def test_a_sync_that_ends_after_the_owner_has_failed_gives_no_receipt(bench: Bench) -> None:
    """L20: a second sync that succeeds proves nothing."""
    bench.write(1)
    bench.sync_begins()
    bench.thread.fail(OSError("the disk has gone"))
    bench.sync_ends()
    bench.thread.stop()
    assert (bench.thread.synced, bench.journal.events) == (0, [])
