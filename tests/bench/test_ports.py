"""Ports that programs which run side by side choose."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench import ports


@pytest.fixture(autouse=True)
def three_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Three ports to choose from, and no reservation."""
    last = ports._LAST
    monkeypatch.setattr(ports, "_FIRST", last - 2)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    return last - 2, last - 1, last


def reserve(port: int, pid: int) -> None:
    with ports._reservations().open("a") as file:
        file.write(f"{port} {pid}\n")


def test_a_port_is_chosen_once(three_ports: tuple[int, int, int]) -> None:
    assert sorted(ports.free_port() for _ in range(3)) == list(three_ports)


def test_a_port_that_another_living_process_chose_is_left_to_it(three_ports: tuple[int, int, int]) -> None:
    first, middle, last = three_ports
    reserve(first, os.getppid())
    reserve(last, os.getppid())
    assert ports.free_port() == middle


def test_ports_of_a_process_that_has_ended_are_free_again(three_ports: tuple[int, int, int]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for port in three_ports:
        reserve(port, ended.pid)
    assert ports.free_port() in three_ports


def test_a_port_that_a_server_listens_on_is_not_chosen(three_ports: tuple[int, int, int]) -> None:
    first, middle, last = three_ports
    reserve(first, os.getppid())
    with socket.socket() as server:
        server.bind(("127.0.0.1", last))
        assert ports.free_port() == middle


def test_a_line_that_was_written_half_is_passed_over(three_ports: tuple[int, int, int]) -> None:
    ports._reservations().write_text(f"{three_ports[0]} {os.getppid()}\n{three_ports[1]}")
    assert ports.free_port() in three_ports[1:]
