"""A broker inside a test: the context manager, the fixture, and the embedding behind them."""

import asyncio
from urllib.parse import urlsplit

import aiomqtt
import paho.mqtt.publish
import paho.mqtt.subscribe
import pytest

import holdfast.testing
from holdfast.node.embedding import running
from holdfast.node.settings.tree import Listener, Settings, Storage
from holdfast.pytest_plugin import holdfast_broker

pytestmark = pytest.mark.compiled

__all__ = ["holdfast_broker"]


async def round_trip(host: str, port: int) -> bytes:
    async with aiomqtt.Client(host, port) as client:
        await client.subscribe("hello/#", qos=1)
        await client.publish("hello/world", b"hi", qos=1)
        message = await anext(aiter(client.messages))
        assert isinstance(message.payload, bytes)
        return message.payload


def test_a_broker_runs_for_the_length_of_a_block() -> None:
    async def scenario() -> None:
        async with holdfast.testing.broker() as url:
            where = urlsplit(url)
            assert where.scheme == "mqtt"
            assert where.hostname is not None
            assert where.port is not None
            assert await round_trip(where.hostname, where.port) == b"hi"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(where.hostname, where.port)

    asyncio.run(scenario())


def test_the_fixture_serves_clients_that_block(holdfast_broker: str) -> None:
    where = urlsplit(holdfast_broker)
    assert where.hostname is not None
    assert where.port is not None
    paho.mqtt.publish.single("kept", b"value", qos=1, retain=True, hostname=where.hostname, port=where.port)
    message = paho.mqtt.subscribe.simple("kept", hostname=where.hostname, port=where.port)  # type: ignore[no-untyped-call]
    assert message.payload == b"value"


def test_an_embedded_node_has_a_url_for_each_listener() -> None:
    async def scenario() -> None:
        listeners = {"main": Listener(port=0), "web": Listener(kind="ws", port=0), "six": Listener(host="::1", port=0)}
        async with running(Settings(listeners=listeners, storage=Storage(durability="memory"))) as node:
            assert node.url("main").startswith("mqtt://127.0.0.1:")
            assert node.url("web").startswith("ws://127.0.0.1:")
            assert node.url("web").endswith("/mqtt")
            assert node.url("six").startswith("mqtt://[::1]:")

    asyncio.run(scenario())
