"""Whether a file has changed."""

from pathlib import Path

from holdfast.files.replacement import replace_file
from holdfast.files.stamp import file_stamp


def test_a_file_that_is_replaced_changed_or_removed_has_another_stamp(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert file_stamp(path) is None
    path.write_text("one")
    first = file_stamp(path)
    assert first == file_stamp(path)
    replace_file(path, b"two")
    assert file_stamp(path) != first
    path.unlink()
    assert file_stamp(path) is None
