"""`holdfast config`: what is wrong is said, what is right is shown."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.config import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to start in, so that no holdfast.toml of this machine is read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
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
