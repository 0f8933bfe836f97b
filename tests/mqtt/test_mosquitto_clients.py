"""mosquitto_pub, mosquitto_sub and mosquitto_rr, over what they have: TCP and TLS, MQTT 3.1, 3.1.1 and 5."""

import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.services import need
from tests.unit.server.certificates import Authority

pytestmark = pytest.mark.compiled

VERSIONS = {"3.1": "mqttv31", "3.1.1": "mqttv311", "5": "mqttv5"}
EVERY_WAY = pytest.mark.parametrize(
    ("transport", "version"), [(transport, version) for transport in ("tcp", "tls") for version in VERSIONS]
)
#: One line per message: QoS, retain, payload in hexadecimal, topic. A word in front tells it from debug lines.
FORMAT = "MESSAGE %q %r %x %t"

Options = Callable[..., list[str]]


@pytest.fixture
def options(broker: RunningBroker, authority: Authority) -> Options:
    """The options that lead to the broker."""

    def of(transport: str = "tcp", version: str = "5") -> list[str]:
        secure = ["--cafile", str(authority.file)] if transport == "tls" else []
        return ["-h", "localhost", "-p", str(broker.ports[transport]), "-V", VERSIONS[version], *secure]

    return of


@pytest.fixture
def topic() -> str:
    """A topic of its own for each test."""
    return f"m{uuid.uuid4().hex[:16]}"


def pub(*arguments: str, stdin: bytes = b"") -> None:
    command = [need("mosquitto_pub", "mosquitto-clients"), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def sub(*arguments: str) -> subprocess.Popen[str]:
    """mosquitto_sub, its lines not held back."""
    command = [need("mosquitto_sub", "mosquitto-clients"), "-d", "-F", FORMAT, "-W", "60", *arguments]
    return subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, text=True)


def line_with(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    seen: list[str] = []
    for line in process.stdout:
        seen.append(line)
        if word in line:
            return line.strip()
    raise AssertionError(f"no {word!r} in {''.join(seen)}")


def message(process: subprocess.Popen[str]) -> tuple[int, int, bytes, str]:
    """The next message: QoS, retain, payload, topic."""
    line = line_with(process, "MESSAGE ").removeprefix("MESSAGE ")
    qos, retain, payload, name = line.split(" ", 3)
    return int(qos), int(retain), bytes.fromhex(payload), name


@contextmanager
def ending(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()


@contextmanager
def subscribed(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """mosquitto_sub, once it is subscribed; it ends with the block."""
    with sub(*arguments) as process, ending(process):
        line_with(process, "Subscribed")
        yield process


@pytest.mark.parametrize("qos", ["0", "1", "2"])
@EVERY_WAY
def test_payloads_arrive_once_in_order_and_byte_for_byte(
    transport: str, version: str, qos: str, options: Options, topic: str, tmp_path: Path
) -> None:
    way = options(transport, version)
    payloads = {"binary": bytes(range(256)), "empty": b"", "64 KiB": bytes(range(256)) * 256, "Grüße/世界": b"x"}
    with subscribed(*way, "-q", qos, "-t", f"{topic}/#") as process:
        for name, payload in payloads.items():
            file = tmp_path / "payload"
            file.write_bytes(payload)
            what = ["-f", str(file)] if payload else ["-n"]
            pub(*way, "-q", qos, "-t", f"{topic}/{name}", *what)
        expected = [(int(qos), 0, payload, f"{topic}/{name}") for name, payload in payloads.items()]
        assert [message(process) for _ in payloads] == expected


@EVERY_WAY
def test_lines_of_one_publisher_keep_their_order(transport: str, version: str, options: Options, topic: str) -> None:
    lines = [b"line %d" % number for number in range(300)]
    way = options(transport, version)
    with subscribed(*way, "-q", "2", "-t", topic) as process:
        pub(*way, "-q", "2", "-t", topic, "-l", stdin=b"\n".join(lines))
        assert [message(process)[2] for _ in lines] == lines


@EVERY_WAY
def test_a_retained_message_waits_for_subscribers(transport: str, version: str, options: Options, topic: str) -> None:
    way = options(transport, version)
    pub(*way, "-r", "-q", "1", "-t", topic, "-m", "kept")
    with subscribed(*way, "-q", "1", "-t", topic) as process:
        assert message(process) == (1, 1, b"kept", topic)
        pub(*way, "-q", "1", "-t", topic, "-m", "live")
        assert message(process) == (1, 0, b"live", topic)


@EVERY_WAY
def test_a_killed_client_leaves_its_will(transport: str, version: str, options: Options, topic: str) -> None:
    way = options(transport, version)
    will = ["--will-topic", f"{topic}/will", "--will-payload", "lost", "--will-qos", "2"]
    with subscribed(*way, "-q", "2", "-t", f"{topic}/#") as watcher:
        with subscribed(*way, "-t", "unused", "-E", *will) as leaving:
            leaving.wait(DEADLINE_S)  # of its own accord, with a goodbye
        with subscribed(*way, "-t", "unused", *will) as killed:
            killed.kill()
            killed.wait(DEADLINE_S)
        pub(*way, "-q", "2", "-t", f"{topic}/end", "-m", "end")
        assert [message(watcher) for _ in range(2)] == [
            (2, 0, b"lost", f"{topic}/will"),
            (2, 0, b"end", f"{topic}/end"),
        ]


@pytest.mark.parametrize("qos", ["1", "2"])
@EVERY_WAY
def test_a_kept_session_gets_what_it_missed(
    transport: str, version: str, qos: str, options: Options, topic: str
) -> None:
    way = options(transport, version)
    session = [*way, "-c", "-i", topic, "-q", qos, "-t", f"{topic}/+"]
    with subscribed(*session) as process:
        process.kill()
        process.wait(DEADLINE_S)
    for number in range(5):
        pub(*way, "-q", qos, "-t", f"{topic}/{number}", "-m", str(number))
    with sub(*session) as process, ending(process):
        expected = [(int(qos), 0, b"%d" % number, f"{topic}/{number}") for number in range(5)]
        assert [message(process) for _ in range(5)] == expected


@pytest.mark.parametrize("transport", ["tcp", "tls"])
def test_members_of_a_group_share_the_messages(transport: str, options: Options, topic: str) -> None:
    way = options(transport)
    sent = [b"%d" % number for number in range(20)]
    share = [*way, "-q", "1", "-t", f"$share/group/{topic}", "-t", f"{topic}/end"]
    with subscribed(*share) as one, subscribed(*share) as other:
        pub(*way, "-q", "1", "-t", topic, "-l", stdin=b"\n".join(sent))
        pub(*way, "-q", "1", "-t", f"{topic}/end", "-m", "end")
        shares: list[list[bytes]] = []
        for member in (one, other):
            share_of_one = []
            while (payload := message(member)[2]) != b"end":
                share_of_one.append(payload)
            shares.append(share_of_one)
    assert sorted(shares[0] + shares[1]) == sorted(sent)
    assert all(shares)


@pytest.mark.parametrize("transport", ["tcp", "tls"])
def test_properties_arrive_in_their_order(transport: str, options: Options, topic: str) -> None:
    way = options(transport)
    given: list[tuple[str, ...]] = [
        ("user-property", "z", "1"),
        ("user-property", "a", "2"),
        ("user-property", "a", "3"),
    ]
    given += [("content-type", "text/x"), ("response-topic", "r/t"), ("correlation-data", "c")]
    arguments = [word for words in given for word in ("-D", "publish", *words)]
    with subscribed(*way, "-t", topic, "-F", "MESSAGE %P|%C|%R|%D") as process:
        pub(*way, "-t", topic, "-m", "x", "-D", "publish", "message-expiry-interval", "100", *arguments)
        assert line_with(process, "MESSAGE ") == "MESSAGE z:1 a:2 a:3|text/x|r/t|c"


@pytest.mark.parametrize("transport", ["tcp", "tls"])
@pytest.mark.parametrize("version", ["3.1.1", "5"])
def test_mosquitto_rr_gets_the_response_to_its_request(
    transport: str, version: str, options: Options, topic: str
) -> None:
    way = options(transport, version)
    with subscribed(*way, "-t", f"{topic}/request") as process:
        command = [need("mosquitto_rr", "mosquitto-clients"), *way, "-W", "30"]
        command += ["-t", f"{topic}/request", "-e", f"{topic}/response", "-m", "question"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking, ending(asking):
            # It subscribes to the response before it asks.
            assert message(process)[2] == b"question"
            pub(*way, "-t", f"{topic}/response", "-m", "answer")
            assert asking.stdout is not None
            assert asking.stdout.read() == "answer\n"
            assert asking.wait(DEADLINE_S) == 0
