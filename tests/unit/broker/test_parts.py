"""The small parts around the broker: deadlines, rates, the turnstile, `$SYS`."""

import asyncio

import pytest

from holdfast.broker.deadlines import Deadlines
from holdfast.broker.policy import Limits, Policy
from holdfast.broker.rates import ConnectRates, PublishRates
from holdfast.broker.sys_topics import SysTopics
from holdfast.broker.turnstile import Turnstile
from holdfast.durable.registry import ChannelVersion
from holdfast.model.clock import ManualClock
from holdfast.node.system_clock import SystemClock
from holdfast.wire.packets import Publish
from tests.world import World

pytestmark = pytest.mark.compiled


def test_deadlines_fire_in_the_order_of_their_time_and_cancelled_ones_do_not() -> None:
    clock = ManualClock()
    deadlines = Deadlines(clock)
    fired: list[str] = []
    deadlines.after(300, lambda: fired.append("late"))
    deadlines.after(100, lambda: fired.append("early"))
    deadlines.after(200, lambda: fired.append("never")).cancel()
    deadlines.after(100, lambda: fired.append("early too"))
    deadlines.fire()
    assert fired == []
    clock.advance(250)
    deadlines.fire()
    assert fired == ["early", "early too"]
    clock.advance(50)
    deadlines.fire()
    assert fired == ["early", "early too", "late"]


def test_deadlines_wake_the_loop_by_themselves() -> None:
    async def scenario() -> None:
        deadlines = Deadlines(SystemClock())
        deadlines.start(asyncio.get_running_loop())
        fired = asyncio.Event()
        deadlines.after(3_600_000_000, lambda: None)
        deadlines.after(1000, fired.set)
        async with asyncio.timeout(30):
            await fired.wait()
        assert fired.is_set()
        deadlines.stop()

    asyncio.run(scenario())


def test_an_address_may_connect_so_often_in_a_second() -> None:
    clock = ManualClock()
    rates = ConnectRates(2, clock)
    assert [rates.allow("a"), rates.allow("a"), rates.allow("a"), rates.allow("b")] == [True, True, False, True]
    clock.advance(1_000_000)
    assert rates.allow("a")


def test_a_publisher_above_its_rate_is_paused_and_goes_on_in_the_next_second() -> None:
    with World(Policy(limits=Limits(publish_rate=10))) as world:
        reader = world.connect("reader")
        reader.subscribe("a", qos=0)
        writer = world.connect("writer")
        writer.send(*[Publish("a", b"%d" % number) for number in range(25)])
        assert len(reader.payloads()) == 10
        assert not writer.reading
        world.advance(1)
        assert len(reader.payloads()) == 10
        world.advance(1)
        assert len(reader.payloads()) == 5
        assert writer.reading


def test_of_those_who_wait_at_the_turnstile_only_the_newest_gets_a_turn() -> None:
    async def scenario() -> list[bool]:
        turnstile = Turnstile()
        versions = [ChannelVersion(number, 0, number) for number in range(1, 5)]
        assert await turnstile.enter("c", versions[0])
        second = asyncio.ensure_future(turnstile.enter("c", versions[1]))
        fourth = asyncio.ensure_future(turnstile.enter("c", versions[3]))
        third = asyncio.ensure_future(turnstile.enter("c", versions[2]))
        await asyncio.sleep(0)
        turnstile.leave("c")
        answers = [await second, await third, await fourth]
        turnstile.leave("c")
        assert await turnstile.enter("c", versions[0]), "free again"
        return answers

    assert asyncio.run(scenario()) == [False, False, True]


def test_sys_topics_are_published_under_mosquittos_names_and_only_when_they_change() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("$SYS/broker/#")
        topics = SysTopics(world.broker, "holdfast test", 10)
        world.do(topics.start)
        first = {message.topic: message.payload for message in reader.take_all(Publish)}
        assert first["$SYS/broker/version"] == b"holdfast test"
        assert first["$SYS/broker/clients/connected"] == b"1"
        assert first["$SYS/broker/subscriptions/count"] == b"1"
        world.connect("another")
        world.advance(10)
        second = {message.topic: message.payload for message in reader.take_all(Publish)}
        assert second["$SYS/broker/clients/connected"] == b"2"
        assert second["$SYS/broker/uptime"] == b"10 seconds"
        assert "$SYS/broker/version" not in second
        late = world.connect("late")
        late.subscribe("$SYS/broker/version")
        assert late.payloads() == [b"holdfast test"]


def test_a_rate_that_changes_holds_for_connections_that_are_open() -> None:
    with World() as world:
        reader = world.connect("reader")
        reader.subscribe("a", qos=0)
        writer = world.connect("writer")
        rates = PublishRates(0, world.broker.exchange, world.broker.deadlines)
        rates.begin(writer.channel)
        rates.per_second = 10
        rates.begin(writer.channel)
        writer.send(*[Publish("a", b"") for _number in range(45)])
        assert len(reader.payloads()) == 10
        world.advance(0.5)
        rates.begin(writer.channel)
        world.settle()
        assert reader.payloads() == [], "it is held to the rate already"
        world.advance(0.5)
        assert len(reader.payloads()) == 10
        rates.per_second = 20
        world.advance(1)
        assert len(reader.payloads()) == 20
        rates.per_second = 0
        world.advance(1)
        assert len(reader.payloads()) == 5
        writer.send(*[Publish("a", b"") for _number in range(500)])
        assert len(reader.payloads()) == 500
        assert writer.reading


def test_another_rate_of_connects_holds_at_once() -> None:
    rates = ConnectRates(0, ManualClock())
    assert all(rates.allow("a") for _time in range(10))
    rates.per_second = 2
    assert [rates.allow("a") for _time in range(3)] == [True, True, False]
