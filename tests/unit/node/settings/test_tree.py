"""The tree itself, and the rows that show it."""

from pathlib import Path

import pytest

from holdfast.node.settings.loader import effective_settings, load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import SECTIONS, TABLES, TREE, Listener, Security, Settings, Storage, ZoneSettings
from holdfast.node.settings.values import KeySpec, convert, describe_expected, keys_of
from holdfast.testing import loopback_settings

EVERY_KEY = [
    (name if name in SECTIONS else f"{name}.default", spec)
    for name in TREE
    for spec in keys_of(SECTIONS[name] if name in SECTIONS else TABLES[name].table).values()
]


@pytest.mark.parametrize(("section", "spec"), EVERY_KEY, ids=lambda part: getattr(part, "name", part))
def test_every_key_explains_itself_and_accepts_its_own_default(section: str, spec: KeySpec) -> None:
    assert spec.note.meaning.endswith(".")
    assert describe_expected(spec)
    value = str(spec.default) if isinstance(spec.default, Path) else spec.default
    assert convert(spec, "" if value is None else value) == spec.default


def test_without_any_source_the_broker_listens_on_loopback_only() -> None:
    settings = load(Flags(), {})
    assert settings == Settings()
    assert settings.listeners == {"default": Listener(kind="tcp", host="127.0.0.1", port=1883)}
    assert settings.listeners["default"].is_loopback


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.7", False),
        ("example.org", False),
    ],
)
def test_only_addresses_of_this_machine_count_as_loopback(host: str, loopback: bool) -> None:
    assert Listener(host=host).is_loopback is loopback


@pytest.mark.parametrize(
    ("listener", "security", "allowed"),
    [
        (Listener(), Security(), True),
        (Listener(), Security(password_file=Path("p")), False),
        (Listener(kind="tls", require_client_certificate=True), Security(), False),
        (Listener(host="0.0.0.0"), Security(), False),
        (Listener(host="0.0.0.0"), Security(allow_anonymous=True), True),
        (Listener(), Security(allow_anonymous=False), False),
        (Listener(allow_anonymous=False), Security(allow_anonymous=True), False),
        (Listener(allow_anonymous=True), Security(allow_anonymous=False), True),
    ],
)
def test_anonymous_clients_come_in_where_somebody_said_so_or_nobody_else_can_reach(
    listener: Listener, security: Security, allowed: bool
) -> None:
    assert Settings(security=security).anonymous_allowed(listener) is allowed


def test_every_key_is_shown_with_its_value_and_source() -> None:
    flags = Flags(assignments=("mqtt.max_qos=1", "zones.default.filter=a/#", "classes.default.clients=a*"))
    settings = load(flags, {"HOLDFAST__LISTENERS__DEFAULT__PORT": "1884"}, rules=False)
    rows = {row.key: (row.value, row.source) for row in effective_settings(settings)}
    assert rows["mqtt.max_qos"] == (1, "--set mqtt.max_qos")
    assert rows["listeners.default.port"] == (1884, "HOLDFAST__LISTENERS__DEFAULT__PORT")
    assert rows["zones.default.filter"] == ("a/#", "--set zones.default.filter")
    assert rows["log.level"] == ("info", "default")
    assert list(rows) == [f"{section}.{spec.name}" for section, spec in EVERY_KEY]


MEMORY = Storage(durability="memory")


@pytest.mark.parametrize(
    ("settings", "on_disk"),
    [
        (Settings(), True),
        (Settings(storage=Storage(durability="os")), True),
        (Settings(storage=MEMORY), False),
        (Settings(storage=MEMORY, zones={"a": ZoneSettings(filter="a")}), True),
        (Settings(storage=MEMORY, zones={"a": ZoneSettings(filter="a", store=False)}), False),
        (Settings(storage=MEMORY, zones={"a": ZoneSettings(filter="a", store=False, durability="memory")}), False),
    ],
)
def test_there_is_something_on_disk_if_anything_is_to_outlive_the_node(settings: Settings, on_disk: bool) -> None:
    assert settings.on_disk() is on_disk


def test_a_broker_for_tests_leaves_nothing_behind() -> None:
    assert not loopback_settings().on_disk()
