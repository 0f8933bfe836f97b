"""The blocking client against a broker that is played: windows, losses, refusals, the order of what is sent again."""

from collections.abc import Callable

import pytest

from holdfast.client.blocking_client import BlockingClient
from holdfast.client.core import MAX_UNACKED_BYTES
from holdfast.client.errors import LostError, RefusedError
from holdfast.client.message import OutgoingMessage
from holdfast.client.options import ConnectionOptions
from holdfast.client.transport import BlockingTransport
from holdfast.model.protocol import CLIENT, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, V5
from holdfast.model.reasons import NOT_AUTHORIZED, QUOTA_EXCEEDED, SESSION_TAKEN_OVER
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Packet, Pingreq, Pingresp, Publish
from holdfast.wire.properties import Properties

RETRY_S = 10.0


class PlayedBroker:
    """Answers each packet by a rule; counts what is unacknowledged."""

    def __init__(self, answer: "Callable[[PlayedBroker, Packet], list[Packet]] | None" = None, window: int = 3) -> None:
        self.answer = answer or acknowledge
        self.limits = Properties(receive_maximum=window)
        self.connections = 0
        #: Payloads, in the order in which they came, over all connections.
        self.got: list[bytes] = []
        self.down = 0
        self.now_s = 0.0

    def connect(self, _options: ConnectionOptions) -> BlockingTransport:
        self.connections += 1
        if self.down:
            self.down -= 1
            raise LostError("nobody there")
        return PlayedTransport(self)

    def client(self, window: int = 100) -> BlockingClient:
        options = ConnectionOptions(max_inflight=window, retry_for_s=RETRY_S)
        return BlockingClient(options, open_transport=self.connect, clock=lambda: self.now_s, sleep=self.sleep)

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


class PlayedTransport(BlockingTransport):
    """Without a socket. What is received waits until the client has to read, so windows fill up."""

    def __init__(self, broker: PlayedBroker) -> None:
        self._broker = broker
        self._reader = Framer()
        self._reader.speak(V5)
        self._news: list[Packet | LostError] = []
        self._unacknowledged = 0
        self._window = 0

    def write(self, data: bytes) -> None:
        for packet in decode_all(self._reader, data, V5, CLIENT):
            if isinstance(packet, Connect):
                self._window = self._broker.limits.receive_maximum or 65_535
                self._news.append(Connack(properties=self._broker.limits))
                continue
            if isinstance(packet, Publish):
                self._broker.got.append(packet.payload)
                self._unacknowledged += packet.qos > 0
                assert self._unacknowledged <= self._window, "more than it takes"
            try:
                self._news += self._broker.answer(self._broker, packet)
            except LostError as error:
                self._news.append(error)

    def is_readable(self, within_s: float = 0.0) -> bool:
        return False

    def read(self) -> bytes:
        if not self._news:
            raise LostError("silence")
        news = self._news.pop(0)
        if isinstance(news, LostError):
            self._news.insert(0, news)
            raise news
        self._unacknowledged -= isinstance(news, Ack) and news.kind in (PUBACK, PUBCOMP)
        return encode(news, V5)

    def close(self) -> None:
        pass


def acknowledge(_broker: PlayedBroker, packet: Packet) -> list[Packet]:
    if isinstance(packet, Publish):
        return [] if packet.qos == 0 else [Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id)]
    if isinstance(packet, Ack):
        return [Ack(PUBCOMP, packet.packet_id)]
    return [Pingresp()] if isinstance(packet, Pingreq) else []


def message(number: int, qos: int = 1, size: int = 0) -> OutgoingMessage:
    return OutgoingMessage(PUBLISH << 4 | qos << 1, b"a/%d" % number, b"", b"%d" % number + b"x" * size)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_everything_is_acknowledged_when_it_ends(qos: int) -> None:
    broker = PlayedBroker()
    client = broker.client()
    for number in range(10):
        client.send(message(number, qos))
    client.settle()
    assert broker.got == numbers(10)
    assert broker.connections == 1


def test_nothing_is_opened_for_nothing() -> None:
    broker = PlayedBroker()
    broker.client().settle()
    assert broker.connections == 0


def test_what_is_not_acknowledged_is_sent_again_in_its_order() -> None:
    def lossy(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if broker.connections == 1 and isinstance(packet, Publish) and packet.payload in (b"1", b"2", b"3"):
            raise LostError("gone")
        return acknowledge(broker, packet)

    broker = PlayedBroker(lossy)
    client = broker.client()
    for number in range(6):
        client.send(message(number))
    client.settle()
    assert broker.got == numbers(4) + numbers(6)[1:]


def test_a_smaller_window_after_a_loss_is_kept_to() -> None:
    def lossy(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if broker.connections == 1 and isinstance(packet, Publish):
            broker.limits = Properties(receive_maximum=2)
            raise LostError("gone")
        return acknowledge(broker, packet)

    broker = PlayedBroker(lossy, window=5)
    client = broker.client()
    for number in range(9):
        client.send(message(number))
    client.settle()
    assert broker.got == numbers(5) + numbers(9)


def test_messages_of_qos_2_that_were_taken_are_not_sent_again() -> None:
    def lossy(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if broker.connections == 1 and isinstance(packet, Ack):
            assert packet.kind == PUBREL
            raise LostError("gone")
        return acknowledge(broker, packet)

    broker = PlayedBroker(lossy)
    client = broker.client()
    for number in range(3):
        client.send(message(number, qos=2))
    client.settle()
    assert sorted(set(broker.got)) == numbers(3)
    assert broker.got.count(b"0") == 1


def test_it_gives_up_after_its_time_without_progress_and_tells_why() -> None:
    broker = PlayedBroker()
    broker.down = 1_000
    with pytest.raises(LostError, match="gave up after 10 s without progress: nobody there"):
        broker.client().send(message(0))
    assert 3 < broker.connections < 30


def test_progress_gives_it_its_time_again() -> None:
    def stingy(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        """One acknowledgement for each connection, and then a long absence."""
        if isinstance(packet, Publish) and broker.now_s >= broker.down_until:  # type: ignore[attr-defined]
            broker.down_until = broker.now_s + 1.0  # type: ignore[attr-defined]
            return acknowledge(broker, packet)
        raise LostError("gone")

    broker = PlayedBroker(stingy)
    broker.down_until = 0.0  # type: ignore[attr-defined]
    client = broker.client()
    for number in range(30):
        client.send(message(number))
    client.settle()
    assert broker.now_s > RETRY_S
    assert sorted(set(broker.got)) == sorted(numbers(30))


def test_a_refusal_names_the_topic_and_the_reason() -> None:
    def strict(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if isinstance(packet, Publish) and packet.payload == b"1":
            return [Ack(PUBACK, packet.packet_id, NOT_AUTHORIZED)]
        return acknowledge(broker, packet)

    client = PlayedBroker(strict).client()
    for number in range(3):
        client.send(message(number))
    with pytest.raises(RefusedError, match=r"refused the message to a/1: Not authorized \(0x87\)"):
        client.settle()


def test_a_broker_without_room_is_tried_again() -> None:
    def narrow(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if isinstance(packet, Publish) and broker.connections < 3:
            return [Ack(PUBACK, packet.packet_id, QUOTA_EXCEEDED)]
        return acknowledge(broker, packet)

    broker = PlayedBroker(narrow)
    client = broker.client()
    client.send(message(0))
    client.settle()
    assert broker.got == [b"0"] * 3


def test_one_that_was_taken_over_does_not_come_back() -> None:
    broker = PlayedBroker(lambda _broker, _packet: [Disconnect(SESSION_TAKEN_OVER)])
    client = broker.client()
    client.send(message(0))
    with pytest.raises(RefusedError, match="another client has connected with this client id"):
        client.settle()
    assert broker.connections == 1


def test_a_message_that_is_too_large_or_not_allowed_is_named_before_it_is_sent() -> None:
    broker = PlayedBroker()
    broker.limits = Properties(maximum_packet_size=50, maximum_qos=1, retain_available=0)
    client = broker.client()
    with pytest.raises(RefusedError, match="message to a/0 makes a packet of 110 bytes; the broker takes at most 50"):
        client.send(message(0, size=99))
    with pytest.raises(RefusedError, match="QoS 2 to a/0; the broker takes at most QoS 1"):
        client.send(message(0, qos=2))
    with pytest.raises(RefusedError, match="a/0 is to be retained"):
        client.send(message(0)._replace(first=PUBLISH << 4 | 3))
    assert broker.got == []


def test_few_large_messages_are_kept_at_a_time() -> None:
    broker = PlayedBroker(window=1_000)
    client = broker.client(1_000)
    kept = []
    for number in range(40):
        client.send(message(number, size=MAX_UNACKED_BYTES // 8))
        kept.append(client._core.state.outgoing_bytes)
    client.settle()
    assert max(kept) <= MAX_UNACKED_BYTES * 10 // 8
    assert len(broker.got) == 40


def test_what_is_settled_has_no_gap_also_if_acknowledgements_come_out_of_order() -> None:
    held: list[Packet] = []

    def first_one_last(_broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if isinstance(packet, Publish) and packet.payload == b"0":
            held.append(Ack(PUBACK, packet.packet_id))
            return []
        answer = acknowledge(_broker, packet)
        if isinstance(packet, Publish) and packet.payload == b"2":
            answer += held
        return answer

    broker = PlayedBroker(first_one_last, window=10)
    client = broker.client(3)
    seen = []
    for number in range(6):
        client.send(message(number))
        seen.append(client.settled)
    client.settle()

    assert seen[:3] == [0, 0, 0]
    assert seen == sorted(seen)
    # Of the first three, two were acknowledged to make room for the fourth, and the first was not.
    assert seen[3] == 0
    assert client.settled == 6


def test_a_ping_waits_for_its_answer_and_survives_a_loss() -> None:
    pings: list[int] = []

    def once_lost(broker: PlayedBroker, packet: Packet) -> list[Packet]:
        if isinstance(packet, Pingreq):
            pings.append(broker.connections)
            if broker.connections == 1:
                raise LostError("gone")
        return acknowledge(broker, packet)

    broker = PlayedBroker(once_lost)
    client = broker.client()
    client.send(message(0))
    client.ping()
    client.settle()

    assert pings == [1]  # the answer to the second CONNECT shows as much
    assert set(broker.got) == {b"0"}
