"""A reload: what can change while the node runs changes, what cannot is named."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from holdfast.broker.policy import Limits, Mqtt, RegistrySettings, Sessions
from holdfast.model.errors import SettingsError
from holdfast.node import lifecycle
from holdfast.node.embedding import Node, running
from holdfast.node.logs import configure_logs
from holdfast.node.reload import merge
from holdfast.node.settings.tree import SECTIONS, TABLES, Listener, Log, Security, Settings, Storage, Sys, ZoneSettings
from holdfast.node.settings.values import keys_of

ONE = {"default": Listener(port=0)}


def test_live_keys_change_and_the_others_keep_their_value() -> None:
    old = Settings(mqtt=Mqtt(max_inflight=10))
    new = Settings(
        mqtt=Mqtt(max_inflight=20, max_qos=1),
        limits=Limits(max_connections=5),
        security=Security(password_file=Path("users")),
        log=Log(level="debug"),
        sources={"mqtt.max_inflight": "a:1", "mqtt.max_qos": "a:2"},
    )
    reloaded = merge(old, new)
    assert {change.key: (change.before, change.after) for change in reloaded.live()} == {
        "mqtt.max_inflight": (10, 20),
        "limits.max_connections": (10_000, 5),
        "log.level": ("info", "debug"),
    }
    assert [change.key for change in reloaded.waiting()] == ["mqtt.max_qos", "security.password_file"]
    assert reloaded.settings == Settings(
        mqtt=Mqtt(max_inflight=20), limits=Limits(max_connections=5), log=Log(level="debug")
    )
    assert reloaded.settings.sources == {"mqtt.max_inflight": "a:1"}


def test_what_waits_for_a_restart_is_named_at_every_reload() -> None:
    new = Settings(storage=Storage(data=Path("elsewhere")))
    once = merge(Settings(), new)
    again = merge(once.settings, new)
    assert [change.key for change in again.waiting()] == ["storage.data"]
    assert merge(again.settings, Settings()).changes == ()


def test_the_mode_of_the_registry_does_not_change_while_the_node_runs() -> None:
    """R18: it is named as waiting for a restart, and the old one stays in effect."""
    reloaded = merge(Settings(), Settings(registry=RegistrySettings(mode="eventual")))
    assert [(change.key, change.before, change.after) for change in reloaded.waiting()] == [
        ("registry.mode", "linear", "eventual")
    ]
    assert reloaded.settings.registry.mode == "linear"


def test_listeners_that_come_go_or_change_need_a_restart() -> None:
    old = Settings(listeners={"a": Listener(), "b": Listener(port=1)})
    new = Settings(listeners={"b": Listener(port=2), "c": Listener(kind="ws", port=8083)})
    reloaded = merge(old, new)
    assert [(change.key, change.before, change.after, change.live) for change in reloaded.changes] == [
        ("listeners.a", "tcp on 127.0.0.1, port 1883", None, False),
        ("listeners.b.port", 1, 2, False),
        ("listeners.c", None, "ws on 127.0.0.1, port 8083", False),
    ]
    assert reloaded.settings.listeners == old.listeners


def test_zones_that_come_go_or_change_need_a_restart() -> None:
    old = Settings(zones={"a": ZoneSettings(filter="a/#"), "b": ZoneSettings(filter="b/#")})
    new = Settings(zones={"b": ZoneSettings(filter="b/#", retention_s=60), "c": ZoneSettings(filter="c/#")})
    reloaded = merge(old, new)
    assert [(change.key, change.before, change.after, change.live) for change in reloaded.changes] == [
        ("zones.a", "topics a/#", None, False),
        ("zones.b.retention_s", 604_800, 60, False),
        ("zones.c", None, "topics c/#", False),
    ]
    assert reloaded.settings.zones == old.zones


def test_limits_rates_and_log_lines_are_what_can_change() -> None:
    live = {
        f"{name}.{key}"
        for name, section in SECTIONS.items()
        for key, spec in keys_of(section).items()
        if spec.note.live
    }
    assert {
        "limits.max_connections",
        "limits.max_subscriptions",
        "limits.max_sessions",
        "limits.max_retained",
        "limits.connect_rate",
        "limits.publish_rate",
        "sessions.backlog_rate",
        "log.level",
        "sys.interval_s",
    } <= live
    # These are copied where they are used, or were told to clients that are connected.
    assert not live & {"mqtt.max_qos", "mqtt.retain_available", "mqtt.max_packet_size", "limits.connect_timeout_s"}
    # What was stored, and what was promised for it, does not change under way.
    assert not any(key.startswith("storage.") for key in live)
    assert not any(spec.note.live for tables in TABLES.values() for spec in keys_of(tables.table).values())


def in_a_node(settings: Settings, scenario: Callable[[Node], None]) -> None:
    """Run a node with these settings, but nothing on disk."""

    async def run() -> None:
        async with running(replace(settings, storage=Storage(durability="memory")), grace_s=0) as node:
            scenario(node)

    asyncio.run(run())


def test_a_running_node_goes_over_to_new_limits() -> None:
    def scenario(node: Node) -> None:
        node.change(Settings(listeners=ONE, limits=Limits(max_connections=3, connect_rate=7), sessions=Sessions()))
        assert node.settings.limits.max_connections == 3
        assert node.broker._policy.limits is node.settings.limits
        assert node.broker._connect_rates.per_second == 7

    in_a_node(Settings(listeners=ONE), scenario)


def test_the_interval_of_the_brokers_own_topics_changes_with_the_settings() -> None:
    def scenario(node: Node) -> None:
        assert node.broker.retained.count() == 0
        node.change(Settings(listeners=ONE, sys=Sys(interval_s=60)))
        node.broker.exchange.run_iteration()
        assert node.broker.retained.count() > 20

    in_a_node(Settings(listeners=ONE, sys=Sys(interval_s=0)), scenario)


def test_a_reload_says_what_changed_and_what_needs_a_restart() -> None:
    new = Settings(listeners=ONE, mqtt=Mqtt(max_qos=1), limits=Limits(max_connections=3))

    def scenario(node: Node) -> None:
        with capture_logs() as lines:
            lifecycle.reload(node, lambda: new)
        assert {
            "event": "a setting changed",
            "log_level": "info",
            "key": "limits.max_connections",
            "before": "10000",
            "now": "3",
        } in lines
        assert {
            "event": "a setting needs a restart",
            "log_level": "warning",
            "key": "mqtt.max_qos",
            "now": "2",
            "then": "1",
        } in lines
        reloaded = [line["what"] for line in lines if line["event"] == "reloaded"]
        assert reloaded == ["settings", "access", "blocks", "certificates"]

    in_a_node(Settings(listeners=ONE), scenario)


def test_wrong_settings_change_nothing_and_do_not_hold_up_the_rest() -> None:
    def wrong() -> Settings:
        raise SettingsError("holdfast.toml:2: mqtt.max_qos is 7")

    def scenario(node: Node) -> None:
        before = node.settings
        with capture_logs() as lines:
            lifecycle.reload(node, wrong)
        assert node.settings is before
        refused = [line for line in lines if line["log_level"] == "error"]
        assert [(line["what"], line["why"]) for line in refused] == [("settings", "holdfast.toml:2: mqtt.max_qos is 7")]
        assert [line["what"] for line in lines if line["event"] == "reloaded"] == ["access", "blocks", "certificates"]

    in_a_node(Settings(listeners=ONE), scenario)


def test_another_log_level_holds_from_the_reload_on(capsys: pytest.CaptureFixture[str]) -> None:
    def scenario(node: Node) -> None:
        log = structlog.get_logger()
        configure_logs("info", "json")
        lifecycle.reload(node, lambda: Settings(listeners=ONE, log=Log(level="error", format="json")))
        log.info("quiet now")
        lifecycle.reload(node, lambda: Settings(listeners=ONE, log=Log(level="debug", format="json")))
        log.debug("talkative now")

    in_a_node(Settings(listeners=ONE, log=Log(format="json")), scenario)
    said = capsys.readouterr().err
    assert "quiet now" not in said
    assert "talkative now" in said
