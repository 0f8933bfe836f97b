"""`holdfast pub` and `holdfast sub` against a foreign broker: Mosquitto."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from bench.ports import free_port
from holdfast.cli.pub import pub
from holdfast.cli.sub import sub
from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError
from holdfast.client.options import ConnectionOptions
from holdfast.model.protocol import V5, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish, Subscription
from tests.services import need

VERSIONS = [pytest.param("3", id="v3"), pytest.param("5", id="v5")]
LEVELS = [pytest.param(V311, id="v3"), pytest.param(V5, id="v5")]
USER = "ann"
PASSWORD = "correct horse"

#: The verbs alone, so that these tests do not depend on the rest of the command line.
verbs = typer.Typer()
verbs.command()(pub)
verbs.command()(sub)


@contextmanager
def mosquitto(folder: Path, *settings: str) -> Iterator[int]:
    """A broker on a free port, until the end of the block."""
    program = need("mosquitto", "mosquitto")
    port = free_port()
    configuration = folder / "mosquitto.conf"
    lines = [f"listener {port} 127.0.0.1", "log_dest stderr", "log_type all", *settings]
    configuration.write_text("\n".join(lines) + "\n")
    with subprocess.Popen([program, "-c", str(configuration)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if " running" in line:
                break
        else:
            pytest.fail(f"mosquitto did not start:\n{''.join(said)}")
        # Its log has to be read, or it stops when the pipe is full.
        reader = threading.Thread(target=process.stderr.read)
        reader.start()
        try:
            yield port
        finally:
            process.terminate()
            reader.join()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with mosquitto(tmp_path_factory.mktemp("open"), "allow_anonymous true", "user root") as free_port:
        yield free_port


@pytest.fixture(scope="module")
def guarded_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A broker with a user, who may write below `open` only."""
    folder = tmp_path_factory.mktemp("guarded")
    users = folder / "users"
    users.touch()
    subprocess.run([need("mosquitto_passwd", "mosquitto"), "-b", str(users), USER, PASSWORD], check=True)
    rules = folder / "rules"
    rules.write_text(f"user {USER}\ntopic write open/#\ntopic read open/#\n")
    with mosquitto(folder, "user root", f"password_file {users}", f"acl_file {rules}") as free_port:
        yield free_port


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test."""
    return f"t/{abs(hash(request.node.nodeid)):x}"


def invoke(*arguments: str, port: int, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(verbs, [*arguments, "--port", str(port)], input=stdin)


@contextmanager
def running_sub(*arguments: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`holdfast sub` in a process of its own, entered once it is subscribed."""
    program = "import typer; from holdfast.cli.sub import sub; typer.run(sub)"
    command = [sys.executable, "-c", program, *arguments, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith(b"subscribed to "), line + process.stderr.read()
            yield process
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[bytes]) -> list[bytes]:
    assert process.stdout is not None
    return process.stdout.read().splitlines()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_what_is_published_is_printed_once_with_its_qos(port: int, topic: str, qos: str, version: str) -> None:
    options = ("-q", qos, "-V", version)
    with running_sub(topic, *options, "--count", "2", "--format", "json", port=port) as process:
        assert invoke("pub", topic, "-m", "grüße", *options, port=port).exit_code == 0
        assert invoke("pub", topic, "-m", "", *options, port=port).exit_code == 0
        rows = [json.loads(line) for line in lines_of(process)]
    common = {"topic": topic, "qos": int(qos), "retain": False, "dup": False}
    assert rows == [{**common, "payload": "grüße"}, {**common, "payload": ""}]


def test_a_payload_of_the_command_line_is_bytes(port: int, topic: str) -> None:
    with running_sub(topic, "--count", "1", port=port) as process:
        program = "import typer; from holdfast.cli.pub import pub; typer.run(pub)"
        command: list[str | bytes] = [sys.executable, "-c", program, topic, "-m", b"\xff\xfe", "--port", str(port)]
        assert subprocess.run(command, capture_output=True).stderr == b""
        assert lines_of(process) == [topic.encode() + b" \xff\xfe"]


@pytest.mark.parametrize("version", VERSIONS)
def test_wildcards_select_and_text_shows_the_topic(port: int, topic: str, version: str) -> None:
    with running_sub(f"{topic}/+/temp", "-V", version, "--count", "2", port=port) as process:
        for name in ("a/temp", "a/other", "b/temp"):
            assert invoke("pub", f"{topic}/{name}", "-m", f"of {name}", "-V", version, port=port).exit_code == 0
        assert lines_of(process) == [f"{topic}/{name}/temp of {name}/temp".encode() for name in "ab"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_every_line_of_standard_input_is_published_in_order(port: int, topic: str, qos: str, version: str) -> None:
    expected = [f"line {number}".encode() for number in range(500)]
    with running_sub(topic, "-q", qos, "-V", version, "--count", "500", port=port) as process:
        stdin = b"\r\n".join(expected)
        assert invoke("pub", topic, "--lines", "-q", qos, "-V", version, port=port, stdin=stdin).exit_code == 0
        assert lines_of(process) == [topic.encode() + b" " + line for line in expected]


def test_lines_are_published_as_they_come_not_at_the_end(port: int, topic: str) -> None:
    program = "import typer; from holdfast.cli.pub import pub; typer.run(pub)"
    command = [sys.executable, "-c", program, topic, "--lines", "-q", "1", "--port", str(port)]
    with (
        running_sub(topic, "-q", "1", "--count", "2", port=port) as process,
        subprocess.Popen(command, stdin=subprocess.PIPE) as publisher,
    ):
        assert process.stdout is not None
        assert publisher.stdin is not None
        publisher.stdin.write(b"first\nsec")
        publisher.stdin.flush()
        assert process.stdout.readline() == topic.encode() + b" first\n"
        publisher.stdin.write(b"ond\n")
        publisher.stdin.close()
        assert process.stdout.readline() == topic.encode() + b" second\n"
        assert publisher.wait(timeout=20) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retained_message_from_a_file_waits_for_subscribers(
    port: int, topic: str, version: str, tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"\xff\x00\n")
    assert invoke("pub", topic, "--file", str(file), "--retain", "-q", "1", "-V", version, port=port).exit_code == 0
    done = invoke("sub", topic, "--count", "1", "--format", "json", "-V", version, port=port)
    row = json.loads(done.stdout)
    assert (row["payload_base64"], row["retain"]) == ("/wAK", True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", ["1", "2"])
def test_a_persistent_session_gets_what_it_missed_once(port: int, topic: str, qos: str, version: str) -> None:
    options = ("-q", qos, "-V", version)
    session = (topic, *options, "--persistent", "--id", topic.replace("/", "-"), "--count", "1")
    assert invoke("pub", topic, "-m", "before", "--retain", *options, port=port).exit_code == 0
    assert invoke("sub", *session, port=port).stdout == f"{topic} before\n"
    # Not retained for the session, which is away, and cleared so that subscribing again does not repeat it.
    assert invoke("pub", topic, "-m", "", "--retain", *options, port=port).exit_code == 0
    for text in ("one", "two", "three"):
        assert invoke("pub", topic, "-m", text, *options, port=port).exit_code == 0
    printed = [invoke("sub", *session, port=port).stdout for _ in range(4)]
    assert printed == [f"{topic} {text}\n" for text in ("", "one", "two", "three")]


def test_properties_arrive_as_they_were_given(port: int, topic: str) -> None:
    given = ("content_type=text/plain", "message_expiry_interval=60", "correlation_data=x", "a=1", "a=2=3")
    with running_sub(topic, "--count", "1", "--format", "json", port=port) as process:
        arguments = [part for pair in given for part in ("--property", pair)]
        assert invoke("pub", topic, "-m", "x", *arguments, port=port).exit_code == 0
        properties = json.loads(lines_of(process)[0])["properties"]
    assert properties.pop("message_expiry_interval") in (59, 60)
    assert properties == {
        "content_type": "text/plain",
        "correlation_data": "eA==",
        "user_properties": [["a", "1"], ["a", "2=3"]],
    }


def test_an_interrupted_subscriber_leaves_in_peace(port: int, topic: str) -> None:
    with running_sub(topic, port=port) as process:
        process.send_signal(2)
        assert lines_of(process) == []
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_subscriber_whose_reader_has_left_ends_quietly(port: int, topic: str) -> None:
    with running_sub(topic, port=port) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert invoke("pub", topic, "-m", "x", port=port).exit_code == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


# Refusals


@pytest.mark.parametrize(
    ("version", "words"), [("3", "not authorized (return code 5)"), ("5", "Not authorized (0x87)")]
)
def test_a_refused_connection_names_the_reason(guarded_port: int, version: str, words: str) -> None:
    done = invoke("pub", "a", "-m", "x", "-V", version, port=guarded_port)
    assert done.exit_code == 1
    assert done.stderr == f"holdfast: the broker refused the connection: {words}\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_password_comes_from_a_variable_or_a_file(
    guarded_port: int, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQTT_PASSWORD", PASSWORD)
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    publish = ("pub", "open/x", "-m", "x", "-q", "1", "-V", version, "--user", USER)
    assert invoke(*publish, "--password-env", "MQTT_PASSWORD", port=guarded_port).exit_code == 0
    assert invoke(*publish, "--password-file", str(file), port=guarded_port).exit_code == 0
    file.write_text("wrong")
    done = invoke(*publish, "--password-file", str(file), port=guarded_port)
    assert done.exit_code == 1
    assert PASSWORD not in done.output
    assert "wrong" not in done.output


def test_a_refused_message_names_the_topic_and_the_reason(guarded_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQTT_PASSWORD", PASSWORD)
    publish = ("pub", "closed/x", "-m", "x", "--user", USER, "--password-env", "MQTT_PASSWORD")
    for qos in ("1", "2"):
        done = invoke(*publish, "-q", qos, port=guarded_port)
        assert done.exit_code == 1
        assert done.stderr == "holdfast: the broker refused the message to closed/x: Not authorized (0x87)\n"


# The client itself


@pytest.mark.parametrize("level", LEVELS)
def test_more_messages_than_the_window_arrive_in_order(port: int, topic: str, level: int) -> None:
    async def exchange() -> list[bytes]:
        count = 500
        async with Client(ConnectionOptions(port=port, version=level)) as client:
            await client.subscribe([Subscription(parse_filter(topic.encode()), 2)])
            for number in range(count):
                await client.publish(topic, b"%d" % number, 2)
            payloads: list[bytes] = []
            while len(payloads) < count:
                message = await client.receive()
                payloads.append(message.payload)
                client.acknowledge(message)
            await client.settle()
            return payloads

    assert asyncio.run(exchange()) == [b"%d" % number for number in range(500)]


@pytest.mark.parametrize("level", LEVELS)
def test_what_was_not_acknowledged_comes_again(port: int, topic: str, level: int) -> None:
    target = ConnectionOptions(
        port=port,
        version=level,
        client_id=topic.replace("/", "-"),
        clean_start=False,
        session_expiry_s=60,
    )

    async def exchange() -> tuple[Publish, bool, Publish]:
        async with Client(target) as client:
            await client.subscribe([Subscription(parse_filter(topic.encode()), 1)])
            await client.publish(topic, b"x", 1)
            first = await client.receive()
        async with Client(target) as client:
            again = await client.receive()
            client.acknowledge(again)
            return first, client.session_present, again

    first, present, again = asyncio.run(exchange())
    assert present
    assert (first.payload, first.dup, again.payload, again.dup) == (b"x", False, b"x", True)


def test_a_broker_that_goes_away_is_noticed_at_once(tmp_path: Path) -> None:
    async def exchange() -> None:
        with mosquitto(tmp_path, "allow_anonymous true", "user root") as own_port:
            stay = Client(ConnectionOptions(port=own_port, version=V311))
            client = await stay.__aenter__()
        try:
            await client.receive()
        except BaseException as error:
            if not await stay.__aexit__(type(error), error, error.__traceback__):
                raise

    with pytest.raises(LostError, match="the broker closed the connection without a reason"):
        asyncio.run(exchange())
