"""Load averages: by a clock that is moved by hand."""

import math

import pytest

from holdfast.broker.sys_topics import LoadAverages, SysTopics
from holdfast.wire.packets import Publish
from tests.world import Peer, World

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


def test_a_steady_load_is_approached_by_each_window_in_its_time() -> None:
    loads = LoadAverages({"messages": 1000}, 0)
    averages: dict[str, float] = {}
    for step in range(1, 31):  # 300 s of 2 a second
        averages = dict(loads.update({"messages": 1000 + 20 * step}, 10 * step * SECOND_US))
    assert averages == {
        "messages/1min": pytest.approx(120 * (1 - math.exp(-5))),
        "messages/5min": pytest.approx(120 * (1 - math.exp(-1))),
        "messages/15min": pytest.approx(120 * (1 - math.exp(-1 / 3))),
    }


def test_what_is_over_fades_away() -> None:
    loads = LoadAverages({"messages": 0}, 0)
    peak = dict(loads.update({"messages": 600}, MINUTE_US))
    faded = loads.update({"messages": 600}, 3 * MINUTE_US)
    assert faded["messages/1min"] == pytest.approx(peak["messages/1min"] * math.exp(-2))
    assert faded["messages/15min"] == pytest.approx(peak["messages/15min"] * math.exp(-2 / 15))


def test_the_interval_between_updates_makes_no_difference_to_a_steady_load() -> None:
    often, seldom = LoadAverages({"bytes": 0}, 0), LoadAverages({"bytes": 0}, 0)
    for second in range(1, 121):
        often.update({"bytes": 7 * second}, second * SECOND_US)
    wanted = seldom.update({"bytes": 7 * 120}, 120 * SECOND_US)
    assert often.update({"bytes": 7 * 120}, 120 * SECOND_US) == pytest.approx(wanted)


def test_two_updates_in_one_moment_change_nothing() -> None:
    loads = LoadAverages({"bytes": 0}, 0)
    first = dict(loads.update({"bytes": 50}, SECOND_US))
    assert loads.update({"bytes": 90}, SECOND_US) == first
    # What came in that moment is not lost, it counts the next time.
    assert loads.update({"bytes": 90}, 2 * SECOND_US)["bytes/1min"] > first["bytes/1min"]


def loads_that_came(reader: Peer) -> dict[str, bytes]:
    return {message.topic.removeprefix("$SYS/broker/load/"): message.payload for message in reader.take_all(Publish)}


def test_loads_are_published_under_mosquittos_names() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/broker/load/#", qos=0)
        world.do(SysTopics(world.broker, "holdfast test", 10).start)
        first = {
            message.topic.removeprefix("$SYS/broker/load/"): message.payload for message in reader.take_all(Publish)
        }
        names = {name.rpartition("/")[0] for name in first}
        assert names == {
            "messages/received",
            "messages/sent",
            "publish/received",
            "publish/sent",
            "publish/dropped",
            "bytes/received",
            "bytes/sent",
            "sockets",
            "connections",
        }
        assert first.keys() == {f"{name}/{window}" for name in names for window in ("1min", "5min", "15min")}
        assert set(first.values()) == {b"0.00"}
        writer = world.connect("writer")
        writer.send(*[Publish("a", b"") for _number in range(100)])
        world.advance(10)
        then = {
            message.topic.removeprefix("$SYS/broker/load/"): message.payload for message in reader.take_all(Publish)
        }
        # 100 in 10 s are 600 a minute.
        for minutes in (1, 5, 15):
            average = 600 * (1 - math.exp(-10 / (60 * minutes)))
            assert then[f"publish/received/{minutes}min"] == f"{average:.2f}".encode()
        for name in ("sockets", "connections"):
            assert then[f"{name}/1min"] == f"{6 * (1 - math.exp(-10 / 60)):.2f}".encode()
        assert "publish/dropped/1min" not in then, "it has not changed"


def test_another_interval_holds_at_once_and_0_switches_off() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/broker/uptime", qos=0)
        topics = SysTopics(world.broker, "holdfast test", 1000)
        world.do(topics.start)
        assert reader.payloads() == [b"0 seconds"]
        world.advance(1)
        world.do(lambda: topics.change_interval(5))
        assert reader.payloads() == [b"1 seconds"]
        world.advance(5)
        assert reader.payloads() == [b"6 seconds"]
        world.do(lambda: topics.change_interval(0))
        world.advance(5000)
        assert reader.payloads() == []
