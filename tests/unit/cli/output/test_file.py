"""A file has its name when it is whole, and not before."""

from pathlib import Path

import pytest

from holdfast.cli.output.file import open_output


def test_the_name_is_there_when_the_content_is(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with open_output(path) as output:
        output.write(b"12")
        output.write(b"345")
        assert not path.exists()
    assert path.read_bytes() == b"12345"
    assert output.size_bytes == 5
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(b"before")

    def fail_half_way() -> None:
        with open_output(path) as output:
            output.write(b"half")
            raise error

    with pytest.raises(type(error)):
        fail_half_way()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), open_output(tmp_path / "no" / "out.csv"):
        pytest.fail("the block ran")


def test_none_is_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with open_output(None) as output:
        output.write(b"\xff")
    assert capfdbinary.readouterr().out == b"\xff"
