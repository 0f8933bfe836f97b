"""Events: each once, the newest first, by all that they say."""

from holdfast.records.events import Event
from holdfast.storage.event_files import EventFiles
from tests.unit.history.past.asked_broker import Asked


def test_events_are_listed_the_newest_first_by_all_that_they_say(asked: Asked) -> None:
    made = [
        Event(number // 2, ["denied", "expired"][number % 2], f"c{number % 3}", f"plant/{number}", count=number + 1)
        for number in range(2, 40)
    ]
    EventFiles(asked.folder).write(made)
    rows = asked.ask.pages("events", "events", limit=7)
    assert len(rows) == len(made)
    assert [row["at_us"] for row in rows] == sorted((event.time_us for event in made), reverse=True)
    assert {(row["at_us"], row["reason"], row["client"], row["topic"], row["count"]) for row in rows} == {
        (event.time_us, event.reason, event.client, event.topic, event.count) for event in made
    }
    answer = asked("events", reason="denied", client="c0", since=5, until=12)
    wanted = [one for one in made if 5 <= one.time_us < 12 and one.client == "c0"]
    assert len(answer["events"]) == answer["matched"] == sum(one.reason == "denied" for one in wanted)
    first = asked("events", limit=7)
    assert first["matched"] == asked("events", limit=7, cursor=first["next_cursor"])["matched"] == len(made)
    assert answer["counts_by_reason"] == {
        reason: sum(one.count for one in wanted if one.reason == reason) for reason in ("denied", "expired")
    }
    assert [row["topic"] for row in asked("events", topic="+/17")["events"]] == ["plant/17"]
    assert asked.ask.refused("events", reason="nonsense").parameter == "reason"


def test_events_are_counted_over_time_and_every_one_lies_in_a_part(asked: Asked) -> None:
    made = [Event(1000 + number * 7, ["denied", "expired"][number % 2], "c", "t", count=number) for number in range(40)]
    EventFiles(asked.folder).write(made)
    for parts in (1, 7, 600):
        density = asked("events", reason="denied", since=1050, until=1200, buckets=parts, limit=1)["density"]
        assert (density["from_us"], density["to_us"]) == (1050, 1200)
        assert 0 < len(density["counts"]) <= parts
        chosen = [event for event in made if 1050 <= event.time_us < 1200 and event.reason == "denied"]
        counts = [0] * len(density["counts"])
        for event in chosen:
            counts[(event.time_us - 1050) // density["step_us"]] += max(1, event.count)
        assert density["counts"] == counts
        assert density["total"] == sum(counts)
    assert asked("events")["density"] is None


def test_a_range_without_a_beginning_begins_with_the_first_event(asked: Asked) -> None:
    EventFiles(asked.folder).write([Event(1000, "denied", "c", "t"), Event(1005, "denied", "c", "t")])
    density = asked("events", until=1010, buckets=10)["density"]
    assert (density["from_us"], density["to_us"], density["total"]) == (1000, 1010, 2)
    empty = asked("events", since=5, until=7, buckets=10)["density"]
    assert (empty["from_us"], empty["to_us"], empty["total"]) == (5, 7, 0)
    assert asked.ask.refused("events", buckets=601).parameter == "buckets"
