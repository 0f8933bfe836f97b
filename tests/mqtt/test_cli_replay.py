"""`holdfast replay` and `export` beside a broker process that keeps history; `replay` and brokers that do not."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from tests.mqtt.broker_process import RunningBroker
from tests.mqtt.test_cli_client import mosquitto

ON_DISK = '[listeners.tcp]\nport = 0\n[storage]\ndata = "data"\nmin_free_bytes = 0\n'
TWO_SHARDS = ON_DISK + '[zones.two]\nfilter = "two/#"\nshards = 2\n'


@pytest.fixture(scope="module")
def disk_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path_factory.mktemp("replay"), TWO_SHARDS)
    yield running
    running.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test."""
    return f"t/{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def port(disk_broker: RunningBroker) -> int:
    return disk_broker.ports["tcp"]


def invoke(*arguments: str, port: int, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments, "--port", str(port)], input=stdin)


def publish(topic: str, *payloads: str, port: int, client: str = "") -> None:
    lines = "\n".join(payloads).encode()
    done = invoke("pub", topic, "--lines", "-q", "1", *(("--id", client) if client else ()), port=port, stdin=lines)
    assert done.exit_code == 0, done.output


def rows(done: Result) -> list[dict[str, object]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


@contextmanager
def running_replay(*arguments: str, port: int) -> Iterator[subprocess.Popen[str]]:
    program = "from holdfast.cli.main import main; main()"
    command = [sys.executable, "-c", program, "replay", *arguments, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_it_prints_what_is_stored_with_its_time_and_ends(port: int, topic: str) -> None:
    """More than a window of messages, and the end comes although nothing else is published."""
    payloads = [f"{number}" for number in range(1500)]
    publish(topic, *payloads, port=port)
    done = invoke("replay", topic, "--from", "-1h", port=port)
    assert done.exit_code == 0, done.output
    found = [line.split(" ") for line in done.stdout.splitlines()]
    assert [(where, what) for _time, where, what in found] == [(topic, payload) for payload in payloads]
    times = [time for time, _where, _what in found]
    assert times == sorted(times)
    assert done.stderr.startswith(f"replayed 1,500 messages, 4.9 KB, from {times[0]} to {times[-1]}, in ")


def test_nothing_stored_is_an_end_too(port: int, topic: str) -> None:
    done = invoke("replay", topic, "--from", "earliest", port=port)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("replayed 0 messages, 0 B, in ")


def test_the_end_waits_for_every_shard(port: int) -> None:
    """Shards are read one after the other: one that is through is not the end."""
    for client in ("a", "b", "c", "d", "e", "f"):
        publish(f"two/end/{client}", *(f"{client}{number}" for number in range(300)), port=port, client=client)
    found = rows(invoke("replay", "two/end/#", "--from", "-1h", "--json", port=port))
    assert len({str(row["offset"]).split(":")[0] for row in found}) == 2, "the test needs two shards"
    assert sorted(str(row["payload"]) for row in found) == sorted(
        f"{c}{number}" for c in "abcdef" for number in range(300)
    )


def test_json_has_the_message_as_it_was_published(port: int, topic: str) -> None:
    pairs = ("--property", "content_type=text/plain", "--property", "ts=mine")
    assert invoke("pub", topic, "-m", "x", "-q", "2", "--retain", *pairs, port=port).exit_code == 0
    done = invoke("replay", topic, "--from", "-1h", "--json", port=port)
    (row,) = rows(done)
    assert str(row.pop("time")).endswith("Z")
    assert str(row.pop("offset")).startswith("0:")
    assert row == {
        "topic": topic,
        "payload": "x",
        "qos": 2,
        "retain": True,
        "dup": False,
        "properties": {"content_type": "text/plain", "user_properties": [["ts", "mine"]]},
    }
    summary = json.loads(done.stderr)
    assert (summary["messages"], summary["bytes"], summary["complete"]) == (1, 1, True)
    assert summary["from"] == summary["to"]


def test_from_and_until_bound_it(port: int, topic: str) -> None:
    publish(topic, "1", "2", "3", port=port)
    offsets = [row["offset"] for row in rows(invoke("replay", topic, "--from", "-1h", "--json", port=port))]
    second, third = (str(offset).split(":")[1] for offset in offsets[1:])
    found = rows(invoke("replay", topic, "--from", second, "--until", third, "--json", port=port))
    assert [row["payload"] for row in found] == ["2"]


def test_a_copy_below_a_prefix_is_complete_in_order_and_not_copied_again(port: int, topic: str) -> None:
    payloads = [f"{number}" for number in range(1200)]
    publish(f"{topic}/a", *payloads, port=port)
    assert invoke("pub", f"{topic}/b", "-m", "x", "--retain", "--property", "a=1", port=port).exit_code == 0
    # The filter matches the copies as well.
    done = invoke("replay", f"{topic}/#", "--from", "-1h", "--to-prefix", f"{topic}/copy", "--json", port=port)
    assert json.loads(done.stdout)["messages"] == 1201
    copied = rows(invoke("replay", f"{topic}/copy/#", "--from", "-1h", "--json", port=port))
    assert [row["payload"] for row in copied] == [*payloads, "x"]
    assert {row["topic"] for row in copied} == {f"{topic}/copy/{topic}/{leaf}" for leaf in "ab"}
    assert [row["qos"] for row in copied] == [1] * 1201
    last = copied[-1]
    assert last["retain"] is False
    names = [pair[0] for pair in last["properties"]["user_properties"]]  # type: ignore[index]
    assert names == ["a", "ts"]


def test_it_goes_into_another_broker(port: int, broker: RunningBroker, topic: str) -> None:
    """The other one need not keep history: a subscriber is there."""
    publish(topic, "1", "2", port=port)
    other = broker.ports["tcp"]
    program = "import typer; from holdfast.cli.sub import sub; typer.run(sub)"
    command = [sys.executable, "-c", program, f"there/{topic}", "--count", "2", "-q", "1", "--port", str(other)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as subscriber:
        assert subscriber.stderr is not None
        assert subscriber.stderr.readline().startswith("subscribed to ")
        into = ("--into", f"127.0.0.1:{other}", "--to-prefix", "there")
        done = invoke("replay", topic, "--from", "-1h", *into, port=port)
        assert done.exit_code == 0, done.output
        assert done.stdout.startswith("replayed 2 messages, 2 B, from ")
        out, _err = subscriber.communicate(timeout=20)
        assert out.splitlines() == [f"there/{topic} 1", f"there/{topic} 2"]


def test_follow_goes_on_with_what_is_live_until_it_is_interrupted(port: int, topic: str) -> None:
    publish(topic, "old", port=port)
    with running_replay(topic, "--from", "-1h", "--follow", port=port) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith(f" {topic} old\n")
        publish(topic, "new", port=port)
        assert process.stdout.readline().endswith(f" {topic} new\n")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stderr.read().startswith("replayed 2 messages, 6 B, ")


def test_a_reader_that_leaves_ends_it_quietly(port: int, topic: str) -> None:
    publish(topic, *(["x" * 1000] * 300), port=port)
    with running_replay(topic, "--from", "-1h", port=port) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=20) == 0
        assert process.stderr.read().endswith("(not all)\n")


def read_progress(process: subprocess.Popen[str], messages: int) -> dict[str, object]:
    """The first line of progress with so many messages."""
    assert process.stdout is not None
    for line in process.stdout:
        row: dict[str, object] = json.loads(line)
        if row["messages"] == messages:
            return row
    raise AssertionError(f"it ended: {process.stderr.read() if process.stderr else ''}")


#: The slowest: makes minutes of the moment between two calls of `publish`.
SLOW = "0.000001"


def test_a_run_that_is_stopped_goes_on_behind_its_place(port: int, topic: str) -> None:
    payloads = ["1", "2", "3", "4", "5"]
    publish(topic, payloads[0], port=port)
    publish(topic, *payloads[1:], port=port)
    until = str(rows(invoke("replay", topic, "--from", "-1h", "--json", port=port))[-1]["offset"]).split(":")[1]
    again = (topic, "--from", "earliest", "--until", str(int(until) + 1), "--to-prefix", f"{topic}/copy", "--progress")
    with running_replay(*again, "--speed", SLOW, port=port) as process:
        told = read_progress(process, 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stdout is not None
        last = json.loads(process.stdout.read().splitlines()[-1])
    assert (last["messages"], last["complete"]) == (1, False)
    assert last["place"] == told["place"]
    done = invoke("replay", *again, "--after", str(last["place"]), port=port)
    assert done.exit_code == 0, done.output
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["messages"], end["complete"], end["share"]) == (4, True, 1.0)
    copied = rows(invoke("replay", f"{topic}/copy/#", "--from", "-1h", "--json", port=port))
    assert [row["payload"] for row in copied] == payloads


def test_a_killed_run_goes_on_behind_the_place_that_it_told_last(port: int) -> None:
    """Of two shards, merged: what lies before the place was acknowledged, and no message is left out."""
    payloads = {client: [f"{client}{number}" for number in range(20)] for client in "abcd"}
    publish("two/killed/first", "first", port=port)
    for client, own in payloads.items():
        publish(f"two/killed/{client}", *own, port=port, client=client)
    again = ("two/killed/#", "--from", "earliest", "--to-prefix", "copy-of-two", "--progress")
    with running_replay(*again, "--speed", SLOW, port=port) as process:
        place = str(read_progress(process, 1)["place"])
        process.kill()
    done = invoke("replay", *again, "--after", place, port=port)
    assert done.exit_code == 0, done.output
    copied = rows(invoke("replay", "copy-of-two/#", "--from", "-1h", "--json", port=port))
    assert sorted(str(row["payload"]) for row in copied) == sorted(
        ["first", *(payload for own in payloads.values() for payload in own)]
    )


def test_the_same_topics_get_each_message_once_more(port: int, topic: str) -> None:
    publish(topic, "1", "2", "3", port=port)
    done = invoke("replay", topic, "--from", "-1h", "--to-same-topics", "--json", port=port)
    assert json.loads(done.stdout)["messages"] == 3
    found = rows(invoke("replay", topic, "--from", "-1h", "--json", port=port))
    assert [row["payload"] for row in found] == ["1", "2", "3"] * 2


def test_a_job_is_interrupted_by_the_end_of_its_input(port: int, topic: str) -> None:
    publish(topic, "1", port=port)
    publish(topic, "2", port=port)
    command = [sys.executable, "-m", "holdfast.cli.job", "replay", topic, "--from", "earliest", "--to-prefix", "job"]
    command += ["--speed", SLOW, "--progress", "--port", str(port)]
    # As under the console, which ignores Ctrl-C.
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
    finally:
        signal.signal(signal.SIGINT, kept)
    with process:
        read_progress(process, 1)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=20) == 130
        assert process.stdout is not None
        assert json.loads(process.stdout.read().splitlines()[-1])["place"]


def test_a_broker_without_history_refuses_in_its_own_words(broker: RunningBroker) -> None:
    done = invoke("replay", "a", "--from", "-1h", port=broker.ports["tcp"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "this node keeps no history to replay" in done.stderr


def test_a_broker_that_knows_no_replay_is_told_apart(tmp_path: Path) -> None:
    with mosquitto(tmp_path, "allow_anonymous true", "user root") as foreign:
        done = invoke("replay", "a", "--from", "-1h", port=foreign)
    assert done.exit_code == 1
    assert "does not replay" in done.stderr


def test_a_target_that_is_not_there_is_named(port: int, topic: str) -> None:
    publish(topic, "1", port=port)
    done = invoke("replay", topic, "--from", "-1h", "--into", "127.0.0.1:1", port=port)
    assert done.exit_code == 1
    assert "127.0.0.1:1" in done.stderr


def test_an_export_has_what_was_acknowledged_while_the_broker_runs(disk_broker: RunningBroker, topic: str) -> None:
    publish(topic, "1", "2", port=disk_broker.ports["tcp"])
    data = str(disk_broker.folder / "data")
    arguments = ["export", topic, "--data", data, "--format", "jsonl", "--columns", "payload"]
    assert [row["payload"] for row in rows(CliRunner().invoke(app, arguments))] == ["1", "2"]
    publish(topic, "3", port=disk_broker.ports["tcp"])
    assert [row["payload"] for row in rows(CliRunner().invoke(app, arguments))] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a/#/b", "--from", "-1h"), "'#' must be the whole last level"),
        (("$replay/-1h/a", "--from", "-1h"), "says where to begin already"),
        (("$share/g/a", "--from", "-1h"), "is shared, and a replay is not"),
        (("a", "--from", "soon"), "--from: 'soon' is none of: earliest, latest"),
        (("a", "--from", "-1h", "--until", "soon"), "--until: 'soon' is none of"),
        (("a", "--from", "-1h", "--until", "-2h"), "--from -1h is not before --until -2h"),
        (("a", "--from", "latest"), "--from latest is not before --until latest"),
        (("a", "--from", "-1h", "--until", "-1m", "--follow"), "leave --until out"),
        (("a", "--from", "-1h", "--speed", "0"), "write max, or a number above 0"),
        (("a", "--from", "-1h", "--speed", "fast"), "write max, or a number above 0"),
        (("a", "--from", "-1h", "--to-prefix", "a/#"), "--to-prefix: topic name 'a/#' contains a wildcard"),
        (("a", "--from", "-1h", "--into", "127.0.0.1:9"), "is the broker that is replayed; add --to-prefix"),
        (("a", "--from", "-1h", "--into", "h:x"), "--into mqtt://h:x: the port must be a number"),
        (("a", "--from", "-1h", "--into", "nowhere:99999"), "--into mqtt://nowhere:99999: the port must be a number"),
        (("a", "--from", "-1h", "--into-user", "u"), "add --into HOST:PORT"),
        (("a", "--from", "-1h", "--after", "x"), "--after: 'x' is no SHARD:POSITION"),
        (("a", "--from", "-1h", "--after", "0:1,1:2"), "names more than one position"),
        (("a", "--from", "-1h", "--after", "0:1", "--follow"), "leave --follow out"),
        (("a", "--from", "-1h", "--progress"), "--progress is for publishing up to an end"),
        (("a", "--from", "-1h", "--to-same-topics", "--to-prefix", "b"), "without --to-prefix and --into"),
        (("a", "--from", "-1h", "--to-same-topics", "--follow"), "would follow its own messages"),
        (("a", "--from", "-1h", "-V", "3"), "replay needs MQTT 5"),
    ],
)
def test_wrong_usage_is_told_what_would_be_right(arguments: tuple[str, ...], message: str) -> None:
    done = invoke("replay", *arguments, port=9)
    assert done.exit_code == 2
    assert done.stderr.startswith("holdfast: ")
    assert message in done.stderr
