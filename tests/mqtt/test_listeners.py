"""Several listeners of one broker: tenants kept apart by mount points, proxies, limits, addresses."""

import http.client
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from holdfast.model.protocol import PUBACK, V5, V311
from holdfast.wire.codec import encode
from holdfast.wire.packets import Connect, Disconnect, Publish, Will
from tests.mqtt.broker_process import DEADLINE_S, RunningBroker
from tests.mqtt.clients.contract import Note, Terms, Way
from tests.mqtt.clients.paho_client import Paho
from tests.mqtt.conftest import StartBroker
from tests.mqtt.raw import RawClient, round_trip
from tests.unit.server.certificates import Authority
from tests.unit.server.proxy_headers import stated

pytestmark = pytest.mark.compiled

TENANTS = """
[listeners.a]
port = 0
mount_point = "tenants/a/"
[listeners.b]
port = 0
mount_point = "tenants/longer/"
[listeners.all]
port = 0
"""
VERSIONS = pytest.mark.parametrize("version", [pytest.param(V311, id="3.1.1"), pytest.param(V5, id="5")])
QOS = pytest.mark.parametrize("qos", [0, 1, 2])


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = RunningBroker(tmp_path_factory.mktemp("tenants"), TENANTS)
    yield running
    running.stop()


def join(broker: RunningBroker, listener: str, version: int = V5, client_id: str = "") -> RawClient:
    client = RawClient(broker.ports[listener], version)
    assert client.connect(client_id or f"of-{listener}").reason == 0
    return client


def seen(client: RawClient) -> list[tuple[str, bytes]]:
    """What has come to the client so far, whose subscriptions have QoS 0."""
    return [(message.topic, message.payload) for message in client.ping()]


@VERSIONS
@QOS
def test_tenants_with_the_same_topics_do_not_see_each_other(version: int, qos: int, tenants: RunningBroker) -> None:
    with (
        join(tenants, "a", version) as a,
        join(tenants, "b", version) as b,
        join(tenants, "all", version) as everything,
        join(tenants, "a", client_id="publisher") as publisher,
        join(tenants, "b", client_id="publisher-b") as other,
    ):
        for client in (a, b, everything):
            assert client.subscribe("#", "x/+") == (0, 0)
        assert publisher.publish("x/y", b"of a", qos) == 0
        assert other.publish("x/y", b"of b", qos) == 0
        assert publisher.ping() == other.ping() == []
        assert seen(a) == [("x/y", b"of a")]
        assert seen(b) == [("x/y", b"of b")]
        assert seen(everything) == [("tenants/a/x/y", b"of a"), ("tenants/longer/x/y", b"of b")]


@VERSIONS
@QOS
def test_whoever_sees_everything_reaches_every_tenant(version: int, qos: int, tenants: RunningBroker) -> None:
    with join(tenants, "a", version) as a, join(tenants, "b", version) as b, join(tenants, "all", version) as over:
        a.subscribe("#")
        b.subscribe("to/+")
        over.publish("tenants/a/to/a", b"1", qos)
        over.publish("tenants/longer/to/b", b"2", qos)
        over.publish("to/b", b"3", qos)
        assert over.ping() == []
        assert seen(a) == [("to/a", b"1")]
        assert seen(b) == [("to/b", b"2")]


@VERSIONS
def test_retained_messages_stay_with_their_tenant(version: int, tenants: RunningBroker) -> None:
    with join(tenants, "a", version, "publisher") as publisher:
        publisher.publish("state", b"kept", 1, retain=True)
        with (
            join(tenants, "a", version) as a,
            join(tenants, "b", version) as b,
            join(tenants, "all", version) as everything,
        ):
            for client in (a, b):
                client.subscribe("#")
            everything.subscribe("tenants/#")
            assert seen(a) == [("state", b"kept")]
            assert seen(b) == []
            assert seen(everything) == [("tenants/a/state", b"kept")]
        publisher.publish("state", b"", 1, retain=True)


@VERSIONS
def test_a_will_stays_with_its_tenant(version: int, tenants: RunningBroker) -> None:
    with (
        join(tenants, "a", version) as a,
        join(tenants, "b", version) as b,
        join(tenants, "all", version) as everything,
    ):
        for client in (a, b, everything):
            client.subscribe("#")
        with RawClient(tenants.ports["a"], version) as lost:
            assert lost.connect("lost", will=Will("gone", b"will")).reason == 0
        assert everything.expect(Publish).topic == "tenants/a/gone"
        assert seen(a) == [("gone", b"will")]
        assert seen(b) == []


def test_groups_of_one_name_are_other_groups_for_other_tenants(tenants: RunningBroker) -> None:
    with join(tenants, "a") as a, join(tenants, "b") as b, join(tenants, "a", client_id="publisher") as publisher:
        for client in (a, b):
            client.subscribe("$share/group/work")
        for number in range(6):
            publisher.publish("work", b"%d" % number, 1)
        assert seen(a) == [("work", b"%d" % number) for number in range(6)]
        assert seen(b) == []


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
@VERSIONS
@QOS
def test_a_session_that_comes_back_as_another_tenant_gets_nothing_of_the_first(
    version: int, qos: int, *, shared: bool, tenants: RunningBroker
) -> None:
    name = f"wanderer-{version}-{qos}-{shared}"

    def open_session(listener: str) -> RawClient:
        client = RawClient(tenants.ports[listener], version)
        kept_s = 600 if version == V5 else 0
        assert client.connect(name, clean_start=False, expiry_s=kept_s).reason == 0
        return client

    with open_session("a") as first:
        first.subscribe(f"$share/{name}/secret" if shared else "secret", qos=qos)
    with join(tenants, "a", client_id="publisher") as publisher:
        if qos:
            publisher.publish("secret", b"while away", qos)
        with open_session("b") as second:
            publisher.publish("secret", b"while there", qos)
            assert publisher.ping() == []
            assert second.ping() == []


def test_a_tenant_does_not_see_the_topics_of_the_broker(tenants: RunningBroker) -> None:
    with join(tenants, "a") as a, join(tenants, "all") as everything:
        for client in (a, everything):
            client.subscribe("$SYS/broker/version")
        # Retained, or live: a broker that has just begun may still be committing it.
        assert everything.expect(Publish).topic == "$SYS/broker/version"
        assert seen(a) == []


# Proxies


def test_the_address_in_a_proxy_header_is_the_one_in_the_log(start_broker: StartBroker) -> None:
    broker = start_broker("[listeners.tcp]\nport = 0\nproxy_protocol = true\n")
    for number, address in enumerate(("203.0.113.7", "2001:db8::7"), 1):
        with RawClient(broker.ports["tcp"], first=stated(address, 4711)) as client:
            assert client.connect("c").reason == 0
            client.send(Connect(V5, "c"))
            assert client.expect(Disconnect).reason == 0x82
        assert broker.wait_for("disconnected", number)[-1]["address"] == address


def test_a_connection_without_its_proxy_header_is_refused(start_broker: StartBroker) -> None:
    broker = start_broker("[listeners.tcp]\nport = 0\nproxy_protocol = true\n")
    with RawClient(broker.ports["tcp"]) as client:
        client.send(Connect(V5, "c"))
        assert client.rest() == []
    (entry,) = broker.wait_for("proxy header refused")
    assert (entry["listener"], entry["address"]) == ("tcp", "127.0.0.1")


# Limits


@pytest.mark.parametrize("setting", ["[listeners.tcp]\nport = 0\nmax_connections = 2", "[limits]\nmax_connections = 2"])
def test_a_full_broker_turns_newcomers_away_until_somebody_leaves(setting: str, start_broker: StartBroker) -> None:
    port = start_broker(setting + "\n").ports["tcp"]
    with RawClient(port) as first, RawClient(port) as second:
        assert first.connect("1").reason == second.connect("2").reason == 0
        with RawClient(port) as third:
            assert third.rest() == []
        assert first.ping() == second.ping() == []
    ends = time.monotonic() + DEADLINE_S
    while True:  # they have left when the broker has noticed
        with RawClient(port) as client:
            try:
                client.send(Connect(V5, "3"))
                if client.receive() is not None:
                    break
            except ConnectionError:
                pass
        assert time.monotonic() < ends


def test_a_full_listener_does_not_close_the_others(start_broker: StartBroker) -> None:
    broker = start_broker("[listeners.small]\nport = 0\nmax_connections = 1\n[listeners.other]\nport = 0\n")
    with RawClient(broker.ports["small"]) as client:
        assert client.connect("c").reason == 0
        with RawClient(broker.ports["small"]) as refused:
            assert refused.rest() == []
        round_trip(broker.ports["other"])


# Addresses and transports


@pytest.mark.parametrize(("host", "reachable"), [("::1", ["::1"]), ("localhost", ["127.0.0.1", "::1"])])
def test_loopback_is_served_in_both_families(host: str, reachable: list[str], start_broker: StartBroker) -> None:
    broker = start_broker(f'[listeners.tcp]\nport = 0\nhost = "{host}"\n')
    for address in reachable:
        with RawClient(broker.ports["tcp"], host=address) as client:
            assert client.connect("c").reason == 0
            assert client.ping() == []
    if "127.0.0.1" not in reachable:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", broker.ports["tcp"]), timeout=5).close()


def test_clients_of_all_transports_reach_each_other(broker: RunningBroker, authority: Authority) -> None:
    ways = {name: Way(name, "5", port, authority.file) for name, port in broker.ports.items()}
    assert set(ways) == {"tcp", "tls", "ws", "wss"}
    clients = {name: Paho().connect(way, Terms(client_id=f"of-{name}")) for name, way in ways.items()}
    for client in clients.values():
        client.subscribe("everybody", 1)
    for name, client in clients.items():
        note = Note("everybody", name.encode(), 1)
        client.publish(note)
        assert [other.receive() for other in clients.values()] == [note] * 4
    for client in clients.values():
        client.disconnect()


def test_a_websocket_elsewhere_is_told_where_mqtt_is(broker: RunningBroker) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.ports["ws"], timeout=10)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "mqtt"}
    connection.request("GET", "/elsewhere", headers=headers)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (404, b"MQTT is at /mqtt.\n")
    connection.close()


def test_a_renewed_certificate_is_used_after_a_reload(
    start_broker: StartBroker, authority: Authority, tmp_path: Path
) -> None:
    def copy(owner: str) -> None:
        for kind, path in authority.server_files(owner).items():
            shutil.copy(path, tmp_path / f"{kind}.pem")

    def subject() -> str:
        with RawClient(broker.ports["tls"], tls=authority.client()) as client:
            assert isinstance(client.socket, ssl.SSLSocket)
            names = (client.socket.getpeercert() or {})["subject"]
            assert isinstance(names, tuple)
            assert client.connect("c").reason == 0
            return str(dict(pair for group in names for pair in group)["commonName"])  # type: ignore[misc]

    copy("before")
    broker = start_broker('[listeners.tls]\nkind = "tls"\nport = 0\ncertificate = "certificate.pem"\nkey = "key.pem"\n')
    assert subject() == "before"
    copy("after")
    broker.reload()
    assert subject() == "after"


@pytest.mark.parametrize("limit", [2_097_152, 6_000_000])
def test_the_largest_packet_comes_in_over_websocket_as_one_message(start_broker: StartBroker, limit: int) -> None:
    broker = start_broker(f'[listeners.ws]\nkind = "ws"\nport = 0\n[mqtt]\nmax_packet_size = {limit}\n')
    with connect(f"ws://127.0.0.1:{broker.ports['ws']}/mqtt", subprotocols=[Subprotocol("mqtt")]) as web:
        web.send(encode(Connect(V5, "big"), V5))
        assert isinstance(web.recv(DEADLINE_S), bytes)
        largest = encode(Publish("big", bytes(limit - 13), 1, 1), V5)
        assert limit - 1 <= len(largest) <= limit
        web.send(largest)
        answer = web.recv(DEADLINE_S)
        assert isinstance(answer, bytes)
        assert answer[0] >> 4 == PUBACK
