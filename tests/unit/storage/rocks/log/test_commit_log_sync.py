"""Batches that are patient: they are written while a sync is under way, and share the next one (L20)."""

import threading
from collections.abc import Iterator

import pytest

from holdfast.durable.commit import Batch
from tests.unit.storage.rocks.log.store import Store


class HeldSync:
    """The commit thread is in a sync until the test lets it go on."""

    def __init__(self, store: Store) -> None:
        self.count = 0
        self._sync = store.engine._sync_wal
        self._entered, self._go_on = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, database: object) -> bool:
        self.count += 1
        self._entered.release()
        assert self._go_on.acquire(timeout=60)
        return self._sync(database)  # type: ignore[arg-type]

    def wait(self) -> None:
        assert self._entered.acquire(timeout=60)

    def go_on(self, count: int = 1) -> None:
        self._go_on.release(count)


@pytest.fixture
def held(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldSync]:
    store.publish("a")  # the first one raises the ceiling
    held = HeldSync(store)
    with monkeypatch.context() as patch:
        patch.setattr(store.engine, "_sync_wal", held)
        yield held
        held.go_on(1_000)


def write(store: Store, number: int, *, patient: bool = False) -> None:
    batch = Batch(number)
    batch.messages.append(store.message("a", payload=b"%d" % number))
    batch.patient = patient
    assert store.log.write(batch) is None


def receive(store: Store) -> None:
    """What the commit thread has told, and what follows from it, as the loop does it."""
    store._posted.get(timeout=60)()


def test_a_patient_batch_is_written_and_synced_when_the_sync_under_way_has_ended(store: Store, held: HeldSync) -> None:
    write(store, 2)
    held.wait()
    assert store.log.busy()
    write(store, 3, patient=True)
    assert store.engine.written == store.log.mark, "it is written"
    assert store.log.busy()
    held.go_on()
    receive(store)
    assert store.receipts[-1] == 2
    assert held.count == 1, "no other sync was asked for"
    assert not store.log.busy(), "what is open is written now"
    receive(store)
    held.wait()
    held.go_on()
    receive(store)
    assert store.receipts[-1] == 3


def test_a_patient_batch_shares_the_sync_of_the_batch_that_follows(store: Store, held: HeldSync) -> None:
    write(store, 2)
    held.wait()
    write(store, 3, patient=True)
    held.go_on()
    receive(store)
    write(store, 4)  # by the iteration that the receipt leads to
    receive(store)
    held.wait()
    held.go_on()
    receive(store)
    assert store.receipts[-1] == 4
    assert held.count == 2


def test_a_patient_batch_is_synced_at_once_if_no_sync_is_under_way(store: Store, held: HeldSync) -> None:
    write(store, 2, patient=True)
    held.wait()
    held.go_on()
    receive(store)
    assert store.receipts[-1] == 2


def test_progress_and_segments_between_batches_do_not_end_the_wait_for_a_sync(store: Store, held: HeldSync) -> None:
    write(store, 2)
    held.wait()
    store.log.write(Batch(3))
    assert store.log.busy(), "a batch without messages or steps changes nothing"


def test_a_batch_that_changes_nothing_behind_a_patient_one_leaves_no_sync_to_wait_for(
    store: Store, held: HeldSync
) -> None:
    """Such a batch only has answers to give. It is never written, so no sync ever tells that it covers its mark."""
    write(store, 2)
    held.wait()
    write(store, 3, patient=True)
    store.log.write(Batch(4))
    held.go_on()
    receive(store)
    receive(store)
    held.wait()
    held.go_on()
    receive(store)
    assert store.receipts[-1] == 4
    assert not store.log.busy(), "or the open batch would wait for a sync that nobody asks for"
