"""`holdfast pub` and `holdfast sub` without a broker: wrong usage, addresses, and what is asked of a broker."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme
import typer
from typer.testing import CliRunner, Result

from holdfast.cli.options.broker import BrokerOptions
from holdfast.cli.pub import pub
from holdfast.cli.sub import sub
from holdfast.model.protocol import CLIENT, V5, V311
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Packet, Suback, Subscribe

verbs = typer.Typer()
verbs.command()(pub)
verbs.command()(sub)


def invoke(*arguments: str, port: int) -> Result:
    return CliRunner().invoke(verbs, [*arguments, "--port", str(port)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pub", "a"), "exactly one of -m MESSAGE, --file FILE and --lines"),
        (("pub", "a", "-m", "x", "--lines"), "exactly one of -m MESSAGE, --file FILE and --lines"),
        (("pub", "a/#", "-m", "x"), "topic name 'a/#' contains a wildcard; only filters may"),
        (("pub", "", "-m", "x"), "the topic name is empty"),
        (("pub", "a", "--file", "/nowhere"), "--file /nowhere: No such file or directory"),
        (("pub", "a", "-m", "x", "--property", "a=b", "-V", "3"), "properties need MQTT 5; use -V 5"),
        (("pub", "a", "-m", "x", "--property", "a"), "--property a: write NAME=VALUE"),
        (("pub", "a", "-m", "x", "--property", "message_expiry_interval=soon"), "'soon'; it must be a whole number"),
        (("pub", "a", "-m", "x", "--property", "message_expiry_interval=4294967296"), "cannot be 4294967296"),
        (("pub", "a", "-m", "x", "--property", "content_type=a", "--property", "content_type=b"), "stands twice"),
        (("pub", "a", "-m", "x", "--property", "response_topic=a/+"), "response topic: topic name 'a/+' contains"),
        (("pub", "a", "-m", "x", "--user", "u", "--password-env", "NOT_SET"), "there is no such variable; export it"),
        (("pub", "a", "-m", "x", "--user", "u", "--password-file", "/nowhere"), "No such file or directory"),
        (("pub", "a", "-m", "x", "--password-env", "HOME"), "no user name; add --user NAME"),
        (("pub", "a", "-m", "x", "--password-env", "A", "--password-file", "b"), "use one of them"),
        (("pub", "a", "-m", "x", "--key", "k"), "no certificate that it belongs to; add --cert FILE"),
        (("pub", "a", "-m", "x", "--ca", "/nowhere"), "--ca /nowhere: No such file or directory"),
        (("pub", "a", "-m", "x", "--ca", __file__), "holds no certificate in PEM form"),
        (("pub", "a", "-m", "x", "--cert", "/nowhere"), "--cert /nowhere: No such file or directory"),
        (("pub", "a", "-m", "x", "--url", "mqtt://h"), "--url is given, and --host or --port as well"),
        (("sub", "a/#/b"), "'#' must be the whole last level"),
        (("sub", "a", "--persistent"), "--persistent needs --id NAME"),
        (("sub", "a", "--replay-from", "soon"), "is none of: earliest, latest, Unix microseconds"),
        (("sub", "$replay/-2h/a", "--replay-from", "-1h", "-V", "3"), "says where to begin already"),
        (("sub", "a", "--replay-speed", "10"), "need --replay-from, which says where to begin"),
        (("sub", "a", "--replay-from", "-1h", "--replay-until", "-5m", "-V", "3"), "need MQTT 5"),
    ],
)
def test_wrong_usage_is_told_what_would_be_right(arguments: tuple[str, ...], message: str) -> None:
    done = invoke(*arguments, port=1)
    assert done.exit_code == 2
    assert done.stderr.startswith("holdfast: ")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--url", "localhost"), "write mqtt://HOST, mqtts://HOST, ws://HOST or wss://HOST"),
        (("--url", "http://localhost"), "write mqtt://HOST, mqtts://HOST, ws://HOST or wss://HOST"),
        (("--url", "mqtt://"), "write mqtt://HOST"),
        (("--url", "mqtt://:1883"), "there is no host in it; write mqtt://HOST"),
        (("--url", "mqtt://h:0"), "the port must be a number from 1 to 65535"),
        (("--url", "mqtt://h:65536"), "the port must be a number from 1 to 65535"),
        (("--url", "mqtt://h/topic"), "nothing may follow the port; write mqtt://h, and topics apart"),
        (("--url", "mqtts://u:secret@h"), "leave the password out"),
        (("--url", "mqtts://u@h", "--user", "v"), "a user name in --url as well; use one of them"),
        (("--url", "mqtt://h", "--tls"), "--url mqtt://h is without TLS; write mqtts://"),
        (("--url", "ws://h", "--insecure"), "--url ws://h is without TLS; write wss://"),
    ],
)
def test_a_wrong_address_is_told_what_would_be_right(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(verbs, ["pub", "a", "-m", "x", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("options", "place"),
    [
        (BrokerOptions(), ("127.0.0.1", 1883, None, False, None)),
        (BrokerOptions(tls=True), ("127.0.0.1", 8883, None, True, None)),
        (BrokerOptions(host="h", port=99, insecure=True), ("h", 99, None, True, None)),
        (BrokerOptions(url="mqtt://h"), ("h", 1883, None, False, None)),
        (BrokerOptions(url="mqtts://a%40b@h/"), ("h", 8883, None, True, "a@b")),
        (BrokerOptions(url="ws://[::1]:8083"), ("::1", 8083, "/mqtt", False, None)),
        (BrokerOptions(url="wss://h/", tls=True), ("h", 443, "/mqtt", True, None)),
        (BrokerOptions(url="ws://h/a/b?c=d"), ("h", 80, "/a/b?c=d", False, None)),
    ],
)
def test_options_and_addresses_say_where_to_connect(options: BrokerOptions, place: tuple[object, ...]) -> None:
    target = options.target()
    assert (target.host, target.port, target.path, target.tls is not None, target.user_name) == place


def test_only_insecure_leaves_a_certificate_unchecked() -> None:
    checking, trusting = BrokerOptions(tls=True).target().tls, BrokerOptions(insecure=True).target().tls
    assert checking is not None
    assert trusting is not None
    assert (checking.check_hostname, checking.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (trusting.check_hostname, trusting.verify_mode) == (False, ssl.CERT_NONE)


def test_without_a_broker_the_message_says_where_it_was_looked_for() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        done = invoke("pub", "a", "-m", "x", port=port)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"holdfast: cannot connect to 127.0.0.1:{port}: ")
    assert "is a broker running there?" in done.stderr


@pytest.mark.parametrize(
    ("version", "topic_filter", "sent"),
    [
        ("3", "a/b", "$replay/-2h/a/b"),
        ("3", "$share/g/a/b", "$share/g/$replay/-2h/a/b"),
        ("5", "a/b", "a/b"),
    ],
)
def test_a_replay_is_asked_for_in_the_way_of_the_version(version: str, topic_filter: str, sent: str) -> None:
    """A recording broker: the first connection is accepted, and what comes next is kept."""
    level = V5 if version == "5" else V311
    with socket.create_server(("127.0.0.1", 0)) as server:
        packets: list[Packet] = []

        def serve() -> None:
            channel, _address = server.accept()
            with channel:
                framer = Framer()
                framer.speak(level)
                for answer in (encode(Connack(), level), encode(Suback(1, (0,)), level)):
                    packets.extend(decode_all(framer, channel.recv(65_536), level, CLIENT))
                    channel.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        invoke("sub", topic_filter, "--replay-from", "-2h", "-V", version, port=server.getsockname()[1])
        thread.join()
    subscribe = packets[1]
    assert isinstance(subscribe, Subscribe)
    assert [line.filter.raw.decode() for line in subscribe.subscriptions] == [sent]
    assert subscribe.properties.user_properties == ((("replay-from", "-2h"),) if version == "5" else ())


def test_a_broker_that_says_it_misses_a_certificate_is_quoted(tmp_path: Path) -> None:
    """With TLS 1.3 the client is through its handshake by then, and learns it in the place of an answer."""
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            channel, _address = server.accept()
            with channel, pytest.raises(ssl.SSLError), context.wrap_socket(channel, server_side=True):
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        done = invoke("pub", "a", "-m", "x", "--ca", str(tmp_path / "ca.pem"), port=server.getsockname()[1])
        thread.join()
    assert done.exit_code == 1
    assert "--cert FILE and --key FILE" in done.stderr
