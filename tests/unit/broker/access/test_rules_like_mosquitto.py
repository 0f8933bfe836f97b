"""The same access file means the same here as in a real Mosquitto, apart from the differences that `rules` names."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from holdfast.broker.access.rules import Rules
from holdfast.model.reasons import NOT_AUTHORIZED
from tests.mqtt.load import wait_until
from tests.services import need

FILE = """\
# general
topic read public/#
topic write public/in box/+
user alice
topic plant/+/temp
topic readwrite plant/1/#
topic deny plant/1/safe/#
topic write $own/alice
user bob
topic deny bob/private
topic write bob/#
pattern readwrite clients/%c/#
pattern write users/%u/x-%c
pattern deny clients/+/locked
"""
CLIENTS = [("c1", "alice"), ("c2", "bob"), ("c3", "carol"), ("c4", None), ("c+", "alice"), ("c6", "#")]
TOPICS = [
    "public/a", "public/in box/1", "plant/2/temp", "plant/2/speed", "plant/1", "plant/1/safe", "plant/1/x/y",
    "plant/1/safe/door", "$own/alice", "bob", "bob/private", "bob/private/x", "clients/c1/x", "clients/c2",
    "clients/c3", "clients/c4/up", "clients/x/x", "clients/c1/locked", "users/alice/x-c1", "users/bob/x-c2",
    "users/alice/x-c2", "users/x/x-c6", "users/carol/x-c3",
]  # fmt: skip


@contextmanager
def mosquitto(folder: Path) -> Iterator[int]:
    program = need("mosquitto", "mosquitto")
    (folder / "acl").write_text(FILE, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    (folder / "conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nacl_file {folder / 'acl'}\nuser root\n", encoding="utf-8"
    )
    log = folder / "log"
    with (
        log.open("w") as told,
        subprocess.Popen([program, "-c", str(folder / "conf"), "-v"], stderr=told) as broker,
    ):
        try:
            wait_until(lambda: " running" in log.read_text() or broker.poll() is not None, "Mosquitto serves")
            yield port
            assert broker.poll() is None, f"Mosquitto ended by itself: {broker.returncode}"
        except BaseException as error:
            error.add_note(log.read_text()[-5000:])
            raise
        finally:
            broker.kill()


def writable(port: int, client_id: str, user: str | None) -> set[str]:
    """What a client may publish to: Mosquitto tells by the reason code in PUBACK."""
    answers: dict[str, ReasonCode] = {}
    reasons: dict[int, ReasonCode] = {}
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
    client.username_pw_set(user)
    client.on_publish = lambda _client, _data, mid, reason, _properties: reasons.update({mid: reason})
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        for topic in TOPICS:
            sent = client.publish(topic, b"x", qos=1)
            sent.wait_for_publish(30)
            assert sent.mid in reasons, f"no answer to a publish to {topic}"
            answers[topic] = reasons[sent.mid]
        return {topic for topic, reason in answers.items() if reason.value != NOT_AUTHORIZED}
    finally:
        client.disconnect()
        client.loop_stop()


@pytest.mark.slow
def test_a_client_may_publish_what_mosquitto_lets_it_publish(tmp_path: Path) -> None:
    with mosquitto(tmp_path) as port:
        theirs = {client: writable(port, *client) for client in CLIENTS}
    rules = Rules.load(tmp_path / "acl")
    ours = {
        client: {topic for topic in TOPICS if rules.for_client(*client).may_publish(topic.encode())}
        for client in CLIENTS
    }
    assert ours == theirs
    assert sum(map(len, ours.values())) > len(CLIENTS)
