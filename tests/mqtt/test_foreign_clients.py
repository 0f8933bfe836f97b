"""Client libraries that others wrote, over every transport and version they have: each gets what MQTT promises."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.mqtt.broker_process import RunningBroker
from tests.mqtt.clients import mqttjs_client
from tests.mqtt.clients.aiomqtt_client import Aiomqtt
from tests.mqtt.clients.contract import ForeignClient, Library, Note, Terms, Way
from tests.mqtt.clients.gmqtt_client import Gmqtt
from tests.mqtt.clients.loop import LoopThread
from tests.mqtt.clients.paho_client import Paho
from tests.mqtt.raw import RawClient
from tests.unit.server.certificates import Authority

TRANSPORTS = ("tcp", "tls", "ws", "wss")
VERSIONS = ("3.1", "3.1.1", "5")
LIBRARIES = ("paho", "aiomqtt", "gmqtt", "mqttjs")
#: What a library lacks.
LACKING = {("gmqtt", "ws"), ("gmqtt", "wss"), ("gmqtt", "3.1")}

Case = tuple[str, str, str]
Connect = Callable[..., ForeignClient]


def cases(transports: tuple[str, ...] = TRANSPORTS, versions: tuple[str, ...] = VERSIONS) -> list[object]:
    """Library, transport and version. MQTT.js has to be fetched, so it runs with the slow tests."""
    found: list[object] = []
    for library in LIBRARIES:
        marks = [pytest.mark.slow] if library == "mqttjs" else [pytest.mark.compiled]
        for transport in transports:
            for version in versions:
                if not {(library, transport), (library, version)} & LACKING:
                    case = (library, transport, version)
                    found.append(pytest.param(case, id="-".join(case), marks=marks))
    return found


EVERY_WAY = pytest.mark.parametrize("case", cases())
EVERY_V5_WAY = pytest.mark.parametrize("case", cases(versions=("5",)))


@pytest.fixture(scope="module")
def loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="module")
def libraries(loop: LoopThread) -> Iterator[Callable[[str], Library]]:
    """A library by its name; MQTT.js is started when it is asked for."""
    with ExitStack() as running:
        known: dict[str, Library] = {"paho": Paho(), "aiomqtt": Aiomqtt(loop), "gmqtt": Gmqtt(loop)}

        def get(name: str) -> Library:
            if name not in known:
                known[name] = running.enter_context(mqttjs_client.running())
            return known[name]

        yield get


@pytest.fixture
def connect(broker: RunningBroker, authority: Authority, libraries: Callable[[str], Library]) -> Connect:
    """`connect(case, **terms)`; a client id is made up unless it is given. The test disconnects or drops it."""

    def open_one(case: Case, **terms: object) -> ForeignClient:
        library, transport, version = case
        way = Way(transport, version, broker.ports[transport], authority.file)
        # MQTT 3.1 allows 23 characters.
        return libraries(library).connect(way, Terms(**{"client_id": unique(), **terms}))  # type: ignore[arg-type]

    return open_one


def unique() -> str:
    """A name that no other test has."""
    return f"t{uuid.uuid4().hex[:20]}"


PAYLOADS = {
    "binary": bytes(range(256)),
    "empty": b"",
    "64 KiB": bytes(range(256)) * 256,
    "Grüße/✓/世界/🌍": "naïve ✓".encode(),
}


@pytest.mark.parametrize("qos", [0, 1, 2])
@EVERY_WAY
def test_payloads_arrive_once_in_order_and_byte_for_byte(case: Case, qos: int, connect: Connect) -> None:
    base = unique()
    sent = [Note(f"{base}/{name}", payload, qos) for name, payload in PAYLOADS.items()]
    last = Note(f"{base}/last", b"last", qos)
    subscriber, publisher = connect(case), connect(case)
    subscriber.subscribe(f"{base}/#", qos)
    for note in [*sent, last]:
        publisher.publish(note)
    assert [subscriber.receive() for _ in range(len(sent) + 1)] == [*sent, last]
    subscriber.disconnect()
    publisher.disconnect()


@EVERY_WAY
def test_a_retained_message_waits_for_subscribers_until_it_is_cleared(case: Case, connect: Connect) -> None:
    topic = f"{unique()}/état"
    kept = Note(topic, b"kept", 1, retain=True)
    early, publisher = connect(case), connect(case)
    early.subscribe(topic, 1)
    publisher.publish(kept)
    assert early.receive() == kept.live()
    late = connect(case)
    late.subscribe(topic, 1)
    assert late.receive() == kept
    publisher.publish(Note(topic, b"", 1, retain=True))
    too_late = connect(case)
    too_late.subscribe(topic, 1)
    publisher.publish(Note(topic, b"fresh", 1))
    assert too_late.receive().payload == b"fresh"
    for client in (early, late, too_late, publisher):
        client.disconnect()


@EVERY_WAY
def test_a_will_is_published_for_the_lost_and_not_for_those_who_leave(case: Case, connect: Connect) -> None:
    base = unique()
    watcher = connect(case)
    watcher.subscribe(f"{base}/#", 1)
    leaving = connect(case, will=Note(f"{base}/left", b"left", 1))
    leaving.disconnect()
    will = Note(f"{base}/lost", bytes(range(256)), 1)
    lost = connect(case, will=will)
    lost.drop()
    assert watcher.receive() == will
    watcher.disconnect()


@pytest.mark.parametrize("qos", [1, 2])
@EVERY_WAY
def test_a_kept_session_gets_what_it_missed_without_subscribing_again(case: Case, qos: int, connect: Connect) -> None:
    base = unique()
    name = unique()
    away = connect(case, client_id=name, clean=False, keep=True)
    away.subscribe(f"{base}/+", qos)
    away.disconnect()
    publisher = connect(case)
    missed = [Note(f"{base}/{number}", b"%d" % number, qos) for number in range(20)]
    for note in missed:
        publisher.publish(note)
    back = connect(case, client_id=name, clean=False, keep=True)
    assert [back.receive() for _ in missed] == missed
    back.disconnect()
    fresh = connect(case, client_id=name, clean=True)
    publisher.publish(Note(f"{base}/x", b"gone", qos))
    fresh.subscribe(f"{base}/y", qos)
    publisher.publish(Note(f"{base}/y", b"new", qos))
    assert fresh.receive().payload == b"new"
    fresh.disconnect()
    publisher.disconnect()


@EVERY_WAY
def test_wildcards_select_what_they_match(case: Case, connect: Connect) -> None:
    base = unique()
    one_level, below, publisher = connect(case), connect(case), connect(case)
    one_level.subscribe(f"{base}/+/temp", 1)
    below.subscribe(f"{base}/a/#", 1)
    for topic in ("a/temp", "a", "a/b/temp", "b/temp", "b/other", "end/temp", "a/end"):
        publisher.publish(Note(f"{base}/{topic}", topic.encode(), 1))
    assert [one_level.receive().payload for _ in range(3)] == [b"a/temp", b"b/temp", b"end/temp"]
    assert [below.receive().payload for _ in range(4)] == [b"a/temp", b"a", b"a/b/temp", b"a/end"]
    for client in (one_level, below, publisher):
        client.disconnect()


@EVERY_V5_WAY
def test_a_shared_subscription_gives_each_message_to_one_member(case: Case, connect: Connect) -> None:
    base = unique()
    members = [connect(case), connect(case)]
    publisher = connect(case)
    for member in members:
        member.subscribe(f"$share/group/{base}/work", 1)
        member.subscribe(f"{base}/end", 1)
    sent = {b"%d" % number for number in range(40)}
    for payload in sorted(sent):
        publisher.publish(Note(f"{base}/work", payload, 1))
    publisher.publish(Note(f"{base}/end", b"", 1))
    shares: list[list[bytes]] = []
    for member in members:
        share = []
        while (note := member.receive()).topic != f"{base}/end":
            share.append(note.payload)
        shares.append(share)
    assert sorted(shares[0] + shares[1]) == sorted(sent)
    assert all(shares)
    for client in (*members, publisher):
        client.disconnect()


@EVERY_V5_WAY
def test_a_response_finds_its_request_by_the_properties(case: Case, connect: Connect) -> None:
    base = unique()
    asking, answering = connect(case), connect(case)
    asking.subscribe(f"{base}/answers", 1)
    answering.subscribe(f"{base}/questions", 1)
    request = Note(
        f"{base}/questions",
        b"?",
        1,
        content_type="text/plain; charset=utf-8",
        response_topic=f"{base}/answers",
        correlation_data=b"\x00\xff\x80",
    )
    asking.publish(request)
    got = answering.receive()
    assert got == request
    assert got.response_topic is not None
    answer = Note(got.response_topic, b"!", 1, correlation_data=got.correlation_data)
    answering.publish(answer)
    assert asking.receive() == answer
    asking.disconnect()
    answering.disconnect()


@EVERY_V5_WAY
def test_user_properties_keep_their_order_and_repetitions(case: Case, connect: Connect) -> None:
    # MQTT.js groups equal names, so those stand side by side.
    pairs = (("z", "1"), ("a", "ü"), ("a", ""), ("a", "ü"), ("", "empty"))
    note = Note(unique(), b"x", 2, user_properties=pairs)
    client = connect(case)
    client.subscribe(note.topic, 2)
    client.publish(note)
    assert client.receive() == note
    client.disconnect()


@pytest.mark.parametrize("case", cases(("tcp",), ("5",)))
def test_an_expired_message_is_not_delivered_and_others_tell_the_time_left(
    case: Case, connect: Connect, broker_port: int
) -> None:
    base, name = unique(), unique()
    away = connect(case, client_id=name, clean=False, keep=True)
    away.subscribe(f"{base}/#", 1)
    away.disconnect()
    publisher = connect(case)
    publisher.publish(Note(f"{base}/short", b"short", 1, expiry_s=1))
    publisher.publish(Note(f"{base}/long", b"long", 1, expiry_s=1000))
    # The broker's own clock tells when a second has passed: it gives up a silent client after one and a half.
    with RawClient(broker_port) as silent:
        assert silent.connect(unique(), keep_alive_s=1).reason == 0
        silent.rest()
    back = connect(case, client_id=name, clean=False, keep=True)
    got = back.receive()
    assert replace(got, expiry_s=None) == Note(f"{base}/long", b"long", 1)
    assert got.expiry_s is not None
    assert 900 < got.expiry_s < 1000
    back.disconnect()
    publisher.disconnect()


@pytest.mark.slow
@pytest.mark.parametrize(("sender_version", "receiver_version"), [("3.1.1", "5"), ("5", "3.1.1")])
@pytest.mark.parametrize("receiver", LIBRARIES)
@pytest.mark.parametrize("sender", LIBRARIES)
def test_every_library_understands_every_other(
    sender: str, receiver: str, sender_version: str, receiver_version: str, connect: Connect
) -> None:
    base = unique()
    subscriber = connect((receiver, "tcp", receiver_version))
    publisher = connect((sender, "tcp", sender_version))
    subscriber.subscribe(f"{base}/#", 2)
    sent = [Note(f"{base}/{qos}", bytes(range(256)), qos) for qos in (0, 1, 2)]
    for note in sent:
        publisher.publish(note)
    assert [subscriber.receive() for _ in sent] == sent
    subscriber.disconnect()
    publisher.disconnect()
