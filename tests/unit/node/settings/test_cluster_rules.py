"""A node of a cluster: settings that its cluster cannot keep are refused, each with what would be right."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.policy import ClientClass, Mqtt, RegistrySettings, Sessions
from holdfast.node.settings.cluster_rules import MAX_PACKET_BYTES
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.loader import load
from holdfast.node.settings.rules import problems_of
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings

PEERS = "10.0.0.1:6222, 10.0.0.2:6222,10.0.0.3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.password").write_text("secret\n")
    return tmp_path


def cluster(**changed: Any) -> ClusterSettings:
    given: dict[str, Any] = {
        "name": "plant",
        "node": 2,
        "peers": PEERS,
        "cluster_host": "10.0.0.2",
        "password_file": Path("cluster.password"),
    }
    return ClusterSettings(**(given | changed))


def refused(settings: Settings, key: str) -> str:
    """The text of the one problem, which is of this key."""
    problems = problems_of(settings)
    assert [problem.text.split(" ")[0] for problem in problems] == [key]
    return problems[0].text


def test_a_node_of_a_cluster_needs_a_name_a_number_peers_and_a_password() -> None:
    assert problems_of(Settings(cluster=cluster())) == []
    assert problems_of(Settings(cluster=cluster(nats="nats://a:4222,tls://b:4222", peers=""))) == []
    assert problems_of(Settings(cluster=cluster(nats="nats://a", peers="", monitors="a, b, [::1]:1"))) == []
    assert problems_of(Settings(cluster=cluster(peers="cluster.example:6222"))) == []
    assert problems_of(Settings(cluster=cluster(mqtt_address="[fd00::1]:1883", redirect=True))) == []


def test_without_a_name_nothing_of_a_cluster_is_asked() -> None:
    settings = Settings(storage=Storage(durability="os"), registry=RegistrySettings(mode="eventual"))
    assert problems_of(settings) == []
    assert not settings.cluster.is_on


TLS = ("tls_certificate", "tls_key", "tls_ca")


@pytest.mark.parametrize(
    ("changed", "key", "advice"),
    [
        ({"name": "a b"}, "cluster.name", "letters, digits"),
        ({"node": 0}, "cluster.node", "from 1"),
        ({"user": "a b"}, "cluster.user", "letters, digits"),
        ({"password_file": None}, "cluster.password_file", "openssl rand"),
        ({"password_file": Path("missing")}, "cluster.password_file", "no such file"),
        (
            {"tls_key": Path(__file__), "tls_ca": Path(__file__)},
            "cluster.tls_certificate",
            "TLS in a cluster is mutual",
        ),
        (dict.fromkeys(TLS, Path(__file__)) | {"tls_ca": Path("missing")}, "cluster.tls_ca", "no such file"),
        ({"peers": "10.0.0.1,10.0.0.2"}, "cluster.peers", "names 2 servers; it must be 3"),
        ({"peers": "10.0.0.1,10.0.0.1,10.0.0.1:6222"}, "cluster.peers", "names 1 servers"),
        ({"peers": "10.0.0.1:6222"}, "cluster.peers", "names 1 servers"),
        ({"peers": "localhost", "cluster_host": "localhost"}, "cluster.peers", "names 1 servers"),
        ({"peers": ""}, "cluster.peers", "names 0 servers"),
        ({"peers": "a:1,b:2,c:0"}, "cluster.peers", "has 'c:0'; it must be host:port"),
        ({"cluster_host": "127.0.0.1"}, "cluster.cluster_host", "do not reach it"),
        ({"stream_bytes": 64 << 20, "catch_up_bytes": 33 << 20}, "cluster.catch_up_bytes", "0 for a quarter of it"),
        ({"client_port": 6222}, "cluster.cluster_port", "as is client_port"),
        ({"monitor_port": 4222}, "cluster.monitor_port", "as is client_port"),
        ({"nats": ",", "peers": ""}, "cluster.nats", "'embedded', or addresses"),
        ({"nats": "http://a", "peers": ""}, "cluster.nats", "nats://host:port"),
        ({"nats": "nats://u:p@a", "peers": ""}, "cluster.nats", "password_file beside it"),
        ({"nats": "nats://a"}, "cluster.peers", "remove one of them"),
        ({"nats": "nats://a", "peers": "", "monitors": "a,b"}, "cluster.monitors", "names 2 servers; it must be 3"),
        ({"nats": "nats://a", "peers": "", "monitors": "a,b,c:0"}, "cluster.monitors", "has 'c:0'"),
        ({"monitors": "a,b,c"}, "cluster.monitors", "runs its own server"),
        ({"mqtt_address": "10.0.0.1"}, "cluster.mqtt_address", "host:port"),
        ({"mqtt_address": "mqtt://a:1"}, "cluster.mqtt_address", "host:port"),
    ],
)
def test_the_section_is_refused_with_what_would_be_right(changed: dict[str, Any], key: str, advice: str) -> None:
    text = refused(Settings(cluster=cluster(**changed)), key)
    assert advice in text
    assert ":p@" not in text, "no password"


@pytest.mark.parametrize(
    ("settings", "key", "advice"),
    [
        (Settings(storage=Storage(durability="os")), "storage.durability", "write 'fsync'"),
        (Settings(storage=Storage(durability="memory")), "storage.durability", "write 'fsync'"),
        (Settings(storage=Storage(on_write_error="warn")), "storage.on_write_error", "write 'refuse'"),
        (Settings(storage=Storage(deliver_qos1="before_commit")), "storage.deliver_qos1", "write 'after_commit'"),
        (Settings(storage=Storage(shards=2)), "storage.shards", "cluster.vnodes"),
        (Settings(storage=Storage(layout="learned")), "storage.layout", "write 'paged'"),
        (Settings(zones={"a": ZoneSettings(filter="a/#", layout="learned")}), "zones.a.layout", "write 'paged'"),
        (Settings(zones={"a": ZoneSettings(filter="a/#", store=False)}), "zones.a.store", "remove it"),
        (Settings(zones={"a": ZoneSettings(filter="a/#", durability="os")}), "zones.a.durability", "remove it"),
        (
            Settings(zones={"a": ZoneSettings(filter="a/#", deliver_qos1="before_commit")}),
            "zones.a.deliver_qos1",
            "write 'after_commit'",
        ),
        (Settings(zones={"a": ZoneSettings(filter="a/#", shards=3)}), "zones.a.shards", "cluster.vnodes"),
        (Settings(sessions=Sessions(queue="journal")), "sessions.queue", "on one node alone; write 'log'"),
        (Settings(sessions=Sessions(queue="redis")), "sessions.queue", "write 'log'"),
        (Settings(classes={"d": ClientClass(clients="d-*", queue="postgres")}), "classes.d.queue", "write 'log'"),
        (
            Settings(mqtt=Mqtt(max_packet_size=MAX_PACKET_BYTES + 1)),
            "mqtt.max_packet_size",
            f"room for {MAX_PACKET_BYTES}",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_cluster_cannot_keep_is_refused_with_the_reason(settings: Settings, key: str, advice: str) -> None:
    assert problems_of(settings) == [], "a node that is alone may have it"
    assert advice in refused(replace(settings, cluster=cluster()), key)


def test_the_largest_packet_of_a_cluster_fits_into_a_record() -> None:
    assert problems_of(Settings(mqtt=Mqtt(max_packet_size=MAX_PACKET_BYTES), cluster=cluster())) == []
    assert problems_of(Settings(cluster=cluster())) == [], "the default does"


def test_addresses_of_servers() -> None:
    embedded = cluster()
    assert embedded.routes() == ("10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222")
    assert embedded.urls() == ("nats://127.0.0.1:4222",)
    assert cluster(client_host="0.0.0.0", client_port=5000).urls() == ("nats://127.0.0.1:5000",)
    assert cluster(client_host="10.0.0.2").urls() == ("nats://10.0.0.2:4222",)
    assert cluster(client_host="::1").urls() == ("nats://[::1]:4222",)
    assert cluster(nats="nats://a:1, tls://b:2").urls() == ("nats://a:1", "tls://b:2")
    assert cluster(peers="[fd00::1]:7000,fd00::2").routes() == ("[fd00::1]:7000", "[fd00::2]:6222")


def test_the_section_is_read_from_a_file(folder: Path) -> None:
    text = f'[cluster]\nname = "plant"\nnode = 2\npeers = "{PEERS}"\ncluster_host = "10.0.0.2"\n'
    (folder / "holdfast.toml").write_text(f'{text}password_file = "cluster.password"\n[registry]\nmode = "linear"\n')
    settings = load(Flags(), {})
    assert (settings.cluster.name, settings.cluster.node, settings.cluster.vnodes) == ("plant", 2, 4)
