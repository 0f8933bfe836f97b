"""Private sockets: no other user reaches one, a left one is replaced, and what is not ours stays."""

from pathlib import Path

import pytest

from holdfast.files.private_socket import PrivateSocket


def test_a_socket_is_private_before_it_listens_and_replaces_one_that_was_left(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    for _turn in range(2):
        bound = PrivateSocket(path)
        assert path.stat().st_mode & 0o777 == 0o600
        bound.socket.close()  # as a killed process does: the file stays
    assert path.exists()


def test_a_socket_that_is_served_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    served = PrivateSocket(path)
    served.socket.listen()
    with pytest.raises(OSError, match="another process serves"):
        PrivateSocket(path)
    served.remove()
    served.socket.close()
    assert not path.exists()


def test_a_socket_may_be_taken_over_from_a_process_that_is_about_to_end(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    old = PrivateSocket(path)
    old.socket.listen()
    new = PrivateSocket(path, take_over=True)
    old.remove()
    assert path.exists(), "it is that of the new process"
    for bound in (old, new):
        bound.socket.close()


def test_a_file_that_is_no_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    path.write_text("mine")
    with pytest.raises(OSError, match="is no socket"):
        PrivateSocket(path)
    assert path.read_text() == "mine"


def test_the_socket_of_another_process_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.sock"
    first = PrivateSocket(path)
    path.unlink()
    second = PrivateSocket(path)
    first.remove()
    assert path.exists()
    for bound in (first, second):
        bound.socket.close()
