"""A real broker process for the tests of this folder."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def broker_port() -> Iterator[int]:
    """The port of `holdfast serve`, on the modules under test."""
    command = [sys.executable, "-c", "from holdfast.cli.main import main; main()", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("{") and json.loads(line)["event"] == "listening":
                yield json.loads(line)["port"]
                break
        else:
            pytest.fail(f"the broker did not start:\n{''.join(lines)}")
        process.terminate()
        process.stderr.read()
        assert process.wait(timeout=10) == 0
