"""What became of a message: the finer cases, on the real log, beside the broker that writes it."""

from contextlib import suppress
from pathlib import Path

from holdfast.exchange.drops import MAX_KINDS
from holdfast.history.explanation import Explanation, explain
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.session_view import read_session
from holdfast.model.protocol import PUBCOMP, PUBREC
from holdfast.storage.event_files import read_events
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Publish
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, publish, replay
from tests.slow_world import kept


def answer(world: DiskWorld, folder: Path, client: str, topic: str = "#", limit: int = 100) -> Explanation:
    """As of now, with the events that a node would have written."""
    world.tick()
    with HistoryReader.open(folder) as reader:
        session = read_session(reader, client)
        assert session is not None
        now_us = world.clock.wall_us()
        return explain(reader, session, parse_filter(topic.encode()), 0, limit, read_events(folder), now_us)


def whys(world: DiskWorld, folder: Path, client: str, topic: str = "#") -> dict[str, str]:
    """State and reason, by payload."""
    return {
        fate.message.payload.decode(): f"{fate.state}: {fate.why}"
        for fate in answer(world, folder, client, topic).fates
    }


def test_a_qos_2_message_tells_which_packet_it_waits_for(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("#", qos=2)
        publish(world, ("a", b"sent"), ("a", b"received"), ("a", b"done"), qos=2)
        first, second, third = reader.take_all(Publish)
        reader.send(Ack(PUBREC, second.packet_id), Ack(PUBREC, third.packet_id))
        reader.send(Ack(PUBCOMP, third.packet_id))
        found = whys(world, tmp_path, "reader")
        assert found["sent"] == f"in_flight: sent with packet id {first.packet_id}, waits for PUBREC"
        assert found["received"] == f"in_flight: sent with packet id {second.packet_id}, waits for PUBCOMP"
        assert found["done"] == "acknowledged: the client has it"


def test_own_messages_that_expire_and_a_client_that_is_connected(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        both = kept(world, "both", receive_maximum=1)
        both.subscribe("#", qos=1, no_local=True)
        both.send(Publish("a", b"own", 1, 7))
        publish(world, ("a", b"in window"), ("a", b"waits"))
        found = whys(world, tmp_path, "both")
        assert found["own"] == "not_for_it: the client's own message, and the subscription is 'no local'"
        assert found["waits"].startswith("owed: not known to be acknowledged; the client is connected")
        both.drop()
        writer = world.connect("writer")
        writer.send(Publish("a", b"short", 1, 1, properties=Properties(message_expiry_interval=5)))
        assert whys(world, tmp_path, "both")["short"] == "owed: waits for the client, which is offline"
        world.tick(10)
        found = whys(world, tmp_path, "both")
        assert found["short"] == "owed: it has expired: it is dropped when its turn comes"
        assert found["in window"].startswith("in_flight: sent with packet id")


def test_qos_0_that_a_slow_client_missed_is_found_by_its_time(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader")
        reader.subscribe("#", qos=1)
        writer = world.connect("writer")
        writer.send(Publish("a", b"before"))
        world.advance(5)
        world.broker.writable(reader.channel, yes=False)
        writer.send(Publish("a", b"missed"))
        world.broker.writable(reader.channel, yes=True)
        world.advance(5)
        writer.send(Publish("a", b"after"))
        found = whys(world, tmp_path, "reader")
        assert found["missed"].startswith("dropped: slow_client: QoS 0, while the client did not read")
        assert (
            found["before"] == found["after"] == "qos0: QoS 0: sent if the client was connected and reading; not kept"
        )


def test_what_an_administrator_purged_is_named(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader", receive_maximum=1)
        reader.subscribe("a", qos=1)
        publish(world, ("a", b"sent"), ("a", b"purged"), ("a", b"too"))

        def purge() -> None:
            with suppress(StopIteration):
                world.broker.administration.purge("reader", None).send(None)

        world.do(purge)
        publish(world, ("a", b"later"))
        found = whys(world, tmp_path, "reader")
        assert found["sent"].startswith("in_flight:")
        assert found["purged"].startswith("dropped: purged: an administrator emptied the client's queue")
        assert found["too"] == found["purged"]
        assert found["later"].startswith("owed:")


def test_messages_of_a_group_are_with_the_group(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        member = kept(world, "member")
        member.subscribe("$share/team/#", qos=1)
        publish(world, ("a", b"given"))
        (message,) = member.take_all(Publish)
        member.send(Ack(4, message.packet_id))
        world.tick()
        member.drop()
        publish(world, ("a", b"waits"))
        found = whys(world, tmp_path, "member")
        assert found == {
            "given": "with_its_group: one member of the group has it, or was sent it",
            "waits": "with_its_group: waits for a member of the group, or is on its way to one",
        }


def test_a_replay_is_told_from_what_followed_it(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        publish(world, ("a", b"past"))
        world.advance(5)
        reader = kept(world, "reader")
        assert replay(reader, "$replay/earliest/a", qos=1) == [1]
        (message,) = reader.take_all(Publish)
        reader.send(Ack(4, message.packet_id))
        world.tick()
        reader.drop()
        publish(world, ("a", b"later"))
        assert whys(world, tmp_path, "reader") == {
            "past": "acknowledged: replayed, and the client has it",
            "later": "owed: waits for the client, which is offline",
        }


def test_the_newest_are_shown_in_their_order_and_all_are_counted(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        kept(world, "reader")
        publish(world, *((f"t/{number % 3}", b"%d" % number) for number in range(50)))
        found = answer(world, tmp_path, "reader", "t/+", limit=3)
        assert [fate.message.payload for fate in found.fates] == [b"47", b"48", b"49"]
        assert (found.found, found.lost_at_most, found.events_complete) == (50, 0, True)
        assert answer(world, tmp_path, "reader", "t/2").found == 16


def test_a_flood_of_drops_is_told_to_be_one(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        reader = kept(world, "reader", maximum_packet_size=30)
        reader.subscribe("#", qos=1)
        publish(world, *((f"t/{number}", bytes(50)) for number in range(MAX_KINDS + 5)))
        assert reader.inbox == []
        found = answer(world, tmp_path, "reader")
        assert [fate.state for fate in found.fates[-6:]].count("dropped") < 6
        assert not found.events_complete


def test_an_unknown_client_has_no_session(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        world.connect("passing")
        world.tick()
        with HistoryReader.open(tmp_path) as reader:
            assert read_session(reader, "nobody") is None
            assert read_session(reader, "passing") is None
