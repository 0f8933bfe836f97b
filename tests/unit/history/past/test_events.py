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
    assert len(answer["events"]) == sum(one.reason == "denied" for one in wanted)
    assert answer["counts_by_reason"] == {
        reason: sum(one.count for one in wanted if one.reason == reason) for reason in ("denied", "expired")
    }
    assert [row["topic"] for row in asked("events", topic="+/17")["events"]] == ["plant/17"]
    assert asked.ask.refused("events", reason="nonsense").parameter == "reason"
