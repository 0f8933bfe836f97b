"""`holdfast export` on a data folder."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.history.reader.record_replay import RecordReplay
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.storage.rocks.vnodes.vnode_heads import VnodeHeads
from tests.unit.durable.state_machine.vnode import message
from tests.unit.storage.rocks.log_node import Node
from tests.unit.storage.rocks.vnodes.vnode_world import VNODES, Logs, opened
from tests.unit.storage.rocks.vnodes.vnode_world import Node as ClusterNode

START_US = 1_700_000_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that is in use: ten messages, a second apart."""
    folder = tmp_path_factory.mktemp("export") / "data"
    node = Node(folder, ManualClock(wall_us=START_US), shards=2)
    for number in range(10):
        topic = b"plant/%d" % (number % 2)
        message = Message(topic, b"%d" % number, 1, ClientId(f"c{number}"), node.clock.wall_us())
        node.taken(node.log.write(node.batch([message])))
        node.clock.advance(1_000_000)
    node.settle()
    yield folder
    node.log.close()


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["export", *arguments])


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.JSONL"])
def test_the_name_says_the_format(folder: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    done = invoke("plant/0", "--data", str(folder), "--columns", "payload", "--by-time", "-o", str(path))
    assert done.exit_code == 0, done.output
    if name.endswith("parquet"):
        payloads = [value.decode() for value in pq.read_table(path).column("payload").to_pylist()]
    elif name.endswith("csv"):
        with path.open(newline="") as lines:
            payloads = [row["payload"] for row in csv.DictReader(lines)]
    else:
        payloads = [json.loads(line)["payload"] for line in path.read_text().splitlines()]
    assert payloads == ["0", "2", "4", "6", "8"]
    assert done.stdout.startswith(f"{path}: 5 messages, ")
    assert ", from 2023-11-14T22:13:20.000000Z to 2023-11-14T22:13:28.000000Z, in " in done.stdout
    assert list(tmp_path.iterdir()) == [path]


def test_standard_output_has_the_messages_and_standard_error_the_summary(folder: Path) -> None:
    span = ("--since", "2023-11-14T22:13:22Z", "--until", str(START_US + 4_000_000))
    done = invoke("#", "--data", str(folder), "--format", "jsonl", "--json", "--by-time", *span)
    assert [json.loads(line)["payload"] for line in done.stdout.splitlines()] == ["2", "3"]
    summary = json.loads(done.stderr)
    assert summary.pop("seconds") >= 0
    assert summary == {
        "file": "-",
        "messages": 2,
        "bytes": len(done.stdout_bytes),
        "from": "2023-11-14T22:13:22.000000Z",
        "to": "2023-11-14T22:13:23.000000Z",
    }


def test_a_failure_leaves_no_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_arguments: object) -> None:
        raise PermanentError("shard 0 gave 3 messages, and by their serials there are 5")

    monkeypatch.setattr(RecordReplay, "next", damaged)
    done = invoke("#", "--data", str(folder), "-o", str(tmp_path / "out.csv"))
    assert done.exit_code == 1
    assert done.stderr == "holdfast: shard 0 gave 3 messages, and by their serials there are 5\n"
    assert list(tmp_path.iterdir()) == []


def test_standard_output_gets_json_lines_unless_told_otherwise(folder: Path) -> None:
    assert invoke("#", "--data", str(folder)).stdout == invoke("#", "--format", "jsonl", "--data", str(folder)).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("a/#/b", "--format", "csv"), 2, "'#' must be the whole last level"),
        (("$replay/-1h/a", "--format", "csv"), 2, "write the filter alone"),
        (("a", "-o", "x.txt"), 2, "say which format"),
        (("a", "--format", "csv", "--since", "soon"), 2, "--since: 'soon' is none of: earliest"),
        (("a", "--format", "csv", "--since", "-1h", "--until", "-2h"), 2, "--since -1h is not before --until -2h"),
        (("a", "--format", "csv", "--columns", "colour"), 2, "--columns: there is no column 'colour'; there are ts"),
        (("a", "--format", "csv", "--columns", "topic,topic"), 2, "--columns: topic stands twice"),
        (("a", "--format", "csv", "-o", "/nowhere/x"), 1, "/nowhere/x: No such file or directory"),
    ],
)
def test_wrong_usage_is_told_what_would_be_right(
    folder: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = invoke(*arguments, "--data", str(folder))
    assert done.exit_code == code
    assert done.stderr.startswith("holdfast: ")
    assert message in done.stderr


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    done = invoke("a", "--format", "csv", "--data", str(tmp_path))
    assert done.exit_code == 2
    assert str(tmp_path) in done.stderr


def test_without_arrow_it_says_what_to_install(folder: Path) -> None:
    program = "import sys; sys.modules['pyarrow'] = None; from holdfast.cli.main import main; main()"
    command = [sys.executable, "-c", program, "export", "a", "--format", "csv", "--data", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "holdfast[history]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_the_folder_of_a_node_in_a_cluster_is_exported_while_it_runs_and_when_it_has_stopped(tmp_path: Path) -> None:
    data = tmp_path / "data"
    logs = Logs()
    for number in range(6):
        logs.write(number % VNODES, message(b"plant/%d" % (number % 3), b"%d" % number))
    with opened(data) as engine:
        node = ClusterNode(engine)
        node.catch_up(logs)
        engine.sync_now()
        VnodeHeads(data, node.stores.log).close()
        running = invoke("plant/#", "--data", str(data), "--by-time", "--columns", "payload")
    stopped = invoke("plant/#", "--data", str(data), "--by-time", "--columns", "payload")
    for done in (running, stopped):
        assert done.exit_code == 0, done.output
        payloads = [json.loads(line)["payload"] for line in done.stdout.splitlines()]
        assert payloads == ["0", "1", "2", "3", "4", "5"]
