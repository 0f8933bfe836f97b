"""`holdfast explain` and `holdfast events` beside a broker that runs, after its end, and after its next start."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.model.protocol import PUBACK
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Publish
from holdfast.wire.properties import Properties
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.mqtt.load import wait_until
from tests.mqtt.raw import RawClient

pytestmark = pytest.mark.slow

# A message that expires after 0 seconds is delivered if its commit is synced on the loop, in the same microsecond.
SETTINGS = """
[listeners.default]
port = 0
[storage]
data = "data"
min_free_bytes = 0
sync_on_loop = "never"
[security]
acl_file = "access"
"""
RULES = "topic readwrite #\ntopic deny plant/secret\n"


def command(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300"})
    return done.exit_code, done.output


def explained(folder: Path, topic: str, client: str = "reader", since: str = "-1h") -> Any:
    status, output = command(
        "explain", "--data", folder / "data", "--client", client, "--topic", topic, "--since", since, "--json"
    )
    assert status == 0, output
    return json.loads(output)


def states(folder: Path, topic: str = "plant/#", client: str = "reader") -> dict[str, tuple[str, str]]:
    """State and first words of the reason, by topic."""
    return {one["topic"]: (one["state"], one["why"]) for one in explained(folder, topic, client)["messages"]}


def state_of(folder: Path, topic: str) -> str:
    return states(folder, topic)[topic][0]


def reasons(folder: Path, *arguments: str) -> set[str]:
    status, output = command("events", "--data", folder / "data", "--json", *arguments)
    assert status == 0, output
    return {event["reason"] for event in json.loads(output)}


def connected(broker: RunningBroker, name: str, *, kept: bool = True, largest: int | None = None) -> RawClient:
    client = RawClient(broker.ports["default"])
    properties = Properties(session_expiry_interval=3600 if kept else 0, maximum_packet_size=largest)
    client.send(Connect(5, name, clean_start=not kept, properties=properties))
    assert client.expect(Connack).reason == 0
    return client


def leave(client: RawClient) -> None:
    client.send(Disconnect())
    assert client.receive() is None


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker and a reader that met every fate there is, one topic each."""
    folder = tmp_path_factory.mktemp("explain")
    (folder / "access").write_text(RULES)
    broker = RunningBroker(folder, SETTINGS)
    with connected(broker, "writer", kept=False) as writer:
        writer.publish("plant/early", b"", 1)
        with connected(broker, "reader", largest=200) as reader:
            reader.subscribe("plant/#", "$share/team/shared", qos=1)
            for topic, acknowledge in (("plant/done", True), ("plant/open", False)):
                writer.publish(topic, b"", 1)
                message = reader.expect(Publish)
                assert message.topic == topic
                if acknowledge:
                    reader.send(Ack(PUBACK, message.packet_id))
            writer.publish("plant/large", bytes(500), 1)
            writer.publish("plant/zero", b"", 0)
            assert [message.topic for message in reader.ping()] == ["plant/zero"]
            assert writer.publish("plant/secret", b"", 1) == 0x87
            leave(reader)
        writer.send(Publish("plant/short", b"", 1, 900, properties=Properties(message_expiry_interval=0)))
        assert writer.expect(Ack).reason == 0
        writer.publish("plant/owed", b"", 1)
        writer.publish("other", b"", 1)
        writer.publish("shared", b"", 1)
    yield broker
    broker.stop()


FATES = {
    "plant/early": ("not_for_it", "the subscription began later"),
    "plant/done": ("acknowledged", "the client has it"),
    "plant/open": ("in_flight", "sent with packet id"),
    "plant/large": ("dropped", "packet_too_large: it is larger than the client takes"),
    "plant/zero": ("qos0", "QoS 0"),
    "plant/short": ("dropped", "expired: its expiry interval had passed"),
    "plant/owed": ("owed", "waits for the client, which is offline"),
}


def check(found: dict[str, tuple[str, str]]) -> None:
    assert {topic: state for topic, (state, _why) in found.items()} == {
        topic: state for topic, (state, _why) in FATES.items()
    }
    for topic, (_state, why) in FATES.items():
        assert found[topic][1].startswith(why), (topic, found[topic])


def test_every_fate_is_told_while_the_broker_runs(told: RunningBroker) -> None:
    # Events are written once a second.
    wait_until(lambda: state_of(told.folder, "plant/short") == "dropped", "the events are on disk")
    check(states(told.folder))
    assert states(told.folder, "other")["other"][1] == "no subscription of the session matches the topic"
    assert states(told.folder, "shared")["shared"][0] == "with_its_group"
    answer = explained(told.folder, "plant/open")
    (message,) = answer["messages"]
    assert message["publisher"] == "writer"
    assert message["position_us"] >= message["received_us"]
    assert message["packet_id"] > 0
    assert [one["filter"] for one in message["matched"]] == ["plant/#"]
    assert answer["session"]["connected"] is False
    assert answer["events_complete"] is True
    assert explained(told.folder, "plant/#", since="latest")["messages"] == []


def test_events_are_listed_while_the_broker_runs(told: RunningBroker) -> None:
    wait_until(lambda: "expired" in reasons(told.folder), "the events are on disk")
    assert reasons(told.folder) == {"denied", "expired", "packet_too_large"}
    assert reasons(told.folder, "--client", "reader") == {"packet_too_large"}
    assert reasons(told.folder, "--topic", "plant/secret") == {"denied"}


def test_people_get_a_table(told: RunningBroker) -> None:
    status, output = command("explain", "--data", told.folder / "data", "--client", "reader", "--topic", "plant/+")
    assert status == 0, output
    assert "client reader: offline since" in output
    assert "plant/# (QoS 1, since " in output
    assert "in flight" in output
    status, output = command(
        "explain", "--data", told.folder / "data", "--client", "reader", "--topic", "plant/+", "--limit", "2"
    )
    assert "5 older messages are not shown" in output
    assert "plant/owed" in output
    assert "plant/early" not in output


def test_what_cannot_be_explained_says_why(told: RunningBroker) -> None:
    data = told.folder / "data"
    status, output = command("explain", "--data", data, "--client", "nobody", "--topic", "a")
    assert (status, "no stored session of client 'nobody'" in output) == (1, True)
    status, output = command("explain", "--data", data, "--client", "reader", "--topic", "a/#/b")
    assert (status, "'#' must be the whole last level" in output) == (2, True)
    status, output = command("explain", "--data", data, "--client", "reader", "--topic", "a", "--since", "once")
    assert (status, "--since 'once' is no time" in output) == (2, True)
    status, output = command("explain", "--data", data / "nowhere", "--client", "reader", "--topic", "a")
    assert status == 2, output


def test_all_of_it_is_told_after_a_kill_and_another_start(tmp_path: Path) -> None:
    """A broker that was killed has its events, up to a second before; the next one goes on with them."""
    (tmp_path / "access").write_text(RULES)
    broker = RunningBroker(tmp_path, SETTINGS)
    with connected(broker, "reader") as reader, connected(broker, "writer", kept=False) as writer:
        reader.subscribe("plant/#", qos=1)
        writer.send(Publish("plant/short", b"", 1, 1, properties=Properties(message_expiry_interval=0)))
        writer.expect(Ack)
        wait_until(lambda: "expired" in reasons(tmp_path), "the events are on disk")
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait(DEADLINE_S)
        broker._reader.join(DEADLINE_S)
        assert broker.process.stderr is not None
        broker.process.stderr.close()
    assert state_of(tmp_path, "plant/short") == "dropped"
    again = RunningBroker(tmp_path, SETTINGS)
    with connected(again, "writer", kept=False) as writer:
        writer.publish("plant/later", b"", 1)
    again.stop()
    assert states(tmp_path)["plant/later"][0] == "owed"
    assert states(tmp_path)["plant/short"][0] == "dropped"


def test_what_a_full_queue_refused_is_explained(tmp_path: Path) -> None:
    """S7: `journal.max_queue_messages` rules whatever the class says; publishers are told 0x97, the reader a notice."""
    settings = SETTINGS.replace("[security]", '[sessions]\nqueue = "journal"\non_full = "refuse"\n[security]')
    (tmp_path / "access").write_text("topic readwrite #\ntopic read $SYS/#\n", encoding="utf-8")
    broker = RunningBroker(tmp_path, settings + "[journal]\nmax_queue_messages = 2\n")
    with connected(broker, "reader") as reader:
        reader.subscribe("plant/#", "$SYS/broker/queue/full", qos=1)
        leave(reader)
    with connected(broker, "writer", kept=False) as writer:
        assert [writer.publish(f"plant/{number}", b"", 1) for number in range(1, 5)] == [0, 0, 0, 0x97]
    wait_until(lambda: state_of(tmp_path, "plant/3") == "dropped", "the events are on disk")
    assert states(tmp_path, "plant/3")["plant/3"][1].startswith("quota: the client's queue was full")
    assert reasons(tmp_path, "--topic", "plant/4") == {"quota"}
    with connected(broker, "reader") as reader:
        got = [reader.expect(Publish).topic for _message in range(3)]
    assert got == ["plant/1", "plant/2", "$SYS/broker/queue/full"]
    broker.stop()
