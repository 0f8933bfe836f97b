"""What a NATS server reports about itself, and which reports are refused."""

import copy
import re
from typing import Any

import pytest

from holdfast.cluster.nats.monitor import Report, check_report, describe_missing_servers
from holdfast.model.errors import SettingsError

GOOD: Report = {
    "server_name": "n1-0a1b2c3d",
    "version": "2.15.1",
    "max_payload": 8 << 20,
    "jetstream": {
        "config": {"store_dir": "/data", "sync_always": True},
        "meta": {"leader": "n1-0a1b2c3d", "cluster_size": 3, "replicas": [{"name": "n2"}, {"name": "n3"}]},
    },
}


def changed(path: str, value: Any) -> Report:
    report = copy.deepcopy(GOOD)
    *folders, last = path.split(".")
    inner = report
    for key in folders:
        inner = inner[key]
    inner[last] = value
    return report


@pytest.mark.parametrize("version", ["2.15.0", "2.15.1", "2.16.0-RC.2", "3.0.0"])
def test_a_server_that_is_new_enough_and_syncs_is_accepted(version: str) -> None:
    check_report(changed("version", version))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("version", "2.14.9", "version = '2.14.9'; right would be 2.15 or later"),
        ("version", "1.99.0", "version = '1.99.0'"),
        ("version", "devel", "version = 'devel'"),
        ("jetstream", {}, "jetstream = 'disabled'; right would be enabled"),
        ("jetstream.config.sync_always", False, "sync_always = False; right would be true"),
        ("jetstream.config.sync_always", None, "sync_always = None"),
        ("max_payload", 1 << 20, "max_payload = 1048576; right would be 8388608: max_payload: 8388608"),
        ("max_payload", 64 << 20, "max_payload = 67108864; right would be 8388608"),
    ],
)
def test_a_server_that_is_not_fit_for_use_is_refused_by_name(path: str, value: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"NATS server n1-0a1b2c3d has {words}")):
        check_report(changed(path, value))


def test_servers_that_are_missing_are_named() -> None:
    assert describe_missing_servers(GOOD, 3) == ""
    assert describe_missing_servers(GOOD, 5) == "3 of 5 servers are there"
    assert "no leader" in describe_missing_servers(changed("jetstream.meta.leader", ""), 3)
    away = changed("jetstream.meta.replicas", [{"name": "n2"}, {"name": "n3", "offline": True}])
    assert describe_missing_servers(away, 3) == "away: n3"
