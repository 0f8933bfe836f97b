"""Rules between settings: each is broken once, and says how to keep it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.history.settings import History
from holdfast.model.errors import SettingsError
from holdfast.node.settings.cluster_section import ClusterSettings
from holdfast.node.settings.loader import load
from holdfast.node.settings.rules import problems_of, refuse
from holdfast.node.settings.sources import Flags
from holdfast.node.settings.tree import Durability, Listener, Security, Settings, Storage, ZoneSettings

TLS = Listener(kind="tls", port=8883, certificate=Path("server.pem"), key=Path("server.key"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that settings may name."""
    monkeypatch.chdir(tmp_path)
    for name in ("server.pem", "server.key", "ca.pem", "holdfast.passwd", "holdfast.acl"):
        (tmp_path / name).touch()
    return tmp_path


def check(settings: Settings) -> None:
    """SettingsError with every broken rule."""
    refuse(problems_of(settings))


def refusal(settings: Settings) -> str:
    with pytest.raises(SettingsError) as caught:
        check(settings)
    return str(caught.value)


def one(listener: Listener, security: Security | None = None) -> Settings:
    return Settings(listeners={"one": listener}, security=security or Security())


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        one(TLS),
        one(replace(TLS, host="0.0.0.0", client_ca=Path("ca.pem"), require_client_certificate=True)),
        one(Listener(host="0.0.0.0"), Security(password_file=Path("holdfast.passwd"))),
        one(Listener(host="0.0.0.0"), Security(allow_anonymous=True)),
        one(Listener(host="0.0.0.0", allow_anonymous=True)),
        one(Listener(kind="ws", path="/other")),
        Settings(security=Security(password_file=Path("holdfast.passwd"), acl_file=Path("holdfast.acl"))),
        Settings(listeners={"a": Listener(port=0), "b": Listener(port=0)}),
        Settings(listeners={"a": Listener(host="127.0.0.1"), "b": Listener(host="::1")}),
        Settings(storage=Storage(durability="os", layout="bitmask", retention_s=0)),
        Settings(zones={"a": ZoneSettings(filter="a/#", thresholds="3"), "b": ZoneSettings(filter="b/#", store=False)}),
    ],
)
def test_settings_that_keep_the_rules_pass(settings: Settings) -> None:
    check(settings)
    assert settings.listeners


def test_a_reachable_listener_without_credentials_is_refused_with_the_commands_that_fix_it() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Flags(host="0.0.0.0"), {})
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(
        "--host: listeners.default.host is 0.0.0.0, which other machines may reach, and there are no"
    )
    assert rest == [
        "    holdfast user add NAME --file holdfast.passwd",
        "    holdfast serve --host 0.0.0.0 --set security.password_file=holdfast.passwd",
        "or use --host 127.0.0.1 to stay on this machine,",
        "or let everybody in, if you mean it: --set listeners.default.allow_anonymous=true",
    ]
    assert load(Flags(host="0.0.0.0", assignments=("listeners.default.allow_anonymous=true",)), {}).listeners
    assert load(Flags(host="0.0.0.0", assignments=("security.password_file=holdfast.passwd",)), {}).listeners


@pytest.mark.parametrize(
    "listener",
    [
        replace(TLS, host="0.0.0.0"),
        replace(TLS, host="0.0.0.0", client_ca=Path("ca.pem")),
        Listener(host="192.0.2.1", allow_anonymous=False),
    ],
)
def test_encryption_alone_is_no_credential(listener: Listener) -> None:
    assert "--set listeners.one.host=127.0.0.1 to stay on this machine" in refusal(one(listener))


def test_a_listener_that_lets_nobody_in_is_refused() -> None:
    text = refusal(one(Listener(), Security(allow_anonymous=False)))
    assert text.startswith("listeners.one does not let anybody in")
    assert "holdfast user add NAME --file holdfast.passwd" in text


@pytest.mark.parametrize(
    ("listener", "message"),
    [
        (Listener(kind="tls", key=Path("server.key")), "listeners.one.certificate is not set; kind = 'tls' needs"),
        (Listener(kind="wss", certificate=Path("server.pem")), "listeners.one.key is not set; kind = 'wss' needs"),
        (replace(TLS, require_client_certificate=True), "listeners.one.client_ca is not set; require_client"),
        (replace(TLS, crl=Path("ca.pem")), "listeners.one.client_ca is not set; crl lists"),
        (Listener(crl=Path("ca.pem")), "one.crl is set, and kind = 'tcp' does not use it; write"),
        (Listener(certificate=Path("server.pem")), "one.certificate is set, and kind = 'tcp' does not use it; write"),
        (Listener(kind="ws", client_ca=Path("ca.pem")), "does not use it; write kind = 'wss' or remove it"),
        (Listener(path="/other"), "listeners.one.path is set, and kind = 'tcp' has no path"),
        (Listener(kind="ws", path="mqtt"), "listeners.one.path is 'mqtt'; it must begin with a slash"),
        (Listener(host=""), "listeners.one.host is empty; '*' means every address"),
        (Listener(mount_point="a/#"), "listeners.one.mount_point is 'a/#'; it must be whole levels of a topic"),
        (replace(TLS, certificate=Path("no.pem")), "listeners.one.certificate is no.pem, and there is no such file in"),
        (replace(TLS, key=Path(".")), "listeners.one.key is ., which is not a file"),
    ],
)  # fmt: skip
def test_a_listener_is_told_what_is_wrong_and_what_would_be_right(listener: Listener, message: str) -> None:
    text = refusal(one(listener))
    assert message in text
    assert len(text.splitlines()) == 1


def test_a_client_certificate_cannot_be_required_without_encryption() -> None:
    settings = one(Listener(require_client_certificate=True), Security(password_file=Path("holdfast.passwd")))
    assert refusal(settings) == (
        "listeners.one.require_client_certificate is true, and kind = 'tcp' knows no certificates; "
        "write kind = 'tls' or remove it"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::", "*"])
def test_two_listeners_cannot_share_a_port(host: str) -> None:
    listeners = {"a": Listener(port=1883), "b": Listener(host=host, port=1883)}
    text = refusal(Settings(listeners=listeners, security=Security(allow_anonymous=True)))
    assert text == "listeners.b.port is 1883, as is that of listeners.a; give each its own port"


def test_a_missing_password_file_comes_with_the_command_that_makes_it(folder: Path) -> None:
    text = refusal(Settings(security=Security(password_file=Path("new.passwd"))))
    assert text == (
        f"security.password_file is new.passwd, and there is no such file in {folder}; "
        "holdfast user add NAME --file new.passwd makes it"
    )


def test_a_file_that_may_not_be_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may read everything, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != "holdfast.acl")
    text = refusal(Settings(security=Security(acl_file=Path("holdfast.acl"))))
    assert text == "security.acl_file is holdfast.acl, which this user may not read; chown or chmod it"


def test_data_must_be_a_folder() -> None:
    text = refusal(Settings(storage=Storage(data=Path("ca.pem"))))
    assert text == "storage.data is ca.pem, which is not a folder; name one, or a new one"


def test_a_data_folder_that_cannot_be_written_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write everything, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    storage = Storage(data=Path("new/data"))
    assert refusal(Settings(storage=storage)) == (
        f"storage.data is new/data, and this user may not write to {folder}; chown or chmod it, or name another folder"
    )
    check(Settings(storage=replace(storage, durability="memory")))
    (folder / "new" / "data").mkdir(parents=True)
    assert "may not write to new/data;" in refusal(Settings(storage=storage))


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (Storage(thresholds="20,x"), "storage.thresholds is '20,x'; right would be at most 32 whole numbers from 1 to"),
        (
            Storage(thresholds="5", layout="timeline"),
            "storage.thresholds is set, and layout = 'timeline' learns nothing",
        ),
        (Storage(generation_s=61, retention_s=60), "storage.generation_s is 61, and retention_s is 60: messages go"),
        (
            Storage(generation_bytes=9, retention_bytes=8),
            "so many would stay too long; make it at most 8, or 0 to have",
        ),
    ],
)
def test_the_default_zone_is_told_what_is_wrong_and_what_would_be_right(storage: Storage, message: str) -> None:
    text = refusal(Settings(storage=storage))
    assert message in text
    assert len(text.splitlines()) == 1
    zone = ZoneSettings(
        filter="a/#",
        thresholds=storage.thresholds,
        layout=storage.layout,
        retention_s=storage.retention_s,
        retention_bytes=storage.retention_bytes,
        generation_s=storage.generation_s,
        generation_bytes=storage.generation_bytes,
    )
    # With zones beside it, and for a zone itself: the same, and once each.
    zones = {"a": ZoneSettings(filter="a/#"), "b": ZoneSettings(filter="b/#")}
    assert refusal(Settings(storage=storage, zones=zones)) == text
    assert refusal(Settings(zones={"a": zone})) == text.replace("storage.", "zones.a.")


@pytest.mark.parametrize(
    "storage",
    [
        Storage(generation_s=60, retention_s=60),
        Storage(generation_s=60, retention_s=0),
        Storage(generation_bytes=60),
        Storage(thresholds="20, 10"),
        Storage(layout="timeline", thresholds=""),
    ],
)
def test_what_is_dropped_together_may_be_as_much_as_is_kept(storage: Storage) -> None:
    check(Settings(storage=storage))
    assert storage != Storage()


@pytest.mark.parametrize(
    ("name", "filter", "message"),
    [
        ("a", "", "zones.a.filter is empty; name the topics of the zone, such as 'plant/+/press/#'"),
        ("a", "x/#/y", "zones.a.filter is 'x/#/y'; '#' must be the whole last level"),
        (
            "a",
            "$share/g/x",
            "zones.a.filter is '$share/g/x'; $share and $replay are for subscriptions; name the topics",
        ),
        ("a", "$SYS/#", "zones.a.filter is '$SYS/#'; zone 'a': filter '$SYS/#' names $SYS, which is never stored"),
        ("a" * 65, "x", "1 to 64 letters, digits, '_', '-' and '.' are allowed"),
        ("default", "x", "zones.default is the zone of all topics that no other zone names; its settings stand in [st"),
    ],
)
def test_a_zone_is_told_what_is_wrong_and_what_would_be_right(name: str, filter: str, message: str) -> None:
    text = refusal(Settings(zones={name: ZoneSettings(filter=filter), "other": ZoneSettings(filter="y")}))
    assert message in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_zone_that_stores_nothing_cannot_promise_more_than_memory(durability: Durability) -> None:
    zone = ZoneSettings(filter="a", store=False, durability=durability)
    assert refusal(Settings(zones={"a": zone})) == (
        f"zones.a.durability is {durability!r}, and store = false writes nothing that could survive; remove one of them"
    )
    check(Settings(zones={"a": replace(zone, durability=None), "b": replace(zone, filter="b", durability="memory")}))


def test_zones_that_overlap_are_refused_with_both_filters_named() -> None:
    """L17: each pair once, with both zones and both filters."""
    toml = "[zones.a]\nfilter = 'plant/#'\n[zones.b]\nfilter = 'plant/+/press'\n[zones.c]\nfilter = '+/7/press'\n"
    Path("holdfast.toml").write_text(toml + "[zones.d]\nfilter = 'audit'\n", encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(Flags(), {})
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "holdfast.toml:4: zones.b.filter is 'plant/+/press', and zones.a.filter is 'plant/#'; zones 'a' and 'b' "
        "overlap: some topics match both 'plant/#' and 'plant/+/press' (filters are seen behind every mount point "
        "too); a topic belongs to one zone"
    )
    assert [line.split(";")[0] for line in lines[1:]] == [
        "holdfast.toml:6: zones.c.filter is '+/7/press', and zones.a.filter is 'plant/#'",
        "holdfast.toml:6: zones.c.filter is '+/7/press', and zones.b.filter is 'plant/+/press'",
    ]


def test_zones_that_overlap_behind_a_mount_point_are_refused() -> None:
    """L17: mount points are included."""
    zones = {"a": ZoneSettings(filter="x/#"), "b": ZoneSettings(filter="tenant/#")}
    check(Settings(zones=zones))
    text = refusal(replace(one(Listener(mount_point="tenant/")), zones=zones))
    assert text.startswith(
        "zones.b.filter is 'tenant/#', and zones.a.filter is 'x/#'; zones 'a' and 'b' overlap: some topics match both "
        "'tenant/x/#' and 'tenant/#'"
    )


def test_a_wrong_mount_point_is_not_blamed_on_the_zones() -> None:
    zones = {"a": ZoneSettings(filter="x/#"), "b": ZoneSettings(filter="y/#")}
    text = refusal(replace(one(Listener(mount_point="tenant")), zones=zones))
    assert text.startswith("listeners.one.mount_point is 'tenant'")
    assert len(text.splitlines()) == 1


def test_every_broken_rule_is_reported_at_once() -> None:
    settings = Settings(
        listeners={"a": Listener(path="/x"), "b": Listener(kind="tls")},
        storage=Storage(thresholds="0"),
        zones={"a": ZoneSettings(), "b": ZoneSettings(filter="b/#", thresholds="0")},
    )
    text = refusal(settings)
    for key in (
        "listeners.a.path",
        "listeners.b.certificate",
        "listeners.b.key",
        "listeners.b.port",
        "storage.thresholds",
        "zones.a.filter",
        "zones.b.thresholds",
    ):
        assert f"{key} is" in text


def test_a_lake_needs_the_process_that_reads_it_and_a_single_node() -> None:
    assert "set history.enabled = true" in refusal(Settings(history=History(lake="/srv/lake")))
    check(Settings(history=History(enabled=True, lake="/srv/lake")))
    cluster = ClusterSettings(name="c", node=1)
    told = refusal(Settings(history=History(enabled=True, lake="/srv/lake"), cluster=cluster))
    assert "history.lake" in told
    assert "nodes of a cluster replay what their logs have" in told
