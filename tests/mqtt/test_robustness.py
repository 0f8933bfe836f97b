"""Clients that misbehave, by the thousand: the broker keeps serving, and what they cost is given back.

Memory bounds are in megabytes over the process as it was before. They leave room for what an allocator keeps for
later, and are far below what a leak of these sizes would take.
"""

import asyncio
import random
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from holdfast.model.protocol import CLIENT, PUBACK, V5, V311
from holdfast.wire.packets import Ack, Connack, Connect, Disconnect, Pingreq, Pingresp, Publish
from holdfast.wire.properties import NO_PROPERTIES, Properties
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.mqtt.load import MB, check_recovered, connect_frame, cost_of, frame, settled, storm, sys_value, wait_until
from tests.mqtt.raw import RawClient, parse
from tests.property.mutations import damaged, samples, systematic
from tests.unit.server.web_client import binary

pytestmark = pytest.mark.slow

TIMEOUT_S = 0.5
_UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
_UNVERIFIED = ssl._create_unverified_context()
_KEPT = Properties(session_expiry_interval=600)
_ENDED = Properties(session_expiry_interval=0)
SETTINGS = """
[limits]
max_connections = 20000
[sys]
interval_s = 0.2
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, four_listeners: str) -> Iterator[RunningBroker]:
    """One for all of these tests: what one of them breaks, the next one meets."""
    running = RunningBroker(tmp_path_factory.mktemp("robust"), four_listeners + SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory, four_listeners: str) -> Iterator[RunningBroker]:
    """Gives up early on connections that do not go on."""
    settings = f"{four_listeners}[limits]\nconnect_timeout_s = {TIMEOUT_S}\npacket_timeout_s = {TIMEOUT_S}\n"
    running = RunningBroker(tmp_path_factory.mktemp("impatient"), settings)
    yield running
    running.stop()


@pytest.fixture
def chance() -> random.Random:
    """The same cases each time; `mutations.py` is for the search."""
    return random.Random(20240607)


@pytest.mark.parametrize("transport", ["tcp", "tls", "ws", "wss"])
def test_random_bytes_harm_nobody(transport: str, broker: RunningBroker, chance: random.Random) -> None:
    before = settled(broker)
    noise = [chance.randbytes(chance.randrange(1, 300)) for _ in range(1500)]
    noise += [connect_frame(f"n{i}", version) + chance.randbytes(40) for i in range(750) for version in (V311, V5)]
    noise += [_UPGRADE + chance.randbytes(40) for _ in range(500)]
    asyncio.run(storm(broker.ports[transport], noise, read=True))
    # Each of a hundred TLS connections at once has buffers of a quarter megabyte.
    check_recovered(broker, before, 60)


def test_damaged_packets_harm_nobody(broker: RunningBroker, chance: random.Random) -> None:
    """In front of a CONNECT, and behind one, where they meet a session."""
    before = settled(broker)
    sent: list[bytes] = []
    for version, sender, data in samples(150):
        if sender != CLIENT or version not in (V311, V5):
            continue
        cases = [damaged(data, chance) for _ in range(10)]
        cases += chance.choices(list(systematic((version, sender, data))), k=10)
        sent += cases
        sent += [connect_frame(f"d{chance.randrange(50)}", version) + case for case in cases]
    assert len(sent) > 1000
    asyncio.run(storm(broker.ports["tcp"], sent, read=True))
    check_recovered(broker, before, 30)


def test_packets_in_the_wrong_state_harm_nobody(broker: RunningBroker, chance: random.Random) -> None:
    """Valid packets of all kinds, in orders that no client has."""
    before = settled(broker)
    valid = [case for case in samples(200) if case[0] == V5]
    sent = []
    for number in range(1000):
        packets = b"".join(chance.choice(valid)[2] for _ in range(6))
        sent.append(connect_frame(f"w{number % 100}") + packets)
    asyncio.run(storm(broker.ports["tcp"], sent, read=True))
    check_recovered(broker, before, 30)


@pytest.mark.parametrize(
    ("transport", "first"),
    [
        pytest.param("tcp", b"", id="tcp"),
        pytest.param("tcp", connect_frame("half")[:7], id="half a CONNECT"),
        pytest.param("tls", b"", id="tls"),
        pytest.param("tls", b"\x16\x03\x01\x00\xff", id="half a TLS greeting"),
        pytest.param("ws", b"", id="ws"),
        pytest.param("ws", _UPGRADE[:60], id="half a WebSocket request"),
        pytest.param("wss", b"", id="wss"),
    ],
)
def test_connections_that_do_not_go_on_are_closed_in_time(
    transport: str, first: bytes, impatient: RunningBroker
) -> None:
    before = settled(impatient)
    began = time.monotonic()
    silent = [
        socket.create_connection(("127.0.0.1", impatient.ports[transport]), timeout=DEADLINE_S) for _ in range(100)
    ]
    for one in silent:
        one.sendall(first)
    for one in silent:
        with one, suppress(ConnectionResetError):
            assert one.recv(1) == b""
    # Ten times what the setting says: a busy machine is late, but not by that much.
    assert time.monotonic() - began < 10 * TIMEOUT_S
    check_recovered(impatient, before, 30)


@pytest.mark.parametrize("transport", ["tcp", "tls", "ws", "wss"])
def test_half_packets_are_not_held_on_any_transport(transport: str, impatient: RunningBroker) -> None:
    """Keep alive 0. Over WebSocket the frame is cut, and the packet within a whole one."""
    before = settled(impatient)
    half = frame(Publish("a", bytes(900_000)), V5)[:-1]
    web = transport in ("ws", "wss")
    peers = []
    for number in range(10):
        peer = socket.create_connection(("127.0.0.1", impatient.ports[transport]), timeout=DEADLINE_S)
        if transport in ("tls", "wss"):
            peer = _UNVERIFIED.wrap_socket(peer)
        hello = connect_frame(f"half{number}", V5)
        peer.sendall(_UPGRADE + binary(hello) if web else hello)
        peer.sendall((binary(half) if number % 2 else binary(half)[:-1]) if web else half)
        peers.append(peer)
    for peer in peers:
        with peer:
            answer = b""
            while piece := peer.recv(4096):
                answer += piece
                if web and b"\x88\x02" in piece:  # it says goodbye in a frame, and waits for ours
                    break
            assert b"limits.packet_timeout_s" in answer
    check_recovered(impatient, before, 30)


def test_a_connect_that_trickles_in_does_not_outlast_the_timeout(impatient: RunningBroker) -> None:
    """Bytes that keep coming do not buy time."""
    before = settled(impatient)
    bytes_sent = 0
    with RawClient(impatient.ports["tcp"], first=b"\x10\xff\xff\x03\x00\x04MQTT\x05\x02") as slow:
        slow.socket.settimeout(TIMEOUT_S / 20)
        while bytes_sent < 20 * 10:
            try:
                slow.socket.sendall(b"\x00")
                bytes_sent += 1
                if not slow.socket.recv(1):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    # Twenty bytes a timeout: a busy machine is late, but not ten times as late.
    assert 5 <= bytes_sent < 20 * 10
    check_recovered(impatient, before, 30)


def test_ten_thousand_connects_and_drops_leave_nothing_behind(broker: RunningBroker) -> None:
    port = broker.ports["tcp"]
    before = settled(broker)
    sessions = sys_value(port, "clients/total")
    messages = [connect_frame(f"drop{number}", (V311, V5)[number % 2]) for number in range(10_000)]
    asyncio.run(storm(port, messages, read=False, at_once=200))
    check_recovered(broker, before, 40)
    wait_until(lambda: sys_value(port, "clients/total") <= sessions + 1, "all their sessions are gone")


@pytest.mark.parametrize("qos", [0, 1])
def test_a_subscriber_that_never_reads_costs_a_bounded_amount_of_memory(broker: RunningBroker, qos: int) -> None:
    port = broker.ports["tcp"]
    before = settled(broker)
    dropped = sys_value(port, "publish/messages/dropped")
    payload = bytes(10_000)
    count = 30_000  # 300 MB: more than the queue of a session and all buffers on the way
    most = 0
    with RawClient(port) as deaf, RawClient(port) as publisher:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        assert deaf.connect("deaf").reason == publisher.connect("flood").reason == 0
        assert deaf.subscribe("flood", qos=qos) == (qos,)
        for start in range(0, count, 500):
            ids = range(1, 501) if qos else [0] * 500
            publisher.send(*(Publish("flood", payload, qos, packet_id) for packet_id in ids))
            for packet_id in ids:
                if qos:
                    answer = publisher.expect(Ack)
                    assert (answer.kind, answer.packet_id, answer.reason) == (PUBACK, packet_id, 0)
            if start % 2500 == 0:
                most = max(most, cost_of(broker).memory_bytes)
        publisher.send(Pingreq())
        publisher.expect(Pingresp)
        most = max(most, cost_of(broker).memory_bytes)
        assert most - before.memory_bytes < 150 * MB
        # At most 67 MB wait in the queue; the rest was dropped, and counted.
        least = 20_000
        wait_until(lambda: sys_value(port, "publish/messages/dropped") - dropped >= least, "the drops are counted")
    check_recovered(broker, before, 120)


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("kept", [False, True], ids=["session ends", "session kept"])
def test_of_a_thousand_connections_with_one_id_exactly_the_newest_stays(
    version: int, *, kept: bool, broker: RunningBroker
) -> None:
    before = settled(broker)
    client_id = f"one-{version}-{kept}"
    properties = _KEPT if kept and version == V5 else NO_PROPERTIES
    hello = frame(Connect(version, client_id, clean_start=not kept, properties=properties), version)
    outcomes = [parse(data, version) for data in asyncio.run(_race(broker.ports["tcp"], hello, 1000))]
    *others, newest = outcomes
    present: list[bool] = []
    for packets in outcomes:
        answer = packets[0]
        assert isinstance(answer, Connack)
        if answer.reason:
            # It never was the newest: "server busy", in the words of its version.
            assert (answer.reason, len(packets)) == (0x89 if version == V5 else 3, 1)
        else:
            present.append(answer.session_present)
            if packets is not newest:
                assert packets[1:] == ([Disconnect(0x8E, packets[1].properties)] if version == V5 else [])  # type: ignore[union-attr]
    assert newest[1:] == [Pingresp()]
    assert not any(isinstance(packet, Pingresp) for packets in others for packet in packets)
    # Only a session that was begun by another of them can be there before.
    assert sorted(present) == ([False] + [True] * (len(present) - 1) if kept else [False] * len(present))
    with RawClient(broker.ports["tcp"], version) as last:
        assert last.connect(client_id, clean_start=False).session_present == kept
    with RawClient(broker.ports["tcp"], version) as cleaning:
        assert cleaning.connect(client_id).session_present is False
    check_recovered(broker, before, 60)


async def _race(port: int, hello: bytes, count: int) -> list[bytes]:
    """Connect `count` times, then say `hello` on all of them at once; what each was told until its end.

    When one is left it is asked whether it is served, and its answer is the last of what it was told.
    """
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    told = [bytearray() for _ in range(count)]

    async def listen(number: int) -> None:
        while data := await connections[number][0].read(4096):
            told[number] += data

    try:
        for _reader, writer in connections:
            writer.write(hello)
        async with asyncio.timeout(DEADLINE_S):
            left = {asyncio.create_task(listen(number)): number for number in range(count)}
            while len(left) > 1:
                done, _waiting = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    del left[task]
                    await task
            ((last, number),) = left.items()
            connections[number][1].write(frame(Pingreq()) + frame(Disconnect(), V311))
            await last
    finally:
        for _reader, writer in connections:
            writer.close()
    return [bytes(data) for data in told]


def test_a_session_survives_a_thousand_takeovers_with_what_is_owed_to_it(broker: RunningBroker) -> None:
    """Session Present is false for the first and true for every other, and nothing is lost on the way."""
    port = broker.ports["tcp"]
    before = settled(broker)
    old: RawClient | None = None
    with RawClient(port) as publisher:
        assert publisher.connect("publisher").reason == 0
        for number in range(1000):
            client = RawClient(port)
            client.send(Connect(V5, "kept", clean_start=False, properties=_KEPT))
            assert client.expect(Connack).session_present == (number > 0)
            if old is None:
                assert client.subscribe("owed", qos=1) == (1,)
                publisher.publish("owed", b"never acknowledged", 1)
            else:
                assert old.expect(Disconnect).reason == 0x8E
                old.socket.close()
            message = client.expect(Publish)
            assert (message.payload, message.dup) == (b"never acknowledged", number > 0)
            old = client
    assert old is not None
    old.send(Ack(PUBACK, 1), Disconnect(properties=_ENDED))
    assert old.rest() == []
    old.socket.close()
    check_recovered(broker, before, 40)
