"""`holdfast config`: what is wrong is said, what is right is shown."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.config import config as app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to start in, so that no holdfast.toml of this machine is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HOLDFAST__CONSOLE__ENABLED")
    return tmp_path


def config(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_right_settings_pass_and_are_counted(folder: Path) -> None:
    (folder / "holdfast.toml").write_text("[mqtt]\nmax_qos = 1\n")
    done = config("check", "--port", "1884")
    assert done.exit_code == 0
    assert done.output == "The settings are right: 1 listener, 2 keys that are not at their default.\n"


def test_check_reports_everything_that_is_wrong_on_standard_error(folder: Path) -> None:
    (folder / "other.toml").write_text("[mqtt]\nmax_qos = 7\n[mqttt]\nx = 1\n")
    done = config("check", "--config", "other.toml", "--set", "log.level=loud")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "holdfast: other.toml:2: mqtt.max_qos is 7; it must be a whole number from 0 to 2",
        "other.toml:4: there is no section [mqttt]; did you mean [mqtt]?",
        '--set log.level: log.level is "loud"; it must be one of debug, info, warning, error',
    ]


def test_check_refuses_what_serve_would_refuse() -> None:
    done = config("check", "--host", "0.0.0.0")
    assert done.exit_code == 2
    assert "holdfast user add NAME --file holdfast.passwd" in done.stderr


def test_show_prints_each_setting_with_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST__MQTT__MAX_QOS", "1")
    done = config("show", "--data", "elsewhere")
    assert done.exit_code == 0
    rows = [line.split() for line in done.output.splitlines()]
    assert ["mqtt.max_qos", "1", "HOLDFAST__MQTT__MAX_QOS"] in rows
    assert ["storage.data", '"elsewhere"', "--data"] in rows
    assert ["security.password_file", "not", "set", "default"] in rows


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("HOLDFAST_MQTT_MAX_QOS", "HOLDFAST__MQTT__MAX_QOS"),
        ("HOLDFAST_MQTT__MAX_QOS", "HOLDFAST__MQTT__MAX_QOS"),
        ("HOLDFAST__MQTT_MAX_QOS", "HOLDFAST__MQTT__MAX_QOS"),
        ("HOLDFAST_LISTENERS_MY_TLS_PORT", "HOLDFAST__LISTENERS__MY_TLS__PORT"),
    ],
)
def test_a_variable_with_wrong_underscores_is_refused_with_its_right_name(
    given: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(given, "1")
    done = config("check")
    assert done.exit_code == 2
    assert done.stderr == f"holdfast: {given} sets nothing; two underscores join section and key: {meant}\n"


def test_variables_of_other_things_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", "/opt/holdfast")
    monkeypatch.setenv("HOLDFAST__LISTENERS__MY_TLS__PORT", "1")
    assert config("check").exit_code == 0


def test_passwords_inside_addresses_are_hidden(folder: Path) -> None:
    (folder / "holdfast.toml").write_text(
        "[redis]\nurl = 'redis://ann:secret@h1,redis://:secret@h2'\n"
        "[postgres]\nurl = 'postgresql://ann:secret@host/db?password=secret'\n"
    )
    for form in ((), ("--json",)):
        done = config("show", *form)
        assert done.exit_code == 0
        assert "redis://ann:***@h1,redis://:***@h2" in done.output
        assert "postgresql://ann:***@host/db?password=***" in done.output
        assert "secret" not in done.output


def test_check_reports_every_wrong_line_of_the_files_of_users_and_access(folder: Path) -> None:
    (folder / "acl").write_text("topic read a/#/b\ntopic read fine\nusr ann\npattern read %c/+x\n")
    (folder / "users").write_text("ann\nbob:plain\n:x\n")
    done = config("check", "--set", "security.acl_file=acl", "--set", "security.password_file=users")
    assert done.exit_code == 2
    places = [line.removeprefix("holdfast: ").split(": ")[0] for line in done.stderr.splitlines()]
    assert places == ["users:1", "users:2", "users:3", "acl:1", "acl:3", "acl:4"]


def test_show_as_json_is_for_programs() -> None:
    done = config("show", "--json", "--set", "security.password_file=users")
    rows = {row["key"]: (row["value"], row["source"]) for row in json.loads(done.output)}
    assert rows["security.password_file"] == ("users", "--set security.password_file")
    assert rows["security.acl_file"] == (None, "default")
    assert rows["listeners.default.port"] == (1883, "default")


def test_show_needs_right_values_but_no_kept_rules() -> None:
    assert config("show", "--host", "0.0.0.0").exit_code == 0
    done = config("show", "--set", "mqtt.max_qos=7")
    assert done.exit_code == 2
    assert "it must be a whole number from 0 to 2" in done.stderr
