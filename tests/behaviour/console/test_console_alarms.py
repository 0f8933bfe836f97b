"""Alarms and the audit of a real console, by commands."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.files.token_file import add_token
from tests.behaviour.console.test_console_process import Place, place
from tests.history.processes import until

pytestmark = pytest.mark.slow


def command(here: Place, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from holdfast.cli.main import main; main()", *words, "--data", str(here.data)]
    return subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)


def test_a_wrong_token_file_is_an_alarm_that_is_listed_muted_and_audited_by_commands(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    add_token(tokens, "ci", role="viewer")
    with place(tmp_path, f"console.token_file={tokens}") as here:
        assert "0 alarms are active" in command(here, "alarms", "list").stdout
        assert "nothing was changed" in command(here, "audit").stdout
        right = tokens.read_bytes()
        tokens.write_bytes(right + b"this is no token\n")

        def active() -> list[dict[str, Any]]:
            found = json.loads(command(here, "alarms", "list", "--json").stdout)
            return [alarm for alarm in found if alarm["until_us"] is None]

        until(lambda: [alarm["alarm"] for alarm in active()] == ["credentials_wrong"], "the alarm is raised")
        assert "tokens:2" in active()[0]["detail"]
        muted = command(here, "alarms", "mute", "credentials_wrong", "--seconds", "60")
        assert (muted.returncode, "is muted until" in muted.stdout) == (0, True), muted.stderr
        assert "active, muted" in command(here, "alarms", "list").stdout
        (entry,) = json.loads(command(here, "audit", "--json").stdout)
        assert (entry["what"], entry["target"], entry["outcome"]) == ("mute alarm", "credentials_wrong", "done")
        assert "mute alarm" in command(here, "audit").stdout
        tokens.write_bytes(right)
        until(lambda: active() == [], "the alarm ends")
        refused = command(here, "alarms", "mute", "credentials_wrong")
        assert (refused.returncode, "no alarm 'credentials_wrong' is active" in refused.stderr) == (1, True)
