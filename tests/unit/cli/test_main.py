"""The command line: versions, help, and errors that say what would be right."""

import re
import socket

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.node.build_info import is_compiled

pytestmark = pytest.mark.compiled


def test_version_tells_everything_a_bug_report_needs() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    mode = "compiled" if is_compiled() else "interpreted"
    versions = rf"holdfast \d+\.\d+\.\d+ \({mode}\), Python 3\.\d+\.\d+, rocksdict [\d.]+ \(RocksDB\)"
    assert re.fullmatch(versions, done.output.strip())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_nothing_listens_beyond_loopback(host: str) -> None:
    done = CliRunner().invoke(app, ["serve", "--host", host])
    assert done.exit_code == 2
    assert "use --host 127.0.0.1" in done.output


def test_a_port_in_use_is_named_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = CliRunner().invoke(app, ["serve", "--port", str(port), "--set", "storage.durability=memory"])
    assert done.exit_code == 2
    assert f"127.0.0.1:{port}" in done.output
    assert "choose another port" in done.output
