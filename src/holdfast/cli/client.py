"""A small MQTT client for the command line, on the broker's own codec. MQTT 3.1.1 and 5.

1. A message counts as published when its last acknowledgement is in; `settle` waits for that. A refusal is the end.
2. A message counts as received when the caller says so (`acknowledge`): what was not acknowledged comes again to a
   persistent session, so a message is printed twice rather than never.
3. Two tasks run beside the caller, one that reads and one that keeps the connection alive. If one of them fails, the
   caller is interrupted and `connect` raises that error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeVar

from holdfast.cli.client_errors import LostError, RefusedError, in_words
from holdfast.cli.client_stream import WINDOW_MESSAGES, PacketStream, Target, open_transport
from holdfast.model.ids import FIRST_PACKET_ID, packet_id_after
from holdfast.model.protocol import DISCONNECT, MAX_U16, PUBACK, PUBCOMP, PUBREC, PUBREL, QOS_1, QOS_2, V5
from holdfast.model.reasons import UNSPECIFIED_ERROR
from holdfast.wire.codec import encode
from holdfast.wire.packets import (
    Ack,
    Connack,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from holdfast.wire.properties import NO_PROPERTIES, Properties

#: How long to wait for the end of QoS 2 hand-shakes before leaving; the next connection would end them as well.
_FINISH_TIMEOUT_S: Final = 2.0
#: An MQTT 3 broker cannot say how many unacknowledged messages it takes, and some drop what is too much for them. This
#: is what Mosquitto takes by default, and what other clients keep to.
_WINDOW_MESSAGES_V3: Final = 20

_T = TypeVar("_T")


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator["Client"]:
    """A client that is connected; RefusedError or LostError if the broker does not have it, or leaves."""
    stream = PacketStream(await open_transport(target), target)
    try:
        client = Client(stream, await stream.greet())
        async with asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(client.read()), tasks.create_task(client.keep_alive())]
            try:
                yield client
            finally:
                for task in beside:
                    task.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        await stream.close()


class Client:
    """One connection. Made by `connect`."""

    def __init__(self, stream: PacketStream, connack: Connack) -> None:
        self._stream = stream
        self._connack = connack
        self._target = stream.target
        own = WINDOW_MESSAGES if stream.target.version == V5 else _WINDOW_MESSAGES_V3
        self._window = min(own, connack.properties.receive_maximum or MAX_U16)
        self._packet_id = FIRST_PACKET_ID
        #: Published and not acknowledged: packet id → topic.
        self._pending: dict[int, str] = {}
        #: Asked and not answered.
        self._subscribing: dict[int, asyncio.Future[Suback]] = {}
        self._pong = asyncio.Event()
        #: Received with QoS 2: ids seen, and those among them whose PUBREL is still to come.
        self._seen: set[int] = set()
        self._releasing: set[int] = set()
        self._received: asyncio.Queue[Publish] = asyncio.Queue()
        #: Set when an acknowledgement comes, and when a message is taken.
        self._progress = asyncio.Event()
        self._taken = asyncio.Event()
        #: Whether the caller waits for an answer; then reading goes on although messages pile up.
        self._asking = False
        self._heard_s = 0.0

    @property
    def session_present(self) -> bool:
        return self._connack.session_present

    @property
    def server_properties(self) -> Properties:
        """What the broker said about itself; nothing in MQTT 3."""
        return self._connack.properties

    async def publish(
        self, topic: str, payload: bytes, qos: int = 0, *, retain: bool = False, properties: Properties = NO_PROPERTIES
    ) -> None:
        """Send a message, as soon as there is room in the window. `settle` waits for acknowledgements."""
        server = self._connack.properties
        if server.maximum_qos is not None and qos > server.maximum_qos:
            raise RefusedError(f"the broker takes at most QoS {server.maximum_qos}")
        if retain and server.retain_available == 0:
            raise RefusedError("the broker keeps no retained messages")
        await self._wait_for_pending(self._window)
        packet_id = self._next_packet_id() if qos else 0
        frame = encode(
            Publish(topic, payload, qos, packet_id, retain=retain, properties=properties), self._target.version
        )
        if server.maximum_packet_size is not None and len(frame) > server.maximum_packet_size:
            largest = server.maximum_packet_size
            raise RefusedError(f"the message makes a packet of {len(frame)} bytes; the broker takes at most {largest}")
        if qos:
            self._pending[packet_id] = topic
        try:
            await self._stream.write(frame)
        except ConnectionError:
            # The reading task knows more, perhaps the broker's reason: give way to it.
            await asyncio.sleep(self._target.timeout_s)
            raise LostError("the connection broke") from None

    async def settle(self) -> None:
        """Wait until the broker has confirmed every message, and has read those that it does not confirm."""
        await self._wait_for_pending(1)
        self._pong.clear()
        self._stream.send(Pingreq())
        await self._within(self._pong.wait(), "PINGREQ")

    async def subscribe(
        self, subscriptions: Sequence[Subscription], properties: Properties = NO_PROPERTIES
    ) -> tuple[int, ...]:
        """Subscribe; the QoS granted for each. RefusedError names every filter that was refused."""
        return (await self.ask_for(subscriptions, properties)).reasons

    async def ask_for(self, subscriptions: Sequence[Subscription], properties: Properties = NO_PROPERTIES) -> Suback:
        """The same, with all that the broker says to it."""
        packet_id = self._next_packet_id()
        answer: asyncio.Future[Suback] = asyncio.get_running_loop().create_future()
        self._subscribing[packet_id] = answer
        self._stream.send(Subscribe(packet_id, tuple(subscriptions), properties))
        suback = await self._within(answer, "SUBSCRIBE")
        refused = [
            f"{line.filter.raw.decode()}: {in_words(suback, reason)}"
            for line, reason in zip(subscriptions, suback.reasons, strict=False)
            if reason >= UNSPECIFIED_ERROR
        ]
        if refused:
            raise RefusedError(f"the broker refused to subscribe to {'; '.join(refused)}")
        return suback

    @property
    def has_more(self) -> bool:
        """Whether a message has come that was not received yet."""
        return not self._received.empty()

    async def receive(self) -> Publish:
        """The next message."""
        message = await self._received.get()
        self._taken.set()
        return message

    def acknowledge(self, message: Publish) -> None:
        """The caller is done with a message: the broker need not send it again."""
        if message.qos == QOS_1:
            self._stream.send_soon(Ack(PUBACK, message.packet_id))
        elif message.qos == QOS_2:
            self._releasing.add(message.packet_id)
            self._stream.send_soon(Ack(PUBREC, message.packet_id))

    async def finish(self) -> None:
        """Wait a little for the end of the hand-shakes of what was acknowledged."""
        self._let_reading_go_on()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_TIMEOUT_S):
                while self._releasing:
                    self._progress.clear()
                    await self._progress.wait()

    async def read(self) -> None:
        """Task: handle what comes, until an error ends it."""
        loop = asyncio.get_running_loop()
        packets = self._stream.take_early()
        while True:
            self._heard_s = loop.time()
            for packet in packets:
                self._handle(packet)
            while self._received.qsize() >= WINDOW_MESSAGES and not self._asking:
                # The caller is slow. Not reading slows down the broker in turn.
                self._taken.clear()
                await self._taken.wait()
            packets = await self._stream.next_packets()

    async def keep_alive(self) -> None:
        """Task: show the broker that we are there, and notice when it is not."""
        interval_s = self._target.keep_alive_s
        if self._connack.properties.server_keep_alive is not None:
            interval_s = self._connack.properties.server_keep_alive
        loop = asyncio.get_running_loop()
        while interval_s:
            await asyncio.sleep(interval_s / 2)
            reading = self._received.qsize() < WINDOW_MESSAGES
            if reading and loop.time() - self._heard_s > interval_s * 1.5:
                raise LostError(f"the broker has been silent for {interval_s * 1.5:g} s")
            self._stream.send(Pingreq())

    def _handle(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            if packet.qos == QOS_2:
                if packet.packet_id in self._seen:
                    return
                self._seen.add(packet.packet_id)
            self._received.put_nowait(packet)
        elif isinstance(packet, Ack):
            self._handle_ack(packet)
            self._progress.set()
        elif isinstance(packet, Suback):
            answer = self._subscribing.pop(packet.packet_id, None)
            if answer is not None and not answer.done():
                answer.set_result(packet)
        elif isinstance(packet, Pingresp):
            self._pong.set()
        elif isinstance(packet, Disconnect):
            raise RefusedError(f"the broker ended the connection: {in_words(packet, packet.reason, DISCONNECT)}")
        else:
            raise LostError(f"the broker sent {type(packet).__name__}, for which there is no occasion")

    def _handle_ack(self, ack: Ack) -> None:
        if ack.kind == PUBREL:
            self._seen.discard(ack.packet_id)
            self._releasing.discard(ack.packet_id)
            self._stream.send(Ack(PUBCOMP, ack.packet_id))
        elif ack.kind == PUBREC and ack.reason < UNSPECIFIED_ERROR:
            self._stream.send(Ack(PUBREL, ack.packet_id))
        else:
            topic = self._pending.pop(ack.packet_id, "")
            if ack.reason >= UNSPECIFIED_ERROR and ack.kind != PUBCOMP:
                raise RefusedError(f"the broker refused the message to {topic}: {in_words(ack, ack.reason, ack.kind)}")

    def _next_packet_id(self) -> int:
        while self._packet_id in self._pending or self._packet_id in self._subscribing:
            self._packet_id = packet_id_after(self._packet_id)
        packet_id = self._packet_id
        self._packet_id = packet_id_after(packet_id)
        return packet_id

    async def _wait_for_pending(self, below: int) -> None:
        """Wait until fewer than `below` messages are not acknowledged."""
        while len(self._pending) >= below:
            self._progress.clear()
            await self._within(self._progress.wait(), f"{len(self._pending)} messages")

    def _let_reading_go_on(self) -> None:
        self._asking = True
        self._taken.set()

    async def _within(self, answer: Awaitable[_T], question: str) -> _T:
        """The broker's answer, if it comes in time."""
        self._let_reading_go_on()
        try:
            async with asyncio.timeout(self._target.timeout_s):
                return await answer
        except TimeoutError:
            raise LostError(f"the broker did not answer {question} within {self._target.timeout_s:g} s") from None
        finally:
            self._asking = False
