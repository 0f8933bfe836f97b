"""Rules between settings: each is broken once, and says how to keep it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.model.errors import SettingsError
from holdfast.node.settings import Listener, Security, Settings, Storage
from holdfast.node.settings_check import check
from holdfast.node.settings_load import load
from holdfast.node.settings_sources import Flags

TLS = Listener(kind="tls", port=8883, certificate=Path("server.pem"), key=Path("server.key"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that settings may name."""
    monkeypatch.chdir(tmp_path)
    for name in ("server.pem", "server.key", "ca.pem", "holdfast.passwd", "holdfast.acl"):
        (tmp_path / name).touch()
    return tmp_path


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
    assert text == "listeners.b.port is 1883, as is that of listeners.a; give each a port of its own"


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


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_durability_that_is_not_built_yet_is_refused_and_never_replaced(durability: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(Flags(assignments=(f"storage.durability={durability}",)), {})
    assert str(caught.value).startswith(
        f"--set storage.durability: storage.durability is '{durability}', which is not there yet"
    )


def test_every_broken_rule_is_reported_at_once() -> None:
    settings = Settings(
        listeners={"a": Listener(path="/x"), "b": Listener(kind="tls")}, storage=Storage(durability="os")
    )
    text = refusal(settings)
    for key in (
        "listeners.a.path",
        "listeners.b.certificate",
        "listeners.b.key",
        "listeners.b.port",
        "storage.durability",
    ):
        assert f"{key} is" in text
