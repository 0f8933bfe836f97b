"""The engine's contract: numbers, families, receipts, refusals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from rocksdict import Options

from holdfast.durable.changes import Changes
from holdfast.model.errors import MisuseError, PoisonedError
from holdfast.storage.rocks.engine import family_handles as families_module
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.engine.failures import DiskFullError, FolderHeldError, StalledError

LOG = "log-00001-00000001"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(tmp_path / "data", reserve_bytes=0)
    yield engine
    engine.close()


def put(key: bytes, value: bytes, family: str = "meta") -> Changes:
    changes = Changes()
    changes.into(family).put(key, value)
    return changes


def test_a_new_folder_has_the_lasting_families_and_no_damage(engine: Engine) -> None:
    assert engine.families() == ["meta", "retained", "sessions"]
    assert (engine.written, engine.synced, engine.damage, engine.torn_tail) == (0, 0, [], None)
    assert [list(engine.family(name).keys()) for name in engine.families()] == [[], [], []]


def test_puts_deletes_and_ranges_take_effect_in_order_over_families(engine: Engine) -> None:
    changes = Changes()
    meta = changes.into("meta")
    for key in (b"a", b"b", b"c", b"d"):
        meta.put(key, b"1")
    meta.delete(b"a")
    meta.delete_range(b"b", b"d")
    meta.put(b"c", b"2")
    changes.into("sessions").put(b"s", b"")
    engine.write(1, changes)
    assert dict(engine.family("meta").items()) == {b"c": b"2", b"d": b"1"}
    assert engine.family("sessions").get(b"s") == b""


def test_the_same_changes_can_be_written_again(engine: Engine) -> None:
    """RocksDB's batch is used up by a write; the changes are not."""
    changes = put(b"k", b"v")
    engine.write(1, changes)
    engine.write(2, changes)
    assert engine.written == 2


def test_numbers_increase_and_go_on_after_a_restart(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    engine.write(7, put(b"k", b"v"))
    with pytest.raises(MisuseError, match="batch 7 comes after batch 7"):
        engine.write(7, put(b"k", b"v"))
    engine.close()
    engine = Engine.open(tmp_path, reserve_bytes=0)
    assert (engine.written, engine.synced) == (7, 7)
    with pytest.raises(MisuseError):
        engine.write(7, put(b"k", b"v"))
    engine.close()


def test_receipts_name_the_last_batch_covered(engine: Engine) -> None:
    got: list[int] = []
    engine.on_synced(got.append)
    for number in range(1, 101):
        engine.write(number, put(b"k", b"%d" % number))
        engine.request_sync()
    engine.sync_now()
    assert engine.synced == 100
    assert got[-1] == 100
    assert got == sorted(set(got))


def test_nothing_is_synced_that_nobody_asked_for(engine: Engine) -> None:
    engine.write(1, put(b"k", b"v"))
    assert engine.synced == 0
    engine.sync_now()
    assert engine.synced == 1


def test_families_come_and_go_and_are_there_after_a_restart(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    engine.create_family(LOG)
    engine.create_family("log-00001-00000002")
    engine.write(1, put(b"k", b"v", LOG))
    engine.drop_family("log-00001-00000002")
    engine.close()
    engine = Engine.open(tmp_path, reserve_bytes=0)
    assert engine.families() == [LOG, "meta", "retained", "sessions"]
    assert list(engine.family(LOG).items()) == [(b"k", b"v")]
    engine.close()


def test_misuse_of_families_is_loud(engine: Engine) -> None:
    with pytest.raises(MisuseError, match="does not exist"):
        engine.write(1, put(b"k", b"v", LOG))
    assert engine.written == 0
    with pytest.raises(MisuseError, match="create it first"):
        engine.family(LOG)
    with pytest.raises(MisuseError, match="to drop"):
        engine.drop_family(LOG)
    with pytest.raises(MisuseError, match="to drop"):
        engine.drop_family("default")
    with pytest.raises(MisuseError, match="exists already"):
        engine.create_family("meta")


def test_a_new_family_has_a_table_and_no_key(engine: Engine) -> None:
    """A repair knows a family by its tables."""
    engine.create_family(LOG)
    for name in [LOG, "meta", "retained", "sessions", "default"]:
        assert engine.family(name).property_int_value("rocksdb.total-sst-files-size")
    assert list(engine.family(LOG).keys()) == []


def test_a_second_engine_on_the_folder_is_refused(engine: Engine) -> None:
    with pytest.raises(FolderHeldError, match="in use by pid"):
        Engine.open(engine.folder)


def test_a_folder_that_could_not_be_opened_is_free_again(tmp_path: Path) -> None:
    (tmp_path / "rocks").write_text("a file where a folder should be")
    with pytest.raises(Exception, match="rocks"):
        Engine.open(tmp_path)
    (tmp_path / "rocks").unlink()
    Engine.open(tmp_path).close()


def test_a_write_below_the_reserve_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path, reserve_bytes=1 << 62)
    with pytest.raises(DiskFullError, match="in reserve"):
        engine.write(1, put(b"k", b"v"))
    assert engine.written == 0
    assert engine.poison is None
    engine.close()


def test_a_stall_is_an_error_and_not_a_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def easily_stalled(name: str, shared: Any) -> Options:
        options = Options(raw_mode=True)
        options.set_write_buffer_size(100_000)
        options.set_disable_auto_compactions(True)
        options.set_level_zero_slowdown_writes_trigger(2)
        options.set_level_zero_stop_writes_trigger(2)
        return options

    monkeypatch.setattr(families_module, "family_options", easily_stalled)
    engine = Engine.open(tmp_path, reserve_bytes=0)
    engine.create_family(LOG)
    number = 0

    def write_on() -> None:
        nonlocal number
        for number in range(1, 1_000):
            engine.write(number, put(b"%d" % number, bytes(20_000), LOG))

    with pytest.raises(StalledError, match="catch up"):
        write_on()
    assert engine.written == number - 1
    assert engine.poison is None
    assert engine.family(LOG).get(b"%d" % number) is None
    engine.sync_now()
    engine.close()


def test_a_failed_sync_refuses_every_later_write(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> bool:
        raise OSError("disk on fire")

    got: list[int] = []
    engine.on_synced(got.append)
    engine.write(1, put(b"k", b"v"))
    monkeypatch.setattr(engine, "sync", fails)
    with pytest.raises(PoisonedError, match="disk on fire"):
        engine.sync_now()
    monkeypatch.undo()
    with pytest.raises(PoisonedError, match="disk on fire"):
        engine.write(2, put(b"k", b"v"))
    assert (got, engine.written, engine.synced) == ([], 1, 0)


def test_a_sync_that_meets_an_append_that_failed_before_it_does_not_poison(engine: Engine) -> None:
    """The append on the loop and the sync on the commit thread race: the sync may see the failure first."""

    class Refusing:
        def flush_wal(self, sync: bool) -> None:
            raise Exception("IO error: Writer has previous error.")

    got: list[int] = []
    engine.on_synced(got.append)
    engine.write(1, put(b"k", b"v"))
    engine._database = cast(Any, Refusing())
    with pytest.raises(DiskFullError, match="cannot be synced now"):
        engine.sync_now()
    assert (got, engine.poison) == ([], None)
    engine.write(2, put(b"l", b"w"))
    engine.sync_now()
    assert got[-1] == 2
    assert dict(engine.family("meta").items()) == {b"k": b"v", b"l": b"w"}


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path)
    engine.close()
    engine.close()
    with pytest.raises(MisuseError, match="closed"):
        engine.write(1, put(b"k", b"v"))
    with pytest.raises(MisuseError, match="closed"):
        engine.family("meta")


def test_closing_syncs_what_was_written(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    got: list[int] = []
    engine.on_synced(got.append)
    engine.write(1, put(b"k", b"v"))
    engine.close()
    assert got == [1]
