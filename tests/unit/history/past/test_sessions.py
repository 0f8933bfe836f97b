"""Sessions, their queues and explanations: what a broker on disk did, asked beside it."""

import json

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.model.protocol import PUBREC, V5
from holdfast.wire.packets import Ack, Connect, Publish
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, publish
from tests.slow_world import kept, subscribe
from tests.unit.history.past.asked_broker import Asked


def offline(world: DiskWorld, client: str, *filters: str, qos: int = 1) -> None:
    """A session that waits."""
    peer = world.peer()
    peer.send(Connect(V5, client, clean_start=False, properties=Properties(session_expiry_interval=1000)))
    for text in filters:
        peer.send(subscribe(text, qos))
    peer.drop()


def test_a_list_of_sessions_has_each_once_and_searches_by_a_part_of_the_name(asked: Asked) -> None:
    names = [f"client-{number}" for number in range(12)] + ["ä/press", "x" * 300]
    for name in names:
        offline(asked.world, name, "plant/#")
    asked.world.tick()
    rows = asked.ask.pages("sessions", "sessions", limit=5)
    assert sorted(row["session_id"] for row in rows) == sorted(names)
    found = asked("sessions", q="PRESS")["sessions"]
    assert [row["session_id"] for row in found] == ["ä/press"]
    assert (found[0]["connected"], found[0]["subscriptions"], found[0]["expiry_s"]) == (False, 1, 1000)
    nobody = asked("sessions", q="nobody")
    assert (nobody["sessions"], nobody["next_cursor"]) == ([], None)


def test_a_session_tells_its_subscriptions_and_what_is_in_flight(asked: Asked) -> None:
    peer = kept(asked.world, "reader")
    peer.send(subscribe("jobs/#", 2, identifier=7), subscribe("a", 1))
    publish(asked.world, ("jobs/1", b"x"), ("jobs/2", b"y"), qos=2)
    first, _second = [packet for packet in peer.inbox if isinstance(packet, Publish)]
    peer.send(Ack(PUBREC, first.packet_id))
    answer = asked("session", id="reader")
    assert answer["connected"] is True
    assert [(one["filter"], one["qos"], one["no_local"], one["id"]) for one in answer["subscriptions"]] == [
        ("a", 1, False, None),
        ("jobs/#", 2, False, 7),
    ]
    states = {one["topic"]: (one["qos"], one["state"]) for one in answer["inflight"]}
    assert states == {"jobs/1": (2, "PUBCOMP"), "jobs/2": (2, "PUBREC")}
    assert asked.ask.refused("session", id="nobody").status == 404
    assert asked.ask.refused("session").parameter == "id"


@pytest.mark.parametrize("limit", [2, 100])
def test_a_queue_holds_what_the_client_gets_when_it_is_back(asked: Asked, limit: int) -> None:
    offline(asked.world, "reader", "plant/+/temp", "$own/#")
    publish(asked.world, *[(f"plant/{number}/temp", b"%d" % number) for number in range(7)], ("plant/1/flow", b"no"))
    publish(asked.world, ("$own/1", b"own"))
    publish(asked.world, ("plant/9/temp", b"qos0"), qos=0)
    asked.world.tick()
    shown = asked.ask.pages("queue", "messages", id="reader", limit=limit)
    assert [one["payload"]["text"] for one in shown] == [*map(str, range(7)), "own"]
    assert asked("queue", id="reader")["exact"] is True
    assert asked("session", id="reader")["owed_at_most"] >= 8
    back = asked.world.peer()
    back.send(Connect(V5, "reader", clean_start=False, properties=Properties(session_expiry_interval=1000)))
    got = [packet.payload.decode() for packet in back.inbox if isinstance(packet, Publish)]
    assert sorted(got) == sorted(one["payload"]["text"] for one in shown)


def test_a_session_without_subscriptions_is_owed_nothing(asked: Asked) -> None:
    offline(asked.world, "reader")
    publish(asked.world, ("a", b"1"))
    answer = asked("queue", id="reader")
    assert (answer["messages"], answer["next_cursor"]) == ([], None)


def test_explain_is_what_the_command_prints(asked: Asked) -> None:
    offline(asked.world, "reader", "plant/#")
    publish(asked.world, ("plant/1", b"1"), ("plant/2", b"2"), ("other", b"3"))
    asked.world.tick()
    for client in ("reader", "nobody"):
        done = CliRunner().invoke(
            app,
            [
                "explain",
                "--client",
                client,
                "--topic",
                "#",
                "--data",
                str(asked.folder),
                "--since",
                "earliest",
                "--json",
            ],
        )
        printed = json.loads(done.stdout)
        assert asked.ask("explain", id=client, filter="#", since="earliest") == printed
    assert [one["state"] for one in asked.ask("explain", id="reader", since="earliest")["messages"]] == [
        "owed",
        "owed",
        "not_for_it",
    ]
