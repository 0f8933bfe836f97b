"""The size gate stops long files and names without content."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import size_gate


def write(root: Path, name: str, lines: int) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("pass\n" * lines, encoding="utf-8")


@pytest.mark.parametrize(("lines", "status"), [(300, 0), (500, 0), (501, 1)])
def test_a_file_fails_above_five_hundred_lines(tmp_path: Path, lines: int, status: int) -> None:
    write(tmp_path, "src/holdfast/wire/codec.py", lines)

    assert size_gate.main(tmp_path) == status


def test_a_file_above_three_hundred_lines_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "src/long.py", 301)
    write(tmp_path, "src/short.py", 101)

    assert size_gate.main(tmp_path) == 0

    report = capsys.readouterr().out
    assert "long.py: 301 lines, look again" in report
    assert "short.py" not in report
    assert "2 files, median 201 lines" in report


@pytest.mark.parametrize("name", ["utils.py", "_helpers.py", "manager/__init__.py", "base.py"])
def test_a_module_named_after_nothing_fails(tmp_path: Path, name: str) -> None:
    write(tmp_path, f"src/holdfast/{name}", 1)

    assert size_gate.main(tmp_path) == 1


def test_what_a_reader_trips_over_is_reported_without_failing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(21):
        write(tmp_path, f"src/holdfast/wire/part{number}.py", 1)
    (tmp_path / "src/holdfast/wire/small.py").write_text("class Frame: ...\n", encoding="utf-8")
    (tmp_path / "src/holdfast/wire/user.py").write_text(
        "import holdfast.wire.small\n\n\nclass Frame: ...\n", encoding="utf-8"
    )

    assert size_gate.main(tmp_path) == 0

    report = capsys.readouterr().out
    assert "warning: src/holdfast/wire: 23 modules, make sub-folders" in report
    assert "warning: src/holdfast/wire/small.py: 1 lines, imported by holdfast.wire.user, merge them?" in report
    assert "Frame: src/holdfast/wire/small.py:1, src/holdfast/wire/user.py:4" in report
