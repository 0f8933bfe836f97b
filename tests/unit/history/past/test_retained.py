"""Retained messages as of now: those that a subscriber would get, by every filter, page by page."""

from holdfast.wire.packets import Publish
from holdfast.wire.properties import Properties
from tests.unit.history.past.asked_broker import Asked


def test_retained_messages_are_found_by_every_filter_page_by_page(asked: Asked) -> None:
    writer = asked.world.connect("writer")
    topics = ["a", "a/b", "a/b/c", "a-b", "b/c", "$own/x", "a/", "gone"]
    for number, topic in enumerate(topics):
        writer.send(Publish(topic, b"%d" % number, 1, number + 1, retain=True))
    writer.send(Publish("gone", b"", 1, 90, retain=True))
    short = Properties(message_expiry_interval=5)
    writer.send(Publish("expired", b"x", 1, 91, retain=True, properties=short))
    asked.world.tick()
    for text, wanted in [
        ("#", ["a", "a/", "a/b", "a/b/c", "a-b", "b/c"]),
        ("a/#", ["a", "a/", "a/b", "a/b/c"]),
        ("+/b", ["a/b"]),
        ("+/+/c", ["a/b/c"]),
        ("$own/#", ["$own/x"]),
        ("nothing", []),
    ]:
        for limit in (1, 100):
            rows = asked.ask.pages("retained", "retained", filter=text, limit=limit)
            assert sorted(row["topic"]["text"] for row in rows) == sorted(wanted)
    answer = asked("retained")
    assert answer["count"] is not None
    assert answer["count"] >= 7
    assert asked("retained", filter="a/#")["count"] is None
    (row,) = asked("retained", filter="a/b")["retained"]
    assert (row["payload"], row["retain"], row["client"], row["zone"]) == ({"text": "1"}, True, "writer", "default")
