"""Sources, their order, and what is said about values that are wrong."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.model.errors import SettingsError
from holdfast.node.settings.loader import load
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Listener, ZoneSettings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to start in, so that no holdfast.toml of this machine is read."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def problems(
    toml: str = "", *assignments: str, environment: Mapping[str, str] | None = None, rules: bool = True
) -> list[str]:
    """The lines of the refusal."""
    if toml:
        Path("holdfast.toml").write_text(toml, encoding="utf-8")
    with pytest.raises(SettingsError) as refusal:
        load(Flags(assignments=assignments), environment or {}, rules=rules)
    return str(refusal.value).splitlines()


# Sources


def test_a_file_in_the_folder_is_read_without_being_named(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[mqtt]\nmax_qos = 1\n")
    settings = load(Flags(), {})
    assert settings.mqtt.max_qos == 1
    assert settings.sources["mqtt.max_qos"] == "holdfast.toml:2"


def test_a_named_file_is_read_instead_of_the_one_in_the_folder(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[mqtt]\nmax_qos = 1\nmax_inflight = 7\n")
    (folder / "other.toml").write_text("[mqtt]\nmax_qos = 0\n")
    settings = load(Flags(config=Path("other.toml")), {})
    assert (settings.mqtt.max_qos, settings.mqtt.max_inflight) == (0, 1000)


def test_the_environment_joins_section_and_key_by_two_underscores() -> None:
    """M8."""
    environment = {
        "HOLDFAST__MQTT__MAX_QOS": "1",
        "HOLDFAST__MQTT__RETAIN_AVAILABLE": "false",
        "HOLDFAST__LISTENERS__DEFAULT__PORT": "1884",
        "HOLDFAST__LOG__LEVEL": "debug",
        "HOLDFAST__SYS__INTERVAL_S": "2.5",
        "HOLDFAST_BUILD": "pure",
        "PATH": "/bin",
    }
    settings = load(Flags(), environment)
    assert (settings.mqtt.max_qos, settings.mqtt.retain_available) == (1, False)
    assert settings.listeners == {"default": Listener(port=1884)}
    assert (settings.log.level, settings.sys.interval_s) == ("debug", 2.5)


def test_the_process_environment_is_read_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST__MQTT__MAX_QOS", "0")
    assert load().mqtt.max_qos == 0


def test_later_sources_win_key_by_key(folder: Path) -> None:
    """M8: TOML below, the environment above it, flags on top."""
    (folder / "holdfast.toml").write_text("[mqtt]\nmax_qos = 0\nmax_inflight = 1\nreceive_maximum = 1\n")
    environment = {"HOLDFAST__MQTT__MAX_INFLIGHT": "2", "HOLDFAST__MQTT__RECEIVE_MAXIMUM": "2"}
    settings = load(Flags(assignments=("mqtt.receive_maximum=3",)), environment)
    assert settings.mqtt.topic_alias_maximum == 32
    assert (settings.mqtt.max_qos, settings.mqtt.max_inflight, settings.mqtt.receive_maximum) == (0, 2, 3)
    assert settings.sources == {
        "mqtt.max_qos": "holdfast.toml:2",
        "mqtt.max_inflight": "HOLDFAST__MQTT__MAX_INFLIGHT",
        "mqtt.receive_maximum": "--set mqtt.receive_maximum",
    }


def test_the_last_of_two_assignments_wins_and_short_flags_win_over_both() -> None:
    flags = Flags(assignments=("storage.data=a", "storage.data=b", "listeners.default.port=1"), port=2, host="::1")
    settings = load(flags, {})
    assert settings.storage.data == Path("b")
    assert settings.listeners["default"] == Listener(host="::1", port=2)
    assert load(Flags(assignments=("storage.data=a",), data="c"), {}).storage.data == Path("c")


@pytest.mark.parametrize(
    ("assignment", "section", "key", "value"),
    [
        ("storage.data=2026", "storage", "data", Path("2026")),
        ("storage.data='a b'", "storage", "data", Path("a b")),
        ("storage.data=a=b", "storage", "data", Path("a=b")),
        ("log.level=debug", "log", "level", "debug"),
        ('log.level="debug"', "log", "level", "debug"),
        ("mqtt.max_packet_size=0x400", "mqtt", "max_packet_size", 1024),
        ("mqtt.max_packet_size=2_000", "mqtt", "max_packet_size", 2000),
        ("limits.connect_timeout_s=3", "limits", "connect_timeout_s", 3.0),
        ("security.allow_anonymous=false", "security", "allow_anonymous", False),
        ("security.allow_anonymous=", "security", "allow_anonymous", None),
    ],
)
def test_a_typed_value_is_toml_or_else_text(assignment: str, section: str, key: str, value: object) -> None:
    settings = load(Flags(assignments=(assignment,)), {}, rules=False)
    assert getattr(getattr(settings, section), key) == value


def test_an_empty_value_unsets_what_a_weaker_source_set(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[security]\npassword_file = 'missing'\n")
    settings = load(Flags(assignments=("security.password_file=",)), {})
    assert settings.security.password_file is None
    assert settings.sources["security.password_file"] == "--set security.password_file"


# Listeners


def test_listeners_have_names_and_the_usual_port_of_their_kind(folder: Path) -> None:
    kinds = "".join(f"[listeners.{kind}]\nkind = '{kind}'\n" for kind in ("tcp", "tls", "ws", "wss"))
    (folder / "holdfast.toml").write_text(kinds)
    settings = load(Flags(), {}, rules=False)
    ports = {name: (listener.kind, listener.port) for name, listener in settings.listeners.items()}
    assert ports == {"tcp": ("tcp", 1883), "tls": ("tls", 8883), "ws": ("ws", 8083), "wss": ("wss", 8084)}


def test_an_empty_table_is_a_listener(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[listeners.plain]\n")
    assert load(Flags(), {}).listeners == {"plain": Listener()}


def test_host_and_port_do_not_add_a_listener_to_others(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[listeners.plain]\nport = 1883\n")
    with pytest.raises(SettingsError) as refusal:
        load(Flags(port=1884, host="::1"), {})
    assert str(refusal.value).splitlines() == [
        "--host ::1: the listeners are plain, and none is called default; use --set listeners.plain.host=::1",
        "--port 1884: the listeners are plain, and none is called default; use --set listeners.plain.port=1884",
    ]


# Zones


def test_zones_have_names_and_come_from_every_source(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[zones.press]\nfilter = 'plant/+/press/#'\nshards = 4\nstore_qos0 = false\n")
    environment = {"HOLDFAST__ZONES__PRESS__DURABILITY": "os", "HOLDFAST__ZONES__AUDIT__FILTER": "audit/#"}
    settings = load(Flags(assignments=("zones.audit.thresholds=20,10", "zones.all-2.filter=2")), environment)
    assert settings.zones == {
        "press": ZoneSettings(filter="plant/+/press/#", shards=4, store_qos0=False, durability="os"),
        "audit": ZoneSettings(filter="audit/#", thresholds="20,10"),
        "all-2": ZoneSettings(filter="2"),
    }
    assert settings.sources["zones.press.shards"] == "holdfast.toml:3"


def test_a_zone_needs_a_filter(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[zones.press]\n")
    with pytest.raises(SettingsError, match=r"zones\.press\.filter is empty; name the topics of the zone"):
        load(Flags(), {})


# What is wrong, where, and what would be right


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[mqt]\nmax_qos = 1\nx = 2", "holdfast.toml:2: there is no section [mqt]; did you mean [mqtt]?"),
        ("[zzz]\nx = 1", "there are listeners, mqtt, limits, sessions, classes, security, storage, zones, journal"),
        ("mqtt = 3", "holdfast.toml:1: mqtt is a section; write [mqtt] and its keys below"),
        ("[mqtt]\nmax_qoss = 1", "holdfast.toml:2: there is no setting mqtt.max_qoss; did you mean mqtt.max_qos?"),
        ("[mqtt]\npassword_file = 'p'", "mqtt.password_file; did you mean security.password_file?"),
        ("[log]\nxyz = 1", "holdfast.toml:2: there is no setting log.xyz; [log] has level, format"),
        ("[mqtt]\n\nmax_qos = 7", "holdfast.toml:3: mqtt.max_qos is 7; it must be a whole number from 0 to 2"),
        ("mqtt.max_qos = 7", "holdfast.toml:1: mqtt.max_qos is 7; it must be a whole number from 0 to 2"),
        ("mqtt = {max_qos = 7}", "holdfast.toml: mqtt.max_qos is 7; it must be a whole number from 0 to 2"),
        ("[mqtt]\nmax_qos = 1.0", "mqtt.max_qos is 1.0; it must be a whole number from 0 to 2"),
        ("[mqtt]\nmax_qos = '1'", 'mqtt.max_qos is "1"; it must be a whole number from 0 to 2'),
        ("[mqtt]\nmax_qos = true", "mqtt.max_qos is true; it must be a whole number from 0 to 2"),
        ("[mqtt.max_qos]\nx = 1", "holdfast.toml:1: mqtt.max_qos is a table; it must be a whole number from 0 to 2"),
        ("[limits]\nmax_connections = -1", "limits.max_connections is -1; it must be a whole number, at least 0"),
        ("[limits]\nconnect_timeout_s = nan", "connect_timeout_s is nan; it must be a number from 0.01 to 3600"),
        ("[mqtt]\nretain_available = 'yes'", 'mqtt.retain_available is "yes"; it must be true or false'),
        ("[mqtt]\nretain_available = 1", "mqtt.retain_available is 1; it must be true or false"),
        ("[log]\nlevel = 'loud'", 'log.level is "loud"; it must be one of debug, info, warning, error'),
        ("[storage]\ndata = 1", "storage.data is 1; it must be a path"),
        ("[storage]\ndata = ''", "storage.data is empty; it must be a path"),
        ("[storage]\ndata = ['a']", "storage.data is an array; it must be a path"),
        ('[storage]\ndata = "a\\u0000"', "storage.data contains U+0000; it must be without"),
        ("[listeners.a]\nkind = 'udp'", 'listeners.a.kind is "udp"; it must be one of tcp, tls, ws, wss'),
        ("[listeners.a]\nprot = 1", "there is no setting listeners.a.prot; did you mean listeners.a.port?"),
        ("[listeners.a]\nzzz = 1", "there is no setting listeners.a.zzz; a listener has kind, host, port"),
        ("[listeners.a]\nport = 65536", "listeners.a.port is 65536; it must be a whole number from 0 to 65535"),
        ("[listeners]\nhost = 'a'", "listeners.host is no setting; every listener has a name: write [listeners"),
        ("[listeners.A]\nport = 1\nhost = 'x'", '"A" is no name for a listener; use lower-case letters, digits'),
        ("[zone.a]\nfilter = 'a'", "holdfast.toml:1: there is no section [zone]; did you mean [zones]?"),
        ("[[zones]]\nfilter = 'a'", "zones is no setting; every zone has a name: write [zones.machines] and filter"),
        ("[zones]\nshards = 2", "zones.shards is no setting; every zone has a name: write [zones.machines] and shards"),
        ("[zones.a]\nfilters = 'a'", "there is no setting zones.a.filters; did you mean zones.a.filter?"),
        ("[zones.a]\nfilter = 'a'\nzzz = 1", "there is no setting zones.a.zzz; a zone has filter, durability, shards"),
        ("[zones.A]\nfilter = 'a'", '"A" is no name for a zone; use lower-case letters, digits'),
        ("[zones.a]\nfilter = 'a'\nshards = 257", "zones.a.shards is 257; it must be a whole number from 1 to 256"),
        ("[zones.a]\nfilter = ['a']", "zones.a.filter is an array; it must be text"),
        ("[zones.a]\nfilter = 'a/#/b'", "holdfast.toml:2: zones.a.filter is 'a/#/b'; '#' must be the whole last level"),
        ("[storage]\nfilter = 'a'", "there is no setting storage.filter; did you mean zones.NAME.filter?"),
        ("[storage]\nlayout = 'heap'", 'storage.layout is "heap"; it must be one of paged, learned, timeline, bitmask'),
        ("[mqtt\n", "holdfast.toml: is not TOML: Expected ']' at the end of a table declaration (at line 1"),
    ],
)  # fmt: skip
def test_the_file_is_told_what_is_wrong_and_what_would_be_right(toml: str, message: str) -> None:
    lines = problems(toml)
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("mqtt.max_qos", "--set mqtt.max_qos: there is no value; write --set section.key=value"),
        ("mqtt.max_qos=7", "--set mqtt.max_qos: mqtt.max_qos is 7; it must be a whole number from 0 to 2"),
        ("max_qos=1", "--set max_qos: there is no section [max_qos]"),
        ("mqtt.retain_available=no", 'mqtt.retain_available is "no"; it must be true or false'),
        ("mqtt.max_qos=1\nx=2", "it must be a whole number from 0 to 2"),
    ],
)
def test_an_assignment_is_told_what_is_wrong_and_what_would_be_right(assignment: str, message: str) -> None:
    lines = problems("", assignment)
    assert len(lines) == 1
    assert message in lines[0]


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("HOLDFAST__MQTT__MAX_QOSS", "HOLDFAST__MQTT__MAX_QOSS: there is no setting mqtt.max_qoss; did you mean"),
        ("HOLDFAST__MQTT", "HOLDFAST__MQTT: mqtt is a section"),
        ("HOLDFAST__MQTT__MAX_QOS", "HOLDFAST__MQTT__MAX_QOS: mqtt.max_qos is 7; it must be a whole number"),
        ("HOLDFAST__LISTENERS__PORT", "HOLDFAST__LISTENERS__PORT: listeners.port is no setting; every listener has"),
    ],
)
def test_a_variable_is_told_what_is_wrong_and_what_would_be_right(variable: str, message: str) -> None:
    lines = problems(environment={variable: "7"})
    assert len(lines) == 1
    assert lines[0].startswith(message)


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: there is no such file; name another with --config"):
        load(Flags(config=Path("absent.toml")), {})
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        load(Flags(config=folder), {})
    (folder / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        load(Flags(config=Path("latin.toml")), {})


def test_everything_wrong_is_reported_at_once() -> None:
    toml = "[mqtt]\nmax_qos = 7\nmax_qoss = 1\n[listeners.default]\nhost = '0.0.0.0'\n[storage]\nthresholds = '0'\n"
    lines = problems(toml, "log.level=loud", "nothing", environment={"HOLDFAST__SYS__INTERVAL_S": "-1"}, rules=False)
    assert [line.split(": ")[0] for line in lines] == [
        "--set nothing",
        "holdfast.toml:2",
        "holdfast.toml:3",
        "HOLDFAST__SYS__INTERVAL_S",
        "--set log.level",
    ]
    lines = problems(toml, "log.level=loud")
    assert [line.split(": ")[0] for line in lines if line.startswith(("holdfast.toml", "--set"))] == [
        "holdfast.toml:2",
        "holdfast.toml:3",
        "--set log.level",
        "holdfast.toml:5",
        "holdfast.toml:7",
    ]


def test_a_wrong_value_is_not_blamed_a_second_time_for_its_consequences() -> None:
    assert len(problems("[listeners.default]\nhost = '0.0.0.0'\n[security]\npassword_file = 3\n")) == 1


def test_rules_are_not_judged_while_a_source_is_unreadable(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[security\n")
    with pytest.raises(SettingsError) as refusal:
        load(Flags(host="0.0.0.0"), {})
    assert str(refusal.value).startswith("holdfast.toml: is not TOML")
    assert len(str(refusal.value).splitlines()) == 1
