"""Rates of connects and publishes, also when they change."""

import pytest

from holdfast.broker.connections.rate_limits import ConnectRates, PublishRates
from holdfast.broker.policy import Limits, Policy
from holdfast.model.clock import ManualClock
from holdfast.wire.packets import Publish
from tests.world import World

pytestmark = pytest.mark.compiled


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
