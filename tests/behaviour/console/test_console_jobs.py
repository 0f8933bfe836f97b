"""Jobs of a real console: they end with it, however it ends, and go on behind their place at its next start."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from holdfast.broker.access.passwords import set_password
from holdfast.files.token_file import add_token
from tests.behaviour.console.test_console_process import Place, holdfast, place
from tests.history.processes import is_running, until

pytestmark = pytest.mark.slow

#: Makes minutes of the milliseconds between two messages.
SLOW = "0.000001"


def processes_of(here: Place) -> dict[int, bytes]:
    """Processes of jobs for this broker, with their arguments."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"holdfast.cli.job" in words and f"--port={here.port}".encode() in words:
            found[int(folder.name)] = words
    return found


def log_in(here: Place) -> None:
    here.cookie = ""
    assert here.log_in(holdfast("console", "open", "--data", str(here.data)).partition("=")[2]) == 200
    until(lambda: here.ask("GET", "/api/v1/node")[1]["state"] == "taking", "the broker reports")


def test_a_job_ends_with_a_killed_console_and_goes_on_behind_its_place(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        log_in(here)
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="p")
        client.connect("127.0.0.1", here.port)
        client.loop_start()
        for number in range(5):
            client.publish("plant/1", str(number), qos=1).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()

        def job() -> dict[str, Any]:
            found: dict[str, Any] = here.ask("GET", "/api/v1/jobs")[1]["items"][0]
            return found

        asked = {"kind": "replay", "filter": "plant/#", "from": "earliest", "speed": SLOW, "user": "u"}
        status, started = here.ask("POST", "/api/v1/jobs", asked | {"password": "pl4nted"})
        assert (status, started["state"]) == (200, "running")
        assert here.ask("POST", "/api/v1/jobs", asked)[0] == 409
        until(lambda: job()["messages"] == 1, "the first message is played")
        ((process, words),) = processes_of(here).items()
        assert b"pl4nted" not in words

        os.kill(here.console_pids()[0], signal.SIGKILL)
        until(lambda: not is_running(process), "the job has ended")
        until(lambda: len(here.console_pids()) == 2, "the console is started again")
        log_in(here)
        assert (job()["state"], job()["messages"]) == ("stopped", 1)
        status, resumed = here.ask("POST", f"/api/v1/jobs/{started['id']}/resume", {"speed": "max"})
        assert (status, resumed["id"]) == (200, started["id"])
        until(lambda: job()["state"] == "done", "it is played to the end")
        assert job()["messages"] == 5
        _status, answer = here.ask("GET", "/api/v1/history/messages?filter=replayed/%23&at=latest")
        payloads = [message["payload"]["text"] for message in answer["messages"]]
        assert payloads[::-1] == ["0", "1", "2", "3", "4"]
        logs = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert b"pl4nted" not in logs


def test_a_job_connects_with_the_password_it_was_given_and_else_says_why_it_failed(tmp_path: Path) -> None:
    users = tmp_path / "users"
    set_password(users, "eva", b"pl4nted")
    allowed = ("listeners.default.allow_anonymous=false", f"security.password_file={users}")
    with place(tmp_path, *allowed) as here:
        log_in(here)

        def end_of(**fields: str) -> tuple[str, str]:
            body = {"kind": "replay", "filter": "a", "from": "earliest"} | fields
            assert here.ask("POST", "/api/v1/jobs", body)[0] == 200

            def newest() -> dict[str, Any]:
                found: dict[str, Any] = here.ask("GET", "/api/v1/jobs")[1]["items"][0]
                return found

            until(lambda: newest()["state"] != "running", "it has ended")
            return newest()["state"], newest()["detail"]

        state, detail = end_of()
        assert state == "failed"
        assert "refused" in detail
        assert end_of(user="eva", password="wrong")[0] == "failed"
        assert end_of(user="eva", password="pl4nted") == ("done", "")


def jobs_command(here: Place, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from holdfast.cli.main import main; main()", "jobs", *words]
    given = [*program, "--data", str(here.data)]
    return subprocess.run(
        given, check=False, capture_output=True, text=True, timeout=60, env={**os.environ, **variables}
    )


def test_jobs_are_listed_shown_and_stopped_by_a_command(tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens", "ci", role="viewer")
    with place(tmp_path, f"console.token_file={tmp_path / 'tokens'}") as here:
        assert json.loads(jobs_command(here, "list", "--json").stdout) == []
        log_in(here)
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="p")
        client.connect("127.0.0.1", here.port)
        client.loop_start()
        for number in range(3):
            client.publish("plant/1", str(number), qos=1).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()
        asked = {"kind": "replay", "filter": "plant/#", "from": "earliest", "speed": SLOW}
        job = here.ask("POST", "/api/v1/jobs", asked)[1]["id"]

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(jobs_command(here, "show", job, "--json").stdout)
            return found

        # More often than five times a minute: commands are no guesses at a password.
        until(lambda: shown()["messages"] == 1, "the first message is played")
        printed = jobs_command(here, "list").stdout
        assert "plant/# → replayed/…" in printed
        assert "1 jobs, 1 of them running" in printed
        for _again in range(6):
            assert shown()["state"] == "running"
        stopped = jobs_command(here, "stop", job)
        assert (stopped.returncode, f"{job}: replay plant/# → replayed/…" in stopped.stdout) == (0, True)
        assert "stopped, " in stopped.stdout
        audit = here.ask("GET", "/api/v1/audit")[1]["items"]
        assert [(entry["what"], entry["name"], entry["outcome"]) for entry in audit[:1]] == [
            ("stop job", "local", "done")
        ]
        again = jobs_command(here, "stop", job, "--json")
        assert (again.returncode, "the job is stopped" in again.stderr) == (1, True)
        missing = jobs_command(here, "show", "nothing")
        assert (missing.returncode, "there is no job 'nothing'" in missing.stderr) == (1, True)
        by_token = jobs_command(here, "show", job, "--token-env", "TOKEN", TOKEN=token)
        assert (by_token.returncode, "stopped" in by_token.stdout) == (0, True)
        refused = jobs_command(here, "stop", job, "--token-env", "TOKEN", TOKEN=token)
        assert (refused.returncode, "operator" in refused.stderr) == (1, True)
        here.broker.end()
        away = jobs_command(here, "list")
        assert (away.returncode, "no console answers" in away.stderr) == (1, True)
    nowhere = Place(tmp_path / "other")
    never = jobs_command(nowhere, "list")
    assert (never.returncode, "no console has run" in never.stderr) == (1, True)
