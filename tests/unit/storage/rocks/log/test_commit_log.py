"""Batches in, receipts out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.zones import MEMORY, OS
from holdfast.model.errors import PermanentError, PoisonedError
from holdfast.records.folder import FORMAT, DataFolder, decode_folder, encode_folder
from holdfast.records.messages import stored_serial
from holdfast.records.meta_keys import FOLDER_KEY
from holdfast.storage.rocks.engine.column_families import META
from holdfast.storage.rocks.engine.failures import StalledError
from holdfast.storage.rocks.engine.scan import get_one
from tests.unit.storage.rocks.log.store import Store, drain, places, zone


@pytest.fixture
def lax(tmp_path: Path) -> Iterator[Store]:
    """`fsync`, `os` and `memory` side by side, with ceilings that are far enough ahead."""
    store = Store(tmp_path / "data", zone("os", "o/#", durability=OS), zone("memory", "m/#", durability=MEMORY))
    store.publish("s/1", "o/1", "m/1")
    yield store
    store.close()


class Stall:
    """An engine that refuses to write for now."""

    def __init__(self, store: Store, patch: pytest.MonkeyPatch) -> None:
        self.refused: list[int] = []
        self._patch = patch
        self._engine = store.engine
        patch.setattr(store.engine, "write", self._refuse)

    def _refuse(self, number: int, _changes: Changes) -> None:
        self.refused.append(number)
        raise StalledError("RocksDB has to catch up")

    def end(self) -> None:
        self._patch.delattr(self._engine, "write")


def serials(store: Store, shard: int = 0) -> list[int]:
    zone_log = store.zone_log()
    found: list[int] = []
    for generation in zone_log.live:
        piece = generation.by_shard[shard]
        values = piece.layout.read(store.engine.family(piece.family), (b"#",), 0, 2**62)
        found.extend(map(stored_serial, values))
    return found


def test_a_strict_batch_has_no_receipt_before_its_sync(store: Store) -> None:
    assert store.write(store.message("a")) is None
    assert store.receipts == []
    store.settle()
    assert store.receipts == [1]


def test_a_commit_is_counted_with_its_messages_and_the_time_until_its_receipt(store: Store) -> None:
    store.write(*[store.message("a") for _number in range(3)])
    store.clock.advance(30_000)
    assert sum(store.log.counts.seconds.counts) == 0
    store.settle()
    assert sum(store.log.counts.seconds.counts) == 1
    assert store.log.counts.seconds.sum == 0.03
    assert store.log.counts.messages.sum == 3


def test_serials_are_dense_from_one_on_and_go_on_after_a_restart(store: Store) -> None:
    store.publish(*["a"] * 5)
    store.rotate()
    store.publish(*["b"] * 3)
    store.reopen()
    store.publish("a", "a")
    assert serials(store) == list(range(1, 11))


@pytest.mark.parametrize("topic", ["o/2", "m/2"])
def test_a_lax_batch_has_its_receipt_at_once(lax: Store, topic: str) -> None:
    receipt = lax.write(lax.message(topic))
    assert receipt is not None
    assert receipt.number == 2
    assert lax.read(topic) == lax.written[-1:]


def test_a_lax_batch_waits_for_the_strict_one_before_it(lax: Store) -> None:
    """Acknowledgements leave in order."""
    assert lax.write(lax.message("s/2")) is None
    assert lax.write(lax.message("o/2")) is None
    assert lax.receipts == [1]
    assert lax.read("o/2") == []
    lax.settle()
    assert lax.receipts[-1] == 3
    assert lax.read("o/2") == lax.written[-1:]


def test_a_batch_of_both_is_strict(lax: Store) -> None:
    assert lax.write(lax.message("o/2"), lax.message("s/2")) is None
    lax.settle()
    assert lax.receipts == [1, 2]


def test_a_lax_batch_that_needs_a_ceiling_waits_for_it(tmp_path: Path) -> None:
    """Q9: nobody sees a position above the synced ceiling, not even where nobody waits for syncs."""
    store = Store(tmp_path / "data", default=zone("default", durability=MEMORY))
    assert store.write(store.message("a")) is None
    store.settle()
    assert store.write(store.message("a")) is not None
    store.clock.advance(20_000_000)
    assert store.write(store.message("a")) is None
    store.settle()
    shard = store.zone_log().shards[0]
    assert shard.head_us <= shard.clock.ceiling_us
    store.close()


def test_a_batch_that_stores_nothing_has_its_receipt_in_its_turn(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", zone("live", "live/#", store=False))
    assert store.write(store.message("live/1"), store.message("$SYS/x")) is not None
    assert store.write(store.message("a")) is None
    assert store.write(store.message("live/2")) is None
    store.settle()
    assert store.receipts[-1] == 3
    assert places(store.read("#")) == places(store.expected("#")) != []
    assert store.read("live/#") == []
    store.close()


def test_a_batch_whose_companions_have_nothing_to_store_is_not_kept_waiting(store: Store) -> None:
    """No sync would ever cover a batch that was never written."""
    batch = Batch(1)
    batch.retained.append(store.message("a"))
    receipt = store.log.write(batch)
    assert receipt is not None
    assert receipt.number == 1


def test_an_empty_batch_has_a_receipt(store: Store) -> None:
    assert store.write() is not None


def test_a_refused_batch_is_kept_and_later_ones_wait_behind_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, nothing overtakes, and nobody reads what is not there."""
    store.publish("a")
    stall = Stall(store, monkeypatch)
    for _ in range(3):
        assert store.write(store.message("a")) is None
    assert isinstance(store.log.obstacle, StalledError)
    assert not store.log.idle()
    assert len(set(stall.refused)) == 1, "the first one is tried again, not the next"
    assert places(store.read()) == places(store.written[:1])
    stall.end()
    store.log.retry()
    assert store.log.obstacle is None
    assert store.log.idle()
    store.settle()
    assert places(store.read()) == places(store.written)
    store.reopen()
    assert places(store.read()) == places(store.written)
    assert serials(store) == [1, 2, 3, 4]


def test_a_rotation_that_is_refused_stays_between_its_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generation's record is written before the first message in it, whenever that is."""
    store.publish("a")
    stall = Stall(store, monkeypatch)
    store.write(store.message("a"))
    store.rotate()
    store.write(store.message("a"))
    assert store.maintenance.write_index_slice() is False
    stall.end()
    store.log.retry()
    store.settle()
    store.index()
    assert places(store.read()) == places(store.written)
    store.reopen()
    assert [len(list(store.zone_log().pieces(0, 0, 2**62)))] == [2]
    assert places(store.read()) == places(store.written)


def test_a_crash_during_a_stall_leaves_the_generation_before_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was never written is as if it never was, the new generation included. Its family stays, and is empty."""
    store.publish("a")
    stall = Stall(store, monkeypatch)
    store.rotate()
    store.write(store.message("a"))
    stall.end()
    store.written.pop()
    store.reopen()
    assert len(store.zone_log().live) == 1
    families = sorted(name for name in store.engine.families() if name.startswith("log-"))
    assert families == ["log-00000-00000001", "log-00000-00000002"]
    assert list(store.engine.family(families[1]).keys()) == []
    store.publish("a")
    assert places(store.read()) == places(store.written)


def test_work_of_the_logs_own_keeps_no_lax_batch_waiting(lax: Store) -> None:
    changes = Changes()
    changes.into(META).put(b"\xf0test", b"")
    lax.log.write_own(changes)
    assert lax.write(lax.message("o/2")) is not None


def test_readers_let_go_before_the_engine_opens_its_database_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader in the middle of a scan holds RocksDB open; it goes on afterwards where it was."""
    store.publish(*["a"] * 10)
    store.reopen()
    replay = store.replay()
    first = replay.next(3).messages
    stall = Stall(store, monkeypatch)
    store.write(store.message("a"))
    stall.end()
    store.engine._broken = "an append found no room"
    store.log.retry()
    assert store.log.obstacle is None
    store.settle()
    assert places(first + drain(replay)[0]) == places(store.written)


class UnreadableCompanion:
    """Something stored with messages that cannot be read once."""

    def __init__(self) -> None:
        self.fails = True

    def add(self, _batch: Batch, _changes: Changes) -> None:
        if self.fails:
            self.fails = False
            raise PermanentError("a block is damaged")


def test_no_receipt_covers_a_batch_that_could_not_be_built(store: Store) -> None:
    """Q2: receipts are numbers, and that of a later batch would acknowledge it."""
    store.log._companions.append(UnreadableCompanion())
    with pytest.raises(PermanentError, match="damaged"):
        store.write(store.message("a"))
    with pytest.raises(PoisonedError, match="damaged"):
        store.write(store.message("a"))
    assert not store.receipts
    assert str(store.engine.poison) == "a block is damaged"


def test_receipts_that_came_before_anybody_was_attached_are_not_lost(store: Store) -> None:
    got: list[int] = []
    store.log._post = None
    store.write(store.message("a"))
    store.engine.sync_now()
    store.log.attach(store._posted.put, lambda receipt: got.append(receipt.number))
    assert got == [1]
    store.receipts.append(1)


def test_a_folder_of_an_earlier_format_is_raised_to_the_present_one(tmp_path: Path) -> None:
    """An older broker then refuses it as a whole, instead of a session at its CONNECT."""
    store = Store(tmp_path)
    changes = Changes()
    changes.into(META).put(FOLDER_KEY, encode_folder(DataFolder(1, 5, "0.1.0")))
    store.engine.write(store.engine.written + 1, changes)
    store.reopen()
    value = get_one(store.engine.family(META), FOLDER_KEY)
    assert value is not None
    folder = decode_folder(value)
    assert (folder.format_version, folder.created_us, folder.creator) == (FORMAT, 5, "0.1.0")
    store.close()
