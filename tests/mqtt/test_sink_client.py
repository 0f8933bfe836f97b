"""The publisher of Spark's workers against a real broker: TLS, passwords, rights, takeovers."""

from pathlib import Path

import pytest

from holdfast.broker.access.passwords import set_password
from holdfast.client.blocking_client import BlockingClient
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.message import OutgoingMessage
from holdfast.model.protocol import PUBLISH
from holdfast.pipeline.sink.broker_client import open_client
from holdfast.pipeline.sink.stream_writer import add_number
from holdfast.pipeline.sink.write_options import WriteOptions, parse_write_options
from tests.mqtt.broker_process import RunningBroker
from tests.mqtt.conftest import StartBroker
from tests.mqtt.raw import RawClient
from tests.unit.server.certificates import Authority

pytestmark = pytest.mark.slow


def publisher(options: WriteOptions, client_id: str = "worker") -> BlockingClient:
    return open_client(options, client_id)


def message(topic: str, payload: str = "x", qos: int = 1) -> OutgoingMessage:
    return OutgoingMessage(PUBLISH << 4 | qos << 1, topic.encode(), b"", payload.encode())


def options(port: int, scheme: str = "mqtt", **more: str) -> WriteOptions:
    return parse_write_options({"broker": f"{scheme}://localhost:{port}", "retryForS": "1", **more})


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("scheme", ["mqtt", "mqtts"])
def test_messages_arrive_over_every_transport(
    broker: RunningBroker, authority: Authority, scheme: str, qos: int
) -> None:
    more = {"caFile": str(authority.file)} if scheme == "mqtts" else {}
    topic = f"spark/{scheme}/{qos}"
    with RawClient(broker.ports["tcp"]) as reader:
        reader.connect()
        reader.subscribe(topic)
        sender = publisher(options(broker.ports["tls" if scheme == "mqtts" else "tcp"], scheme, **more))
        for number in range(300):
            sender.send(message(topic, str(number), qos))
        sender.settle()
        sender.close()
        assert [got.payload for got in reader.ping()] == [b"%d" % number for number in range(300)]


def test_who_is_not_trusted_is_not_published_to(broker: RunningBroker) -> None:
    with pytest.raises(RefusedError, match=r"certificate of .* is not accepted: .*see the option caFile"):
        publisher(options(broker.ports["tls"], "mqtts")).send(message("a"))
    with pytest.raises(LostError, match="gave up after 1 s without progress: "):
        publisher(options(broker.ports["tls"])).send(message("a"))


def test_rights_and_passwords_are_told(
    start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_password(tmp_path / "passwords", "spark", b"secret")
    (tmp_path / "rules").write_text("user spark\ntopic write out/#\n", encoding="utf-8")
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")
    running = start_broker('[security]\npassword_file = "passwords"\nacl_file = "rules"\n')
    port = running.ports["tcp"]
    monkeypatch.setenv("WRONG", "guess")

    sender = publisher(options(port, user="spark", passwordFile=str(tmp_path / "password")))
    sender.send(message("out/a"))
    sender.send(message("elsewhere"))
    with pytest.raises(RefusedError, match=r"refused the message to elsewhere: Not authorized \(0x87\)"):
        sender.settle()
    sender.close()
    sender = publisher(options(port, user="spark", passwordFile=str(tmp_path / "password")))
    sender.send(add_number(message("elsewhere"), 1))
    with pytest.raises(RefusedError, match=r"ended the connection: Not authorized .*'elsewhere'"):
        sender.settle()
    sender.close()
    for wrong in ({"user": "spark", "passwordEnv": "WRONG"}, {}):
        with pytest.raises(RefusedError, match="refused the connection"):
            publisher(options(port, **wrong)).send(message("out/a"))


def test_of_two_attempts_the_newer_one_stays_and_rows_are_taken_once(broker: RunningBroker) -> None:
    with RawClient(broker.ports["tcp"]) as reader:
        reader.connect()
        reader.subscribe("zombie")
        rows = [add_number(message("zombie", str(number)), number + 1) for number in range(200)]
        older, newer = (publisher(options(broker.ports["tcp"], maxInflight="10"), "spark-q-0") for _ in range(2))
        for row in rows[:120]:
            older.send(row)
        for row in rows:
            newer.send(row)
        with pytest.raises(RefusedError, match="another client has connected with this client id"):
            older.settle()
        older.close()
        newer.settle()
        newer.close()
        assert [got.payload for got in reader.ping()] == [b"%d" % number for number in range(200)]
