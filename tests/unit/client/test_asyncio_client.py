"""The asyncio client against a server that answers by a script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.client.asyncio_client import Client
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.options import ConnectionOptions
from holdfast.model.protocol import V5
from holdfast.model.reasons import NOT_AUTHORIZED, SESSION_TAKEN_OVER, TOPIC_FILTER_INVALID
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connack, Connect, Disconnect, Pingresp, Suback, Subscription
from holdfast.wire.properties import Properties
from tests.client_world import ModelBroker

ACCEPTED = encode(Connack(), V5)


@asynccontextmanager
async def script(*answers: bytes) -> AsyncIterator[ConnectionOptions]:
    """A server that answers each chunk it reads with the next of `answers`, and then closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(65_536)
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield ConnectionOptions(port=server.sockets[0].getsockname()[1])


def test_pings_keep_the_connection_alive() -> None:
    pings = 3

    async def exchange() -> None:
        answers = [ACCEPTED, *[encode(Pingresp(), V5)] * (pings - 1), encode(Disconnect(), V5)]
        async with script(*answers) as target, Client(replace(target, keep_alive_s=1)) as client:
            await client.receive()

    # Each answer needs a packet of ours, and nothing but pings is sent.
    with pytest.raises(LostError, match="Normal disconnection"):
        asyncio.run(exchange())


def test_a_silent_broker_is_given_up() -> None:
    async def exchange() -> None:
        async with script(ACCEPTED, *[b""] * 9) as target, Client(replace(target, keep_alive_s=1)) as client:
            await client.receive()

    with pytest.raises(LostError, match=r"the broker has been silent for 1\.5 s"):
        asyncio.run(exchange())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n",
            r"sent what is not MQTT: .*; perhaps it speaks .*: version=V311",
        ),
        (b"", "closed the connection without a reason, instead of answering CONNECT"),
        (encode(Pingresp(), V5), "the broker answered CONNECT with Pingresp"),
    ],
)
def test_what_is_no_broker_is_told_so(answer: bytes, message: str) -> None:
    async def exchange() -> None:
        async with script(answer) as target, Client(target):
            pytest.fail("connected")

    with pytest.raises(LostError, match=message):
        asyncio.run(exchange())


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (Properties(maximum_qos=1), "the broker takes at most QoS 1"),
        (Properties(retain_available=0), "the broker keeps no retained messages"),
        (Properties(maximum_packet_size=10), "a packet of 12 bytes; the broker takes at most 10"),
    ],
)
def test_what_the_broker_said_it_will_not_take_is_not_sent(properties: Properties, message: str) -> None:
    async def exchange() -> None:
        async with script(encode(Connack(properties=properties), V5), b"") as target, Client(target) as client:
            await client.publish("topic", b"", 2, retain=True)

    with pytest.raises(RefusedError, match=message):
        asyncio.run(exchange())


def test_the_reason_of_a_disconnect_is_told() -> None:
    ending = encode(Disconnect(SESSION_TAKEN_OVER, Properties(reason_string="by a newer one")), V5)

    async def exchange() -> None:
        async with script(ACCEPTED + ending) as target, Client(target) as client:
            await client.receive()

    with pytest.raises(RefusedError, match=r"ended the connection: Session taken over \(0x8E\): by a newer one"):
        asyncio.run(exchange())


def test_every_refused_filter_is_told_with_its_reason() -> None:
    refusal = encode(Suback(1, (NOT_AUTHORIZED, 0, TOPIC_FILTER_INVALID)), V5)

    async def exchange() -> None:
        async with script(ACCEPTED, refusal) as target, Client(target) as client:
            await client.subscribe([Subscription(parse_filter(name)) for name in (b"a", b"b", b"c")])

    with pytest.raises(RefusedError, match=r"to a: Not authorized \(0x87\); c: Topic Filter invalid \(0x8F\)$"):
        asyncio.run(exchange())


@asynccontextmanager
async def breaking_broker(broker: ModelBroker, every: int) -> AsyncIterator[ConnectionOptions]:
    """A model broker whose connections break after every so many reads."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker.connection_lost()
        for _read in range(every):
            data = await reader.read(64)
            writer.write(broker.receive(data))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield ConnectionOptions(
            port=port, client_id="c", session_expiry_s=60, retry_for_s=30, longest_pause_s=0.01, max_inflight=5
        )


@pytest.mark.parametrize("with_state", [False, True])
def test_over_many_lost_connections_each_message_is_published_once_in_order(tmp_path: Path, with_state: bool) -> None:
    broker = ModelBroker()

    async def exchange() -> int:
        state = tmp_path / "state" if with_state else None
        async with breaking_broker(broker, every=6) as options, Client(options, state=state) as client:
            await asyncio.gather(*(client.publish("t", b"%d" % number, 2) for number in range(60)))
            await client.settle()
            return client.settled

    assert asyncio.run(exchange()) == 60
    assert [int(message.payload) for message in broker.published] == list(range(60))
    assert sum(isinstance(packet, Connect) for packet in broker.packets) > 3


def test_without_progress_it_gives_up_and_tells_why() -> None:
    async def exchange() -> None:
        async with script(b"") as options, Client(replace(options, retry_for_s=0.3, longest_pause_s=0.05)):
            pytest.fail("connected")

    with pytest.raises(LostError, match=r"gave up after 0\.3 s without progress: the broker closed the connection"):
        asyncio.run(exchange())
