"""The mark outside the WAL: newest whole slot wins."""

from pathlib import Path

import pytest

from holdfast.storage.rocks.engine.synced_mark import MARK_NAME, Synced, SyncedMark


def load(folder: Path) -> Synced | None:
    mark = SyncedMark(folder)
    last = mark.last
    mark.close()
    return last


def write(folder: Path, *marks: Synced) -> None:
    mark = SyncedMark(folder)
    for synced in marks:
        mark.write(synced)
    mark.settle()
    mark.close()


def test_a_new_folder_has_no_mark(tmp_path: Path) -> None:
    assert load(tmp_path) is None


def test_the_last_mark_is_read_back(tmp_path: Path) -> None:
    write(tmp_path, Synced(10, 1, 5, 100), Synced(20, 2, 5, 200), Synced(30, 3, 5, 300))
    assert load(tmp_path) == Synced(30, 3, 5, 300)


def test_a_mark_may_go_back(tmp_path: Path) -> None:
    """After damage the database is shorter, and the mark says so from then on."""
    write(tmp_path, Synced(10, 1), Synced(20, 2))
    write(tmp_path, Synced(15, 1))
    assert load(tmp_path) == Synced(15, 1)


@pytest.mark.parametrize("at", [0, 5, 15, 60])
def test_a_torn_slot_leaves_the_one_before(tmp_path: Path, at: int) -> None:
    """The second mark of a new file goes to slot 0."""
    write(tmp_path, Synced(10, 1, 5, 100), Synced(20, 2, 5, 200))
    content = bytearray((tmp_path / MARK_NAME).read_bytes())
    content[at] ^= 0xFF
    (tmp_path / MARK_NAME).write_bytes(content)
    assert load(tmp_path) == Synced(10, 1, 5, 100)


def test_a_mark_of_this_boot_is_exact_and_one_of_another_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, Synced(10, 1))
    mark = SyncedMark(tmp_path)
    assert mark.is_exact
    mark.close()
    monkeypatch.setattr("holdfast.storage.rocks.engine.synced_mark.boot_id", lambda: b"another boot id.")
    mark = SyncedMark(tmp_path)
    assert not mark.is_exact
    mark.close()


def test_its_bytes_are_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format on disk."""
    monkeypatch.setattr("holdfast.storage.rocks.engine.synced_mark.boot_id", lambda: bytes(range(16)))
    write(tmp_path, Synced(0x0102, 3, 4, 5))
    content = (tmp_path / MARK_NAME).read_bytes()
    assert len(content) == 1024
    assert content[512:576].hex() == (
        "48465331"
        "0100000000000000"
        "0201000000000000"
        "0300000000000000"
        "0400000000000000"
        "0500000000000000"
        "000102030405060708090a0b0c0d0e0f"
        "1a7aac77"
    )
