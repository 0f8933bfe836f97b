"""The rules of the client's core: windows, repetitions, DUP, both flows of QoS 2, keep alive, subscriptions."""

import random

import pytest

from holdfast.client.core import ClientCore, SessionOptions
from holdfast.client.errors import ConnectionEnded, Event, LostError, MessageRefused, RefusedError
from holdfast.client.message import encode_message
from holdfast.model.errors import MisuseError
from holdfast.model.protocol import CLIENT, PUBACK, PUBCOMP, PUBREC, PUBREL, V5, V311
from holdfast.model.reasons import NOT_AUTHORIZED, QUOTA_EXCEEDED, SERVER_BUSY, SERVER_SHUTTING_DOWN
from holdfast.topics.filters import parse_filter
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import (
    Ack,
    Connack,
    Connect,
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
from tests.client_world import ClientWorld


class Peer:
    """The broker's end, by hand."""

    def __init__(self, core: ClientCore, version: int = V5) -> None:
        self.core = core
        self._version = version
        self._framer = Framer()

    def sent(self) -> list[Packet]:
        return decode_all(self._framer, self.core.take_output().data, self._version, CLIENT)

    def says(self, *packets: Packet, now_s: float = 0.0) -> list[Event]:
        return self.core.receive(b"".join(encode(packet, self._version) for packet in packets), now_s)

    def accepts(self, *, session: bool = False, properties: Properties = NO_PROPERTIES) -> list[Packet]:
        """Begin a connection; what the client sends behind CONNECT."""
        self.core.connection_lost()
        self._framer = Framer()
        self._framer.speak(self._version)
        self.core.connect()
        assert isinstance(self.sent()[0], Connect)
        self.says(Connack(0, session, properties))
        return self.sent()


def peer(version: int = V5, **options: object) -> Peer:
    given: dict[str, object] = {"version": version, "client_id": "c", "session_expiry_s": 60, **options}
    return Peer(ClientCore(SessionOptions(**given)), version)  # type: ignore[arg-type]


def publish(core: ClientCore, payload: bytes, qos: int = 2, version: int = V5) -> None:
    core.publish(encode_message("t", payload, qos, version))


def published(packets: list[Packet]) -> list[tuple[bytes, bool]]:
    return [(packet.payload, packet.dup) for packet in packets if isinstance(packet, Publish)]


def error_of(events: list[Event]) -> LostError | RefusedError:
    assert isinstance(events[-1], ConnectionEnded)
    return events[-1].error


@pytest.mark.parametrize("version", [V311, V5])
def test_what_is_not_acknowledged_is_sent_again_with_dup_and_in_its_order(version: int) -> None:
    broker = peer(version, clean_start=False)
    broker.accepts()
    for payload in (b"1", b"2", b"3"):
        publish(broker.core, payload, version=version)
    first, second, third = (packet.packet_id for packet in broker.sent() if isinstance(packet, Publish))
    broker.says(Ack(PUBREC, second))
    again = broker.accepts(session=True)
    assert published(again) == [(b"1", True), (b"3", True)]
    assert [packet.packet_id for packet in again if isinstance(packet, Publish)] == [first, third]
    assert Ack(PUBREL, second) in again


def test_a_broker_without_the_session_gets_what_it_did_not_take_as_new() -> None:
    broker = peer()
    broker.accepts()
    for payload in (b"1", b"2"):
        publish(broker.core, payload)
    first = broker.sent()[0]
    assert isinstance(first, Publish)
    broker.says(Ack(PUBREC, first.packet_id))
    assert published(broker.accepts(session=False)) == [(b"2", False)]
    assert broker.core.unacknowledged == 1


def test_no_more_than_the_receive_maximum_are_in_flight_and_the_rest_keeps_its_order() -> None:
    broker = peer()
    broker.accepts()
    for number in range(5):
        publish(broker.core, b"%d" % number, qos=1)
    broker.sent()
    sent = broker.accepts(session=True, properties=Properties(receive_maximum=2))
    assert published(sent) == [(b"0", True), (b"1", True)]
    assert not broker.core.has_room()
    assert isinstance(sent[0], Publish)
    broker.says(Ack(PUBACK, sent[0].packet_id))
    assert published(broker.sent()) == [(b"2", True)]
    assert broker.core.settled == 1


def test_a_message_that_waited_is_sent_without_dup() -> None:
    broker = peer(max_inflight=10)
    broker.accepts(properties=Properties(receive_maximum=1))
    for payload in (b"1", b"2"):
        publish(broker.core, payload)
    assert published(broker.sent()) == [(b"1", False)]
    assert published(broker.accepts(session=True)) == [(b"1", True), (b"2", False)]


def test_a_refused_message_is_completed_and_told() -> None:
    broker = peer()
    broker.accepts()
    publish(broker.core, b"1")
    sent = broker.sent()[0]
    assert isinstance(sent, Publish)
    (event,) = broker.says(Ack(PUBREC, sent.packet_id, NOT_AUTHORIZED))
    assert isinstance(event, MessageRefused)
    assert str(event.error) == "the broker refused the message to t: Not authorized (0x87)"
    assert broker.core.unacknowledged == 0


def test_a_refusal_that_may_pass_ends_the_connection_and_keeps_the_message() -> None:
    broker = peer()
    broker.accepts()
    publish(broker.core, b"1", qos=1)
    sent = broker.sent()[0]
    assert isinstance(sent, Publish)
    assert isinstance(error_of(broker.says(Ack(PUBACK, sent.packet_id, QUOTA_EXCEEDED))), LostError)
    assert published(broker.accepts(session=True)) == [(b"1", True)]


def test_limits_of_another_broker_hold_for_what_was_published_before() -> None:
    broker = peer()
    broker.accepts()
    publish(broker.core, b"x" * 100)
    broker.sent()
    broker.core.connection_lost()
    broker.core.connect()
    broker.core.take_output()
    events = broker.says(Connack(0, True, Properties(maximum_packet_size=50)))
    assert [type(event) for event in events] == [Connack, MessageRefused]
    assert broker.core.unacknowledged == 0


def test_a_qos_2_message_is_handed_over_once_and_acknowledged_when_the_caller_says_so() -> None:
    broker = peer(clean_start=False)
    broker.accepts()
    message = Publish("a", b"x", 2, 9)
    (handed,) = broker.says(message)
    assert handed == message
    assert broker.says(Publish("a", b"x", 2, 9, dup=True)) == []
    assert broker.sent() == []
    assert isinstance(handed, Publish)
    broker.core.acknowledge(handed)
    broker.core.acknowledge(handed)
    assert broker.sent() == [Ack(PUBREC, 9)]
    assert broker.says(Publish("a", b"x", 2, 9, dup=True)) == []
    assert broker.sent() == [Ack(PUBREC, 9)]
    broker.says(Ack(PUBREL, 9))
    assert broker.sent() == [Ack(PUBCOMP, 9)]
    assert broker.says(Publish("a", b"y", 2, 9)) == [Publish("a", b"y", 2, 9)]


def test_an_acknowledgement_after_a_lost_connection_waits_for_the_repetition() -> None:
    broker = peer(clean_start=False)
    broker.accepts()
    handed = {qos: broker.says(Publish("a", b"x", qos, qos))[0] for qos in (1, 2)}
    assert broker.accepts(session=True) == []
    for message in handed.values():
        assert isinstance(message, Publish)
        broker.core.acknowledge(message)
    assert broker.sent() == []
    assert broker.says(Publish("a", b"x", 2, 2, dup=True)) == []
    assert broker.sent() == [Ack(PUBREC, 2)]
    (again,) = broker.says(Publish("a", b"x", 1, 1, dup=True))
    assert isinstance(again, Publish)
    broker.core.acknowledge(again)
    assert broker.sent() == [Ack(PUBACK, 1)]


def test_every_cut_of_the_stream_gives_the_same_events() -> None:
    packets: list[Packet] = [
        Connack(),
        Publish("a", b"x" * 200, 1, 1),
        Ack(PUBREL, 7),
        Publish("b", b"", 0),
        Pingresp(),
        Disconnect(SERVER_SHUTTING_DOWN),
    ]
    data = b"".join(encode(packet, V5) for packet in packets)
    whole: list[str] | None = None
    for at in range(len(data)):
        core = ClientCore(SessionOptions())
        core.connect()
        core.take_output()
        events = [event for piece in (data[:at], data[at:]) if piece for event in core.receive(piece, 0.0)]
        told = [repr(event) for event in events]
        whole = whole or told
        assert told == whole
        assert decode_all(Framer(), core.take_output().data, V5, CLIENT) == [Ack(PUBCOMP, 7)]
    assert whole is not None
    assert len(whole) == 4


@pytest.mark.parametrize(
    ("version", "connack", "kind", "text"),
    [
        (V5, Connack(NOT_AUTHORIZED), RefusedError, r"refused the connection: Not authorized \(0x87\)"),
        (V5, Connack(SERVER_BUSY), LostError, r"refused the connection: Server busy \(0x89\)"),
        (V311, Connack(5), RefusedError, r"refused the connection: not authorized \(return code 5\)"),
        (V311, Connack(3), LostError, r"refused the connection: it is not available now \(return code 3\)"),
    ],
)
def test_a_refused_connection_tells_whether_later_may_help(
    version: int, connack: Connack, kind: type[Exception], text: str
) -> None:
    broker = peer(version)
    broker.core.connect()
    error = error_of(broker.says(connack))
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error


def test_pings_are_sent_twice_in_a_keep_alive_and_silence_ends_the_connection() -> None:
    broker = peer(keep_alive_s=60)
    broker.accepts(properties=Properties(server_keep_alive=10))
    core = broker.core
    assert core.deadline_s == 5.0
    assert core.tick(4.9) == []
    assert broker.sent() == []
    assert core.tick(5.0) == []
    assert broker.sent() == [Pingreq()]
    assert core.deadline_s == 10.0
    broker.says(Pingresp(), now_s=6.0)
    assert core.tick(20.9) == []
    assert str(error_of(core.tick(21.0))) == "the broker has been silent for 15 s"
    assert core.tick(21.0, reading=False) == []


def test_a_broker_that_lost_the_session_is_asked_for_the_subscriptions_again() -> None:
    broker = peer()
    broker.accepts()
    lines = [Subscription(parse_filter(name), 1) for name in (b"a", b"b")]
    packet_id = broker.core.subscribe(lines)
    assert [type(packet) for packet in broker.sent()] == [Subscribe]
    # Without an answer it is asked for again on any connection.
    assert [type(packet) for packet in broker.accepts(session=True)] == [Subscribe]
    assert broker.says(Suback(packet_id, (1, NOT_AUTHORIZED))) == [Suback(packet_id, (1, NOT_AUTHORIZED))]
    assert broker.accepts(session=True) == []
    (renewed,) = broker.accepts(session=False)
    assert isinstance(renewed, Subscribe)
    assert [line.filter.raw for line in renewed.subscriptions] == [b"a"]
    assert broker.says(Suback(renewed.packet_id, (1,))) == []
    (renewed,) = broker.accepts(session=False)
    assert isinstance(renewed, Subscribe)
    assert isinstance(error_of(broker.says(Suback(renewed.packet_id, (NOT_AUTHORIZED,)))), RefusedError)


def test_what_needs_a_durable_record_says_so() -> None:
    world = ClientWorld(
        random.Random(1), SessionOptions(client_id="c", clean_start=False, session_expiry_s=60, keep_alive_s=0)
    )
    core = world.core
    world.connect()
    world.run()

    def output() -> tuple[bool, bool]:
        made = core.take_output()
        return bool(made.records), made.sync

    publish(core, b"1")
    assert output() == (True, True)
    core.receive(encode(Ack(PUBREC, 1), V5), 0.0)
    assert output() == (True, True)
    core.receive(encode(Ack(PUBCOMP, 1), V5), 0.0)
    assert output() == (True, False)
    (message,) = core.receive(encode(Publish("a", b"", 2, 3), V5), 0.0)
    assert output() == (False, False)
    assert isinstance(message, Publish)
    core.acknowledge(message)
    assert output() == (True, True)
    core.receive(encode(Ack(PUBREL, 3), V5), 0.0)
    assert output() == (True, True)
    core.publish(encode_message("t", b"", 0, V5))
    assert output() == (False, False)


def test_a_message_of_qos_0_is_unread_until_a_later_ping_is_answered() -> None:
    broker = peer()
    broker.accepts()
    broker.core.ping()
    publish(broker.core, b"1", qos=0)
    broker.says(Pingresp())
    assert broker.core.unread
    broker.core.ping()
    broker.says(Pingresp())
    assert not broker.core.unread


def test_misuse_is_told() -> None:
    core = ClientCore(SessionOptions())
    with pytest.raises(MisuseError, match="QoS 0 without a connection"):
        publish(core, b"1", qos=0)
    with pytest.raises(MisuseError, match="a source offset needs QoS 1 or 2"):
        core.publish(encode_message("t", b"", 0, V5), b"1")
