"""Both shells of the client against a running broker: every transport, both versions, all QoS."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.client import BlockingClient, Client, ConnectionOptions, LostError, RefusedError, tls_context
from holdfast.model.errors import MisuseError
from holdfast.model.protocol import V5, V311
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish, Subscription, Will
from holdfast.wire.properties import Properties
from tests.mqtt.broker_process import RunningBroker
from tests.unit.server.certificates import Authority

SCHEMES = {"tcp": "mqtt", "tls": "mqtts", "ws": "ws", "wss": "wss"}
LEVELS = [pytest.param(V311, id="v3"), pytest.param(V5, id="v5")]


@pytest.fixture(params=SCHEMES)
def options(broker: RunningBroker, authority: Authority, request: pytest.FixtureRequest) -> ConnectionOptions:
    kind = request.param
    options = ConnectionOptions.from_url(f"{SCHEMES[kind]}://localhost:{broker.ports[kind]}")
    return options if options.tls is None else replace(options, tls=tls_context(authority.file))


@pytest.mark.parametrize("level", LEVELS)
def test_messages_go_in_and_out_by_asyncio(options: ConnectionOptions, level: int) -> None:
    async def exchange() -> list[Publish]:
        async with Client(replace(options, version=level)) as client:
            await client.subscribe("client/asyncio/#", qos=2)
            for number in range(60):
                await client.publish("client/asyncio/x", b"%d" % number, number % 3)
            await client.settle()
            got = []
            for _number in range(60):
                got.append(await client.receive())
                client.acknowledge(got[-1])
            await client.unsubscribe("client/asyncio/#")
            await client.publish("client/asyncio/x", b"", 1)
            await client.settle()
            assert not client.has_more
            return got

    got = asyncio.run(exchange())
    for qos in range(3):
        assert [int(message.payload) for message in got if message.qos == qos] == list(range(qos, 60, 3))


@pytest.mark.parametrize("level", LEVELS)
def test_messages_go_in_and_out_blocking(options: ConnectionOptions, level: int) -> None:
    with BlockingClient(replace(options, version=level)) as client:
        client.subscribe("client/blocking/#", qos=2)
        for number in range(60):
            client.publish("client/blocking/x", b"%d" % number, number % 3)
        client.settle()
        got: list[Publish] = []
        while (message := client.receive(5.0 if len(got) < 60 else 0.1)) is not None:
            client.acknowledge(message)
            got.append(message)
    assert len(got) == 60
    for qos in range(3):
        assert [int(message.payload) for message in got if message.qos == qos] == list(range(qos, 60, 3))


def test_a_blocking_client_pings_while_it_receives(broker: RunningBroker) -> None:
    with BlockingClient(ConnectionOptions(port=broker.ports["tcp"], keep_alive_s=1)) as client:
        client.subscribe("client/never")
        assert client.receive(2.0) is None
        assert client.connected


def test_a_will_is_published_when_a_client_breaks_off(broker: RunningBroker) -> None:
    port = broker.ports["tcp"]

    async def break_off() -> None:
        async with Client(ConnectionOptions(port=port, will=Will("client/will", b"gone"))) as client:
            assert client._transport is not None
            await client._transport.close()
            await client.receive()

    async def exchange() -> Publish:
        async with Client(ConnectionOptions(port=port)) as watcher:
            await watcher.subscribe("client/will")
            with pytest.raises(LostError):
                await break_off()
            return await watcher.receive()

    assert asyncio.run(exchange()).payload == b"gone"


def test_what_is_refused_or_misused_is_told_and_the_client_goes_on(broker: RunningBroker) -> None:
    with BlockingClient(ConnectionOptions(port=broker.ports["tcp"])) as client:
        with pytest.raises(MisuseError, match="no local on a shared subscription"):
            client.subscribe([Subscription(parse_filter(b"$share/g/client/x"), no_local=True)])
        with pytest.raises(RefusedError, match="refused to subscribe to client/x: "):
            client.subscribe("client/x", properties=Properties(user_properties=(("replay-from", "nonsense"),)))
        client.subscribe("client/x")
        client.publish("client/x", b"there")
        message = client.receive(5.0)
        assert message is not None
        assert message.payload == b"there"
