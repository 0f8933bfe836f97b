"""A client that does what it is told, packet by packet, and also what no client should."""

import socket
import ssl
from types import TracebackType
from typing import Self, TypeVar

from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL, SERVER, V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import decode, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Suback,
    Subscribe,
    Subscription,
    Will,
)
from holdfast.wire.properties import NO_PROPERTIES, Properties

TIMEOUT_S = 30.0
Kind = TypeVar("Kind", bound=Packet)


class RawClient:
    """One connection. Nothing is answered unless the test does."""

    def __init__(
        self,
        port: int,
        version: int = V5,
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        first: bytes = b"",
    ) -> None:
        """Connect the transport; `first` is sent before everything else."""
        connection = socket.create_connection((host, port), timeout=TIMEOUT_S)
        connection.sendall(first)
        self.socket = connection if tls is None else tls.wrap_socket(connection, server_hostname="localhost")
        self.version = version
        self._framer = Framer()
        self._framer.speak(version)
        self._packet_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, *packets: Packet) -> None:
        self.socket.sendall(b"".join(encode(packet, self.version) for packet in packets))

    def receive(self) -> Packet | None:
        """The next packet; None when the broker has closed."""
        framer = self._framer
        while not framer.advance():
            try:
                chunk = self.socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not chunk:
                return None
            framer.feed(chunk)
        return decode(framer.data, framer.first, framer.body, framer.end, self.version, SERVER)

    def expect(self, kind: type[Kind]) -> Kind:
        """The next packet, which must be one of this kind."""
        packet = self.receive()
        assert isinstance(packet, kind), packet
        return packet

    def connect(
        self,
        client_id: str = "",
        *,
        user: str | None = None,
        password: bytes | None = None,
        clean_start: bool = True,
        expiry_s: int = 0,
        keep_alive_s: int = 0,
        will: Will | None = None,
    ) -> Connack:
        properties = Properties(session_expiry_interval=expiry_s) if expiry_s else NO_PROPERTIES
        self.send(
            Connect(self.version, client_id, clean_start, keep_alive_s, will, user, password, properties=properties)
        )
        return self.expect(Connack)

    def subscribe(self, *filters: str, qos: int = 0) -> tuple[int, ...]:
        """Subscribe; the reason for each filter."""
        lines = tuple(Subscription(parse_filter(text.encode()), qos) for text in filters)
        self.send(Subscribe(self._next_id(), lines))
        return self.expect(Suback).reasons

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, *, retain: bool = False) -> int:
        """Publish, and wait for what confirms it; the reason of that."""
        packet_id = self._next_id() if qos else 0
        self.send(Publish(topic, payload, qos, packet_id, retain=retain))
        if qos == 0:
            return 0
        answer = self.expect(Ack)
        assert (answer.kind, answer.packet_id) == (PUBACK if qos == 1 else PUBREC, packet_id)
        if qos == 2 and answer.reason < 0x80:
            self.send(Ack(PUBREL, packet_id))
            assert self.expect(Ack).kind == PUBCOMP
        return answer.reason

    def ping(self) -> list[Publish]:
        """Send PINGREQ; the messages that came before its answer, which shows that there are no others yet."""
        self.send(Pingreq())
        messages: list[Publish] = []
        while not isinstance(packet := self.receive(), Pingresp):
            assert isinstance(packet, Publish), packet
            messages.append(packet)
        return messages

    def rest(self) -> list[Packet]:
        """Everything until the broker closes."""
        packets: list[Packet] = []
        while (packet := self.receive()) is not None:
            packets.append(packet)
        return packets

    def _next_id(self) -> int:
        self._packet_id += 1
        return self._packet_id


def parse(data: bytes, version: int) -> list[Packet]:
    """The packets of a broker, one after the other."""
    framer = Framer()
    framer.speak(version)
    framer.feed(data)
    packets: list[Packet] = []
    while framer.advance():
        packets.append(decode(framer.data, framer.first, framer.body, framer.end, version, SERVER))
    return packets


def round_trip(port: int, topic: str = "round/trip") -> None:
    """Whether the broker serves: a message to oneself, with each QoS."""
    with RawClient(port) as client:
        assert client.connect("round-trip").reason == 0
        assert client.subscribe(topic, qos=0) == (0,)
        for qos in (0, 1, 2):
            client.send(Publish(topic, b"%d" % qos, qos, qos))
            while not isinstance(packet := client.receive(), Publish):
                assert packet is not None
            assert packet.payload == b"%d" % qos
