"""The cluster of a node from its settings: one shard per zone and vnode, servers, a password from its file."""

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster.nats.server import TlsFiles, server_config
from holdfast.cluster.node_cluster import check_founding
from holdfast.durable.state_machine.decisions import build_zones
from holdfast.model.errors import MisuseError, SettingsError
from holdfast.node.cluster.cluster_options import cluster_options, exposed_without_tls, vnode_settings
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.tree import Listener, Settings, Storage, ZoneSettings
from holdfast.records.cluster.control import Found
from holdfast.records.cluster.control_rows import FoundedRow
from tests.unit.server.certificates import Authority

PRESS = ZoneSettings(filter="press/#", layout="learned", thresholds="20,10", store_qos0=False)
AUDIT = ZoneSettings(filter="audit/#")


def settings(tmp_path: Path, **changed: object) -> Settings:
    password = tmp_path / "cluster.password"
    if not password.exists():
        password.write_text("secret\nanother line\n")
    given = {"name": "plant", "node": 2, "vnodes": 3, "peers": "a:1,b:2,c:3", "password_file": password}
    cluster = ClusterSettings(**(given | changed))  # type: ignore[arg-type]
    return Settings(cluster=cluster, storage=Storage(data=tmp_path / "data"))


def test_a_zone_has_a_shard_of_its_own_in_every_vnode(tmp_path: Path) -> None:
    found = vnode_settings(replace(settings(tmp_path), zones={"press": PRESS, "audit": AUDIT}))
    assert len(found) == 3
    assert [zone.name for zone in found[0].zones] == ["default", "audit", "press"]
    shards = [zone.shard for vnode in found for zone in vnode.zones]
    assert sorted(shards) == list(range(9))
    press = found[1].zones[2]
    assert (press.layout, press.parameters, press.filters) == ("learned", {"thresholds": (20, 10)}, (b"press/#",))
    assert (press.store_qos0, found[1].zones[1].store_qos0) == (False, True)
    for vnode in found:
        build_zones(vnode)


def test_the_order_of_zones_and_listeners_in_a_file_is_no_difference(tmp_path: Path) -> None:
    one = replace(
        settings(tmp_path),
        zones={"press": PRESS, "audit": AUDIT},
        listeners={"a": Listener(mount_point="a/"), "b": Listener(mount_point="b/", port=1884)},
    )
    other = replace(
        one, zones=dict(reversed(list(one.zones.items()))), listeners=dict(reversed(list(one.listeners.items())))
    )
    assert vnode_settings(one) == vnode_settings(other)
    assert vnode_settings(one)[0].mounts == (b"a/", b"b/")


def test_an_embedded_server_has_room_for_all_logs_and_is_asked_first(tmp_path: Path) -> None:
    options = cluster_options(settings(tmp_path))
    server = options.server
    assert server is not None
    assert (server.cluster, server.node, server.folder) == ("plant", "node-2", tmp_path / "data" / "nats")
    assert server.store_bytes > 4 * options.stream_bytes
    assert server.routes == ("a:1", "b:2", "c:3")
    assert (options.nats.urls, options.nats.in_order) == (("nats://127.0.0.1:4222",), True)
    assert options.nats.password == server.password == "secret"
    assert [stream.log for stream in options.streams()] == ["control", "vnode-0", "vnode-1", "vnode-2"]


def test_servers_of_others_are_asked_in_any_order(tmp_path: Path) -> None:
    options = cluster_options(settings(tmp_path, nats="nats://a:1,nats://b:2", peers=""))
    assert options.server is None
    assert (options.nats.urls, options.nats.in_order) == (("nats://a:1", "nats://b:2"), False)


def test_a_password_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("\n")
    with pytest.raises(SettingsError, match="first line is empty"):
        cluster_options(settings(tmp_path, password_file=empty))
    with pytest.raises(SettingsError, match="cannot be read"):
        cluster_options(settings(tmp_path, password_file=tmp_path / "missing"))
    with pytest.raises(MisuseError):
        cluster_options(Settings())


def test_connections_of_nodes_and_servers_use_the_same_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.server_files("node-2")
    tls = {"tls_certificate": signed["certificate"], "tls_key": signed["key"], "tls_ca": authority.file}
    options = cluster_options(settings(tmp_path, **tls))
    assert options.nats.tls is not None
    assert options.nats.tls.verify_mode == ssl.CERT_REQUIRED
    assert not options.nats.tls.check_hostname, "its own server is reached by loopback"
    assert options.server is not None
    assert options.server.tls == TlsFiles(signed["certificate"], signed["key"], authority.file)
    config: Any = server_config(options.server, "n")
    assert config["tls"]["verify"] is config["cluster"]["tls"]["verify"] is True
    assert config["tls"]["handshake_first"] is True
    assert Path(config["cluster"]["tls"]["key_file"]).is_absolute()
    others = cluster_options(settings(tmp_path, nats="nats://a:1", peers="", **tls))
    assert others.nats.tls is not None
    assert others.nats.tls.check_hostname, "a server elsewhere has to be who it says"
    plain = cluster_options(settings(tmp_path))
    assert plain.nats.tls is None
    assert plain.server is not None
    assert "tls" not in server_config(plain.server, "n")


def test_certificates_that_cannot_be_used_are_refused_by_name(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed, other = authority.server_files("node-2"), authority.server_files("node-3")
    tls = {"tls_certificate": signed["certificate"], "tls_key": signed["key"], "tls_ca": authority.file}
    with pytest.raises(SettingsError, match=r"cluster.tls_ca is .*\.key, which holds no certificate"):
        cluster_options(settings(tmp_path, **(tls | {"tls_ca": signed["key"]})))
    with pytest.raises(SettingsError, match=r"cluster.tls_key .*node-3.key; they are no certificate"):
        cluster_options(settings(tmp_path, **(tls | {"tls_key": other["key"]})))


def test_machines_that_are_talked_to_in_clear_are_named(tmp_path: Path) -> None:
    def exposed(**changed: object) -> list[str]:
        return exposed_without_tls(settings(tmp_path, **changed).cluster)

    assert exposed(peers="127.0.0.1:1,10.0.0.2:2,c:3") == ["10.0.0.2", "c"]
    assert exposed(peers="127.0.0.1:1,localhost:2,[::1]:3") == []
    assert exposed(nats="nats://a:1,tls://b:2,nats://127.0.0.1:3", peers="") == ["a"]
    files = dict.fromkeys(("tls_certificate", "tls_key", "tls_ca"), tmp_path)
    assert exposed(peers="10.0.0.1,10.0.0.2,10.0.0.3", **files) == []


def test_a_node_refuses_a_cluster_that_its_settings_do_not_describe(tmp_path: Path) -> None:
    options = cluster_options(settings(tmp_path))
    check_founding(options, FoundedRow(1, bytes(16), Found("plant", options.settings)))
    with pytest.raises(SettingsError, match="belongs to cluster 'other'"):
        check_founding(options, FoundedRow(1, bytes(16), Found("other", options.settings)))
    with pytest.raises(SettingsError, match="made with 2 vnodes"):
        check_founding(options, FoundedRow(1, bytes(16), Found("plant", options.settings[:2])))
    zones = vnode_settings(replace(settings(tmp_path), zones={"press": PRESS}))
    with pytest.raises(SettingsError, match=r"press \(learned, press/#\)"):
        check_founding(options, FoundedRow(1, bytes(16), Found("plant", zones)))
    mounts = vnode_settings(replace(settings(tmp_path), listeners={"a": Listener(mount_point="a/")}))
    with pytest.raises(SettingsError, match="mount point a/"):
        check_founding(options, FoundedRow(1, bytes(16), Found("plant", mounts)))
