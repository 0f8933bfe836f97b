"""The configuration of a node's server, and the name that goes with its store."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.cluster.nats.connection import NatsOptions
from holdfast.cluster.nats.server import ServerOptions, server_config, server_name
from holdfast.model.errors import SettingsError


@pytest.fixture
def options(tmp_path: Path) -> ServerOptions:
    return ServerOptions(
        cluster="plant",
        node="node-1",
        folder=tmp_path,
        user="node",
        password="never-shown",
        client_port=4222,
        cluster_port=6222,
        monitor_port=8222,
        routes=("10.0.0.1:6222", "10.0.0.2:6222"),
        store_bytes=1 << 30,
    )


def test_what_is_acknowledged_is_synced_and_a_record_fits(options: ServerOptions) -> None:
    config: dict[str, Any] = server_config(options, "node-1-x")
    assert config["jetstream"]["sync_interval"] == "always"
    assert config["jetstream"]["max_file_store"] == 1 << 30
    assert config["max_payload"] == 8 << 20


def test_everything_listens_on_loopback_unless_it_is_told_otherwise(options: ServerOptions) -> None:
    config: dict[str, Any] = server_config(options, "x")
    assert config["host"] == "127.0.0.1"
    assert config["cluster"]["listen"] == "127.0.0.1:6222"
    wide: dict[str, Any] = server_config(replace(options, client_host="0.0.0.0", cluster_host="0.0.0.0"), "x")
    assert wide["host"] == "0.0.0.0"
    assert wide["cluster"]["listen"] == "0.0.0.0:6222"
    assert wide["http"] == "127.0.0.1:8222"


def test_clients_and_servers_need_the_credentials_of_the_nodes(options: ServerOptions) -> None:
    config: dict[str, Any] = server_config(options, "x")
    node = {"user": "node", "password": "never-shown"}
    assert config["authorization"] == {"users": [node]}
    assert config["cluster"]["authorization"] == node
    assert config["accounts"] == {"$SYS": {"users": [{"user": "node-system", "password": "never-shown"}]}}
    assert all(route.startswith("nats://node:never-shown@10.0.0.") for route in config["cluster"]["routes"])


def test_a_server_keeps_its_name_for_as_long_as_it_keeps_its_store(options: ServerOptions) -> None:
    first = server_name(options)
    assert first.startswith("node-1-")
    (options.folder / "store" / "jetstream").mkdir()
    assert server_name(options) == first


@pytest.mark.parametrize("lost", ["store", "store/jetstream", "store/server-id"])
def test_a_server_that_lost_its_store_has_a_new_name(options: ServerOptions, lost: str) -> None:
    first = server_name(options)
    (options.folder / "store" / "jetstream").mkdir()
    path = options.folder / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.write_bytes(b"")
    assert server_name(options) != first


@pytest.mark.parametrize(
    "wrong", [{"password": 'a"b'}, {"password": ""}, {"user": "a@b"}, {"node": "a.b"}, {"cluster": ""}]
)
def test_names_that_would_break_the_configuration_are_refused(options: ServerOptions, wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as refused:
        replace(options, **wrong)  # type: ignore[arg-type]
    assert "never-shown" not in str(refused.value)
    assert 'a"b' not in str(refused.value)


def test_a_password_is_in_no_representation_of_options(options: ServerOptions) -> None:
    assert "never-shown" not in repr(options)
    assert "never-shown" not in repr(NatsOptions(("nats://127.0.0.1:4222",), "node", "never-shown"))


@pytest.mark.parametrize("urls", [(), ("127.0.0.1:4222",), ("nats://node:never-shown@127.0.0.1:4222",)])
def test_an_address_without_scheme_or_with_credentials_is_refused(urls: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="right would be") as refused:
        NatsOptions(urls, "node", "x")
    assert "never-shown" not in str(refused.value)
