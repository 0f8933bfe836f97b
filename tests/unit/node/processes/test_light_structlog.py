"""The programs of a node import structlog without rich, and both can be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

#: Ends with an error once everything is imported: the port is in use.
_BROKER = """
import socket
from holdfast.cli.main import main
taken = socket.create_server(("127.0.0.1", 0))
sys.argv[1:] = ["serve", "--port", str(taken.getsockname()[1]), "--data", "data"]
main()
"""
#: Ends with an error once everything is imported: nobody tells it what to serve.
_PROCESS = """
import runpy
runpy.run_module("holdfast.node.processes.{}_main", run_name="__main__")
"""
_SAYS_WHAT_IS_IMPORTED = """
import atexit, sys
atexit.register(lambda: print("structlog" in sys.modules, "rich" in sys.modules))
"""
_LATER = """
import holdfast.node.processes.light_structlog
from rich.console import Console
import structlog
from holdfast.node.logs import configure_logs
configure_logs("info", "console")
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger().exception("it failed")
print(structlog.dev.rich, Console.__name__)
"""


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": str(Path(holdfast.__file__).parent.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "error"),
    [
        pytest.param(_BROKER, "it is in use", id="broker"),
        pytest.param(_PROCESS.format("console"), "DecodeError", id="console"),
        pytest.param(_PROCESS.format("history"), "DecodeError", id="history"),
    ],
)
def test_a_program_of_a_node_starts_without_rich(tmp_path: Path, program: str, error: str) -> None:
    done = run(tmp_path, _SAYS_WHAT_IS_IMPORTED + program)

    assert error in done.stderr
    assert done.stdout == "True False\n"


def test_rich_can_be_imported_later_and_tracebacks_are_written_without_it(tmp_path: Path) -> None:
    done = run(tmp_path, _LATER)

    assert done.stdout == "None Console\n", done.stderr
    assert "it failed" in done.stderr
    assert "ZeroDivisionError: division by zero" in done.stderr
