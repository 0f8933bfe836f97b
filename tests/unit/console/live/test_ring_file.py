"""Rings of rows on disk."""

from pathlib import Path

from holdfast.console.live.ring_file import RingFile

NAMES = ("a", "b")


def ring(folder: Path, names: tuple[str, ...] = NAMES, slots: int = 10) -> RingFile:
    return RingFile(folder / "ring", 1, slots, names)


def test_rows_are_read_as_they_were_written_and_the_rest_is_a_gap(tmp_path: Path) -> None:
    one = ring(tmp_path)
    one.write(5, (1.5, None))
    one.write(7, (2.5, 3.0))
    assert one.read(4, 7) == [None, (1.5, None), None, (2.5, 3.0)]


def test_the_oldest_rows_are_overwritten_and_never_shown_as_new(tmp_path: Path) -> None:
    one = ring(tmp_path)
    for number in range(15):
        one.write(number, (number, 0.0))
    assert one.read(4, 5) == [None, (5.0, 0.0)]
    assert one.read(14, 16) == [(14.0, 0.0), None, None]


def test_rows_survive_a_new_process(tmp_path: Path) -> None:
    one = ring(tmp_path)
    one.write(3, (1.0, 2.0))
    one.close()
    assert ring(tmp_path).read(3, 3) == [(1.0, 2.0)]


def test_a_torn_row_is_a_gap_and_its_neighbours_stay(tmp_path: Path) -> None:
    one = ring(tmp_path)
    for number in (0, 1, 2):
        one.write(number, (number, number))
    data = bytearray((tmp_path / "ring").read_bytes())
    slot_bytes = (len(data) - 4096) // 10
    data[4096 + slot_bytes + 9] ^= 0xFF
    (tmp_path / "ring").write_bytes(data)
    assert ring(tmp_path).read(0, 2) == [(0.0, 0.0), None, (2.0, 2.0)]


def test_a_file_of_another_kind_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "ring").write_bytes(b"something else")
    one = ring(tmp_path)
    assert one.read(0, 0) == [None]
    one.write(0, (1.0, 1.0))
    assert one.read(0, 0) == [(1.0, 1.0)]


def test_columns_that_both_versions_know_are_carried_over(tmp_path: Path) -> None:
    old = ring(tmp_path)
    old.write(42, (1.0, 2.0))
    old.close()
    assert ring(tmp_path, ("b", "c")).read(42, 42) == [(2.0, None)]


def test_the_size_is_fixed(tmp_path: Path) -> None:
    one = ring(tmp_path)
    size = (tmp_path / "ring").stat().st_size
    for number in range(100):
        one.write(number, (1e300, -1e300))
    assert (tmp_path / "ring").stat().st_size == size
