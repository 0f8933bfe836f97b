"""Sessions, queues and retained messages as tables: what the broker knows, read beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.history.explanation import OWED, explain
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.tables.session_view import read_session
from holdfast.history.tables.tables import QUEUES, RETAINED, SCHEMAS, SESSIONS, TableQuery, key_ranges, table_batches
from holdfast.model.errors import MisuseError
from holdfast.model.protocol import PUBREC, V5
from holdfast.node.settings.tree import ZoneSettings
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connect, Publish, Will
from holdfast.wire.properties import Properties
from tests.disk_world import DiskWorld, publish, replay
from tests.slow_world import kept, subscribe


class Tables:
    """A broker on disk, and its tables as of now."""

    def __init__(self, world: DiskWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder

    def rows(self, table: str, *columns: str, keys_each: int | None = None, **query: Any) -> list[dict[str, Any]]:
        self.world.tick()
        asked = TableQuery(table, columns or tuple(SCHEMAS[table].names), **query)
        now_us = self.world.clock.wall_us()
        with HistoryReader.open(self.folder) as reader:
            found = [
                row
                for keys in key_ranges(reader, asked, keys_each)
                for batch in table_batches(reader, asked, now_us, keys)
                for row in batch.to_pylist()
            ]
            if keys_each is not None:
                at_once = [row for batch in table_batches(reader, asked, now_us) for row in batch.to_pylist()]
                assert found == at_once
            return found

    def owed(self, **owner: str) -> dict[str, Any]:
        """The one row of `queues` that belongs to somebody."""
        (row,) = [
            row
            for row in self.rows(QUEUES, exact=True)
            if all(row[name] == value for name, value in owner.items()) and row["replay"] is None
        ]
        return row


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Tables]:
    with DiskWorld(tmp_path) as world:
        yield Tables(world, tmp_path)


# ---- sessions


def test_a_session_tells_its_subscriptions_its_will_and_when_it_ends(tables: Tables) -> None:
    peer = tables.world.peer()
    will = Will("last/words", b"gone", 1, retain=True, properties=Properties(will_delay_interval=30))
    properties = Properties(session_expiry_interval=100)
    peer.send(Connect(V5, "reader", clean_start=False, will=will, properties=properties))
    peer.send(subscribe("plant/+/temp", 2, identifier=7), subscribe("$share/team/jobs", 1))
    (row,) = tables.rows(SESSIONS)
    assert (row["connected"], row["disconnected_at"], row["expires_at"], row["expiry_s"]) == (True, None, None, 100)
    assert (row["will_topic"], row["will_qos"], row["will_retain"], row["will_delay_s"]) == ("last/words", 1, True, 30)
    shared, own = row["subscriptions"]
    assert (shared["filter"], shared["group"], shared["qos"]) == ("$share/team/jobs", "team", 1)
    assert (own["filter"], own["group"], own["qos"], own["identifier"]) == ("plant/+/temp", None, 2, 7)
    peer.drop()
    (row,) = tables.rows(SESSIONS)
    assert row["connected"] is False
    assert (row["expires_at"] - row["disconnected_at"]).total_seconds() == 100
    assert (row["will_due_at"] - row["disconnected_at"]).total_seconds() == 30


def test_what_is_in_flight_is_counted_by_qos(tables: Tables) -> None:
    reader = kept(tables.world, "reader")
    reader.subscribe("#", qos=2)
    publish(tables.world, ("a", b"1"), ("a", b"2"))
    publish(tables.world, ("b", b"3"), qos=2)
    writer = kept(tables.world, "writer-2")
    writer.send(Publish("c", b"not released", 2, 9))
    reader.drop()
    rows = {row["client_id"]: row for row in tables.rows(SESSIONS)}
    assert (rows["reader"]["inflight_qos1"], rows["reader"]["inflight_qos2"]) == (2, 2)
    assert rows["writer-2"]["incoming_qos2"] == 1


def test_ranges_of_keys_divide_no_session_and_leave_none_out(tables: Tables) -> None:
    for number in range(7):
        peer = kept(tables.world, f"client-{'x' * number}")
        peer.send(*[subscribe(f"topic/{i}", packet_id=i + 1) for i in range(5)])
    rows = tables.rows(SESSIONS, "client_id", "subscriptions", keys_each=3)
    assert [len(row["subscriptions"]) for row in rows] == [5] * 7


# ---- queues


def test_a_queue_is_counted_as_explain_judges_each_message(tables: Tables) -> None:
    world = tables.world
    reader = kept(world, "reader", receive_maximum=1)
    reader.send(subscribe("plant/+/temp", 1), subscribe("plant/1/#", 2, packet_id=51))
    publish(world, ("plant/1/temp", b"in flight"))
    reader.drop()
    publish(world, ("plant/1/temp", b"both"), ("plant/2/temp", b"one"), ("plant/2/flow", b"none"), ("x", b"none"))
    writer = world.connect("writer")
    writer.send(Publish("plant/1/temp", b"qos 0"))
    writer.send(Publish("plant/3/temp", b"short", 1, 1, properties=Properties(message_expiry_interval=5)))
    row = tables.owed(client_id="reader")
    assert (row["owed"], row["owed_at_most"]) == (3, 6)
    assert row["oldest_owed_at"] == row["behind_since"]
    assert [flight["waits_for"] for flight in row["inflight"]] == ["PUBACK"]
    world.tick(10)
    assert tables.owed(client_id="reader")["owed"] == 2
    with HistoryReader.open(tables.folder) as files:
        session = read_session(files, "reader")
        assert session is not None
        told = explain(files, session, parse_filter(b"#"), 0, 100, [], world.clock.wall_us())
    owed = [fate for fate in told.fates if fate.state == OWED and "expired" not in fate.why]
    assert sorted(fate.message.payload for fate in owed) == [b"both", b"one"]


def test_an_estimate_reads_no_backlog_and_says_so(tables: Tables) -> None:
    reader = kept(tables.world, "reader")
    reader.subscribe("a", qos=1)
    reader.drop()
    publish(tables.world, ("a", b"1"), ("b", b"2"), ("b", b"3"))
    (row,) = tables.rows(QUEUES)
    assert (row["owed_at_most"], row["owed"], row["oldest_owed_at"]) == (3, None, None)
    assert row["behind_since"] is not None


def test_who_has_everything_is_owed_nothing(tables: Tables) -> None:
    reader = kept(tables.world, "reader")
    reader.subscribe("#", qos=1)
    publish(tables.world, ("a", b"1"))
    (message,) = reader.take_all(Publish)
    reader.send(Ack(4, message.packet_id))
    tables.world.tick()
    reader.drop()
    row = tables.owed(client_id="reader")
    assert (row["owed"], row["owed_at_most"], row["behind_since"], row["inflight"]) == (0, 0, None, [])
    assert row["sent_offset"] == row["head_offset"]


def test_nothing_waits_for_a_subscription_with_qos_0(tables: Tables) -> None:
    reader = kept(tables.world, "reader")
    reader.subscribe("#", qos=0)
    reader.drop()
    publish(tables.world, ("a", b"1"))
    assert tables.rows(QUEUES, exact=True) == []


def test_a_qos_2_message_that_was_done_before_the_rest_is_not_owed(tables: Tables) -> None:
    reader = kept(tables.world, "reader")
    reader.subscribe("#", qos=2)
    publish(tables.world, ("a", b"1"), ("a", b"2"), qos=2)
    _first, second = reader.take_all(Publish)
    reader.send(Ack(PUBREC, second.packet_id))
    row = tables.owed(client_id="reader")
    assert row["owed"] == 0
    assert [flight["waits_for"] for flight in row["inflight"]] == ["PUBREC", "PUBCOMP"]


def test_a_group_is_owed_what_no_member_has(tables: Tables) -> None:
    member = kept(tables.world, "member")
    member.subscribe("$share/team/jobs/#", qos=1)
    publish(tables.world, ("jobs/1", b"given"))
    (message,) = member.take_all(Publish)
    member.send(Ack(4, message.packet_id))
    tables.world.tick()
    member.drop()
    publish(tables.world, ("jobs/2", b"waits"), ("other", b"not for it"))
    row = tables.owed(group="$share/team/jobs/#")
    assert (row["client_id"], row["connected"], row["owed"], row["owed_at_most"]) == (None, None, 1, 2)
    assert [row["client_id"] for row in tables.rows(SESSIONS)] == ["member"]
    assert [row for row in tables.rows(QUEUES) if row["client_id"] == "member"] == []


def test_a_replay_under_way_has_a_row_of_its_own(tables: Tables) -> None:
    publish(tables.world, *((f"a/{number}", b"past") for number in range(50)), qos=1)
    tables.world.connect("writer").send(Publish("a/qos0", b"belongs to history"))
    tables.world.advance(5)
    reader = kept(tables.world, "reader", receive_maximum=1)
    replay(reader, "$replay/earliest/a/#", qos=1)
    reader.drop()
    (row,) = [row for row in tables.rows(QUEUES, exact=True) if row["replay"]]
    assert row["replay"] == "$replay/earliest/a/#"
    assert 49 <= row["owed"] <= 51
    assert row["owed"] <= row["owed_at_most"]
    assert tables.owed(client_id="reader")["owed"] == 0
    (session,) = tables.rows(SESSIONS)
    assert session["subscriptions"][0]["replaying"] is True


def test_only_shards_that_may_have_something_have_a_row(tmp_path: Path) -> None:
    zones = {"press": ZoneSettings(filter="press/#"), "audit": ZoneSettings(filter="audit/#")}
    with DiskWorld(tmp_path, zones=zones) as world:
        tables = Tables(world, tmp_path)
        kept(world, "one").subscribe("press/1", qos=1)
        kept(world, "all").subscribe("#", qos=1)
        publish(world, ("press/1", b"1"), ("audit/1", b"2"), ("x", b"3"))
        rows = tables.rows(QUEUES, "client_id", "zone", "shard")
        zones_of = {name: {row["zone"] for row in rows if row["client_id"] == name} for name in ("one", "all")}
        assert zones_of == {"one": {"default", "press"}, "all": {"default", "press", "audit"}}


# ---- retained messages


def test_a_retained_message_comes_with_its_properties_and_its_place(tables: Tables) -> None:
    writer = tables.world.connect("writer")
    properties = Properties(content_type="text/plain", user_properties=(("unit", "C"), ("unit", "K")))
    writer.send(Publish("plant/1/temp", b"21", 1, 1, retain=True, properties=properties))
    (row,) = tables.rows(RETAINED)
    assert (row["topic"], row["payload"], row["qos"], row["client_id"]) == ("plant/1/temp", b"21", 1, "writer")
    assert (row["content_type"], row["user_properties"]) == ("text/plain", [("unit", "C"), ("unit", "K")])
    assert (row["expires_at"], row["shard"]) == (None, 0)
    assert row["offset"] > 0


def test_what_was_removed_or_has_expired_is_not_there(tables: Tables) -> None:
    writer = tables.world.connect("writer")
    short = Properties(message_expiry_interval=2)
    writer.send(Publish("kept", b"1", 1, 1, retain=True), Publish("gone", b"2", 1, 2, retain=True))
    writer.send(Publish("short", b"3", 1, 3, retain=True, properties=short), Publish("gone", b"", 1, 4, retain=True))
    assert [row["topic"] for row in tables.rows(RETAINED, "topic")] == ["kept", "short"]
    tables.world.advance(5)
    assert [row["topic"] for row in tables.rows(RETAINED, "topic")] == ["kept"]


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("plant/+/temp", ["plant/1/temp", "plant/2/temp"]),
        ("plant/1/#", ["plant/1/flow", "plant/1/temp"]),
        ("plant/2/temp", ["plant/2/temp"]),
        ("+/1", ["plant-b/1"]),
        ("nowhere", []),
    ],
)
def test_retained_messages_of_a_filter(tables: Tables, text: str, topics: list[str]) -> None:
    writer = tables.world.connect("writer")
    every = ["plant/1/temp", "plant/1/flow", "plant/2/temp", "plant-b/1", "$own/1"]
    writer.send(*(Publish(topic, b"x", 1, i + 1, retain=True) for i, topic in enumerate(every)))
    levels = parse_filter(text.encode()).levels
    found = tables.rows(RETAINED, "topic", keys_each=1, levels=levels)
    assert sorted(row["topic"] for row in found) == topics
    assert len(tables.rows(RETAINED, "topic", keys_each=2)) == 5


# ---- names


@pytest.mark.parametrize(
    ("table", "columns", "words"),
    [
        ("session", (), "there is no table 'session'; there are sessions, queues, retained"),
        (SESSIONS, ("client",), "there is no column 'client' in sessions; there are client_id, "),
        (SESSIONS, ("client_id", "client_id"), "column 'client_id' comes twice"),
    ],
)
def test_a_wrong_name_is_told_with_the_right_ones(
    tables: Tables, table: str, columns: tuple[str, ...], words: str
) -> None:
    with HistoryReader.open(tables.folder) as reader, pytest.raises(MisuseError) as caught:
        table_batches(reader, TableQuery(table, columns), 0)
    assert str(caught.value).startswith(words)
