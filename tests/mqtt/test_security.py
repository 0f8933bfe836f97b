"""Password file, access file and certificates, end to end: who comes in, and what reaches whom."""

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.broker.access.passwords import set_password
from holdfast.model.protocol import V5, V31, V311
from holdfast.wire.packets import Disconnect, Publish, Will
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.mqtt.conftest import StartBroker
from tests.mqtt.raw import RawClient
from tests.unit.server.certificates import Authority

pytestmark = pytest.mark.compiled

PASSWORD = b"correct horse"
NOT_RELOADED = "not reloaded, the old one stays"
RULES = """
topic read public/#

user ann
topic readwrite plant/#
topic deny plant/secret/#

user bob
topic read plant/a

pattern readwrite own/%c/%u
"""

VERSIONS = pytest.mark.parametrize("version", [pytest.param(V311, id="3.1.1"), pytest.param(V5, id="5")])


@pytest.fixture(scope="session")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A password file, made once: hashing is slow by intent."""
    path = tmp_path_factory.mktemp("passwords") / "passwords"
    for user in ("ann", "bob"):
        set_password(path, user, PASSWORD)
    return path.read_text(encoding="utf-8")


#: Anonymous clients come in through the listener `open` alone.
GUARDED = """
[listeners.tcp]
port = 0
[listeners.open]
port = 0
allow_anonymous = true
[security]
password_file = "passwords"
acl_file = "rules"
"""


def write_files(folder: Path, passwords: str) -> None:
    (folder / "passwords").write_text(passwords, encoding="utf-8")
    (folder / "rules").write_text(RULES, encoding="utf-8")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, passwords: str) -> Iterator[RunningBroker]:
    """A broker with both files, for tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("guarded")
    write_files(folder, passwords)
    running = RunningBroker(folder, GUARDED)
    yield running
    running.stop()


@pytest.fixture
def changing(start_broker: StartBroker, tmp_path: Path, passwords: str) -> RunningBroker:
    """The same, with its files in `tmp_path`, for tests that change them."""
    write_files(tmp_path, passwords)
    return start_broker(GUARDED)


def joined(broker: RunningBroker, user: str, client_id: str = "", version: int = V5) -> RawClient:
    """A client that is in."""
    client = RawClient(broker.ports["tcp"], version)
    answer = client.connect(client_id or f"{user}-client", user=user, password=PASSWORD)
    assert answer.reason == 0, answer
    return client


# Coming in


@pytest.mark.parametrize("version", [V31, V311, V5])
def test_the_right_password_opens(version: int, guarded: RunningBroker) -> None:
    with joined(guarded, "ann", version=version) as client:
        assert client.ping() == []


@pytest.mark.parametrize(
    ("user", "password"),
    [("ann", b"wrong"), ("ann", PASSWORD + b" "), ("ann", b""), ("eve", PASSWORD), ("", PASSWORD)],
    ids=["wrong", "longer", "empty", "unknown user", "no name"],
)
@pytest.mark.parametrize(("version", "code"), [(V31, 4), (V311, 4), (V5, 0x86)])
def test_a_wrong_password_is_refused_with_the_code_for_it(
    version: int, code: int, user: str, password: bytes, guarded: RunningBroker
) -> None:
    with RawClient(guarded.ports["tcp"], version) as client:
        answer = client.connect("c", user=user, password=password)
        assert (answer.reason, answer.session_present) == (code, False)
        assert client.rest() == []
    assert PASSWORD.decode() not in "".join(guarded.lines)


@pytest.mark.parametrize(("version", "code"), [(V31, 5), (V311, 5), (V5, 0x87)])
def test_who_brings_nothing_is_refused_unless_the_listener_allows_it(
    version: int, code: int, guarded: RunningBroker
) -> None:
    with RawClient(guarded.ports["tcp"], version) as client:
        assert client.connect("nobody").reason == code
        assert client.rest() == []
    with RawClient(guarded.ports["open"], version) as client:
        assert client.connect("nobody").reason == 0
        assert client.subscribe("public/x") == (0,)
        assert client.subscribe("plant/a") == (0x87 if version == V5 else 0x80,)


# What they may do


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_a_denied_publish_is_answered_and_reaches_nobody(version: int, qos: int, guarded: RunningBroker) -> None:
    refused = 0x87 if version == V5 else 0
    publish = {"client": "bob-client", "topic": "plant/a"}
    denied = len(guarded.events("publish denied", **publish))
    with joined(guarded, "ann") as watcher, joined(guarded, "bob", version=version) as publisher:
        watcher.subscribe("plant/#")
        assert publisher.publish("plant/a", b"denied", qos, retain=True) == refused
        publisher.publish("plant/a", b"denied", 0)
        assert publisher.ping() == []
        assert watcher.ping() == []
        # Nor is it retained.
        assert watcher.subscribe("plant/a") == (0,)
        assert watcher.ping() == []
    said = guarded.wait_for("publish denied", denied + 2, **publish)
    assert len(said) == denied + 2


@VERSIONS
def test_a_denied_subscription_is_refused_alone(version: int, guarded: RunningBroker) -> None:
    refused = 0x87 if version == V5 else 0x80
    with joined(guarded, "bob", version=version) as client:
        filters = ("plant/a", "plant/b", "public/#", "$share/g/plant/b", "$SYS/#")
        assert client.subscribe(*filters, qos=1) == (1, refused, refused, refused, refused)


@VERSIONS
def test_a_wide_subscription_delivers_what_may_be_read_and_nothing_else(version: int, guarded: RunningBroker) -> None:
    with joined(guarded, "ann") as publisher, joined(guarded, "bob", version=version) as reader:
        publisher.publish("plant/b", b"retained, not for bob", 1, retain=True)
        publisher.publish("plant/a", b"retained", 1, retain=True)
        assert reader.subscribe("#", qos=0) == (0,)
        assert publisher.publish("plant/secret/x", b"of nobody", 1) == 0x87
        publisher.publish("plant/b", b"not for bob", 1)
        publisher.publish("plant/a", b"for bob", 1)
        assert [message.payload for message in reader.ping()] == [b"retained", b"for bob"]
        for topic in ("plant/a", "plant/b"):
            publisher.publish(topic, b"", 1, retain=True)


@VERSIONS
def test_what_was_queued_is_checked_again_when_the_session_returns(
    version: int, changing: RunningBroker, tmp_path: Path
) -> None:
    def connect(client: RawClient) -> bool:
        kept_s = 600 if version == V5 else 0
        answer = client.connect("away", user="bob", password=PASSWORD, clean_start=False, expiry_s=kept_s)
        assert answer.reason == 0
        return answer.session_present

    with RawClient(changing.ports["tcp"], version) as away:
        assert not connect(away)
        assert away.subscribe("plant/a", qos=1) == (1,)
    with joined(changing, "ann") as publisher:
        publisher.publish("plant/a", b"queued", 1)
    (tmp_path / "rules").write_text(RULES.replace("topic read plant/a", "topic read plant/z"), encoding="utf-8")
    changing.reload()
    with RawClient(changing.ports["tcp"], version) as back:
        assert connect(back)
        assert back.ping() == []


@pytest.mark.parametrize(("version", "code"), [(V311, 5), (V5, 0x87)])
def test_a_client_whose_will_is_denied_does_not_come_in(version: int, code: int, guarded: RunningBroker) -> None:
    with joined(guarded, "ann") as watcher, RawClient(guarded.ports["tcp"], version) as client:
        assert watcher.subscribe("plant/#") == (0,)
        will = Will("plant/a", b"will")
        assert client.connect("b", user="bob", password=PASSWORD, will=will).reason == code
        assert client.rest() == []
        assert watcher.ping() == []


@VERSIONS
def test_a_pattern_speaks_of_the_clients_own_names(version: int, guarded: RunningBroker) -> None:
    refused = 0x87 if version == V5 else 0x80
    with joined(guarded, "bob", "device-1", version) as client:
        assert client.subscribe("own/device-1/bob", "own/device-2/bob", "own/device-1/ann") == (0, refused, refused)
        client.send(Publish("own/device-1/bob", b"mine", 0))
        assert [message.payload for message in client.ping()] == [b"mine"]
    with joined(guarded, "bob", "+", version) as client:
        assert client.subscribe("own/+/bob", "own/device-1/bob") == (refused, refused)


# Changing one's mind


def test_a_reload_lets_new_users_in_and_keeps_the_old_ones(
    changing: RunningBroker, tmp_path: Path, passwords: str
) -> None:
    with joined(changing, "ann") as stays:
        with RawClient(changing.ports["tcp"]) as client:
            assert client.connect("c", user="carl", password=PASSWORD).reason == 0x86
        set_password(tmp_path / "passwords", "carl", PASSWORD)
        (tmp_path / "rules").write_text(RULES + "user carl\ntopic read plant/a\n", encoding="utf-8")
        changing.reload()
        with joined(changing, "carl") as client:
            assert client.subscribe("plant/a") == (0,)
            assert stays.publish("plant/a", b"x", 1) == 0
            assert [message.payload for message in client.ping()] == [b"x"]


@VERSIONS
def test_a_reload_takes_rights_from_clients_that_are_connected(
    version: int, changing: RunningBroker, tmp_path: Path
) -> None:
    with joined(changing, "ann") as publisher, joined(changing, "bob", version=version) as reader:
        assert reader.subscribe("plant/a") == (0,)
        publisher.publish("plant/a", b"before", 1)
        assert [message.payload for message in reader.ping()] == [b"before"]
        rules = RULES.replace("topic read plant/a", "").replace("readwrite plant/#", "readwrite plant/+")
        (tmp_path / "rules").write_text(rules, encoding="utf-8")
        changing.reload()
        assert publisher.publish("plant/a", b"after", 1) in (0, 0x10)
        assert publisher.publish("plant/b/c", b"after", 1) == 0x87
        assert reader.ping() == []


def test_a_reload_sends_away_users_who_are_no_longer_in_the_file(
    changing: RunningBroker, tmp_path: Path, passwords: str
) -> None:
    with joined(changing, "ann") as stays, joined(changing, "bob") as goes:
        only_ann = [line for line in passwords.splitlines(keepends=True) if line.startswith("ann:")]
        (tmp_path / "passwords").write_text("".join(only_ann), encoding="utf-8")
        changing.reload()
        assert stays.ping() == []
        goes.socket.settimeout(5)
        assert [type(packet) for packet in goes.rest()] == [Disconnect]


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [("passwords", "ann:plain text\n", "passwords:1"), ("rules", "topic maybe a/#\n", "rules:1")],
)
def test_a_broken_file_keeps_the_old_rules_and_is_named(
    name: str, text: str, where: str, changing: RunningBroker, tmp_path: Path
) -> None:
    changing.expected_errors.add(NOT_RELOADED)
    (tmp_path / name).write_text(text, encoding="utf-8")
    changing.reload()
    (entry,) = changing.events(NOT_RELOADED)
    assert (entry["what"], where in entry["why"]) == ("access", True)
    assert "plain text" not in entry["why"]
    with joined(changing, "ann") as ann, joined(changing, "bob") as bob:
        assert bob.subscribe("plant/a") == (0,)
        assert bob.publish("plant/a", b"x", 1) == 0x87
        assert ann.publish("plant/a", b"y", 1) == 0
        assert [message.payload for message in bob.ping()] == [b"y"]


# Certificates


@pytest.fixture
def mutual(start_broker: StartBroker, tmp_path: Path, authority: Authority) -> RunningBroker:
    """A broker that knows its clients by their certificates."""
    files = authority.server_files("mutual")
    (tmp_path / "rules").write_text(RULES, encoding="utf-8")
    return start_broker(
        f'[listeners.tls]\nkind = "tls"\nport = 0\ncertificate = "{files["certificate"]}"\nkey = "{files["key"]}"\n'
        f'client_ca = "{authority.file}"\nrequire_client_certificate = true\n[security]\nacl_file = "rules"\n'
    )


@VERSIONS
def test_the_name_in_a_certificate_is_the_user_whatever_else_is_said(
    version: int, mutual: RunningBroker, authority: Authority
) -> None:
    refused = 0x87 if version == V5 else 0x80
    port = mutual.ports["tls"]
    with RawClient(port, version, tls=authority.client("bob")) as client:
        assert client.connect("c", user="ann", password=b"x").reason == 0
        assert client.subscribe("plant/a", "plant/b", "own/c/bob") == (0, refused, 0)
    with RawClient(port, version, tls=authority.client("ann")) as client:
        assert client.connect("c").reason == 0
        assert client.subscribe("plant/b") == (0,)


def test_without_a_trusted_certificate_there_is_no_connection(
    mutual: RunningBroker, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path)
    for context in (authority.client(), authority.client("ann", signed_by=stranger)):
        # With TLS 1.3 the client may believe for a moment that it is in.
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):  # noqa: SIM117
            with RawClient(mutual.ports["tls"], tls=context) as client:
                client.connect("c")
    with RawClient(mutual.ports["tls"], tls=authority.client("ann")) as client:
        assert client.connect("c").reason == 0


# Starting


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "::"])
def test_an_open_door_to_the_network_is_refused_with_the_commands_that_close_it(host: str, tmp_path: Path) -> None:
    program = "from holdfast.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--host", host, "--port", "0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2
    assert "there are no credentials" in done.stderr
    for remedy in (
        "holdfast user add NAME --file holdfast.passwd",
        f"holdfast serve --host {host} --set security.password_file=holdfast.passwd",
        "--host 127.0.0.1",
        "--set listeners.default.allow_anonymous=true",
    ):
        assert remedy in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_commands_that_the_refusal_names_work(start_broker: StartBroker, tmp_path: Path) -> None:
    program = "from holdfast.cli.main import main; main()"
    add = [sys.executable, "-c", program, "user", "add", "ann", "--file", "holdfast.passwd", "--password-stdin"]
    subprocess.run(add, cwd=tmp_path, input=PASSWORD, capture_output=True, timeout=DEADLINE_S, check=True)
    settings = '[listeners.default]\nhost = "0.0.0.0"\nport = 0\n'
    broker = start_broker(settings, "--set", "security.password_file=holdfast.passwd")
    with RawClient(broker.ports["default"]) as client:
        assert client.connect("c").reason == 0x87
    with RawClient(broker.ports["default"], host=socket.gethostbyname(socket.gethostname())) as client:
        assert client.connect("c", user="ann", password=PASSWORD).reason == 0


# What is said of it


def test_failed_handshakes_and_listeners_open_to_all_are_in_the_log(
    authority: Authority, start_broker: StartBroker
) -> None:
    files = authority.server_files("broker")
    pair = f'certificate = "{files["certificate"]}"\nkey = "{files["key"]}"\n'
    broker = start_broker(
        '[listeners.all]\nhost = "0.0.0.0"\nport = 0\nallow_anonymous = true\n'
        f'[listeners.secure]\nkind = "tls"\nport = 0\n{pair}'
    )
    (loud,) = broker.wait_for("ANYONE WHO REACHES THIS LISTENER MAY CONNECT WITHOUT CREDENTIALS")
    assert (loud["level"], loud["listener"]) == ("warning", "all")
    with socket.create_connection(("127.0.0.1", broker.ports["secure"]), DEADLINE_S) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while peer.recv(4096):
            pass
    (failed,) = broker.wait_for("tls handshake failed")
    assert (failed["listener"], failed["address"], failed["why"]) == ("secure", "127.0.0.1", "HTTP_REQUEST")
