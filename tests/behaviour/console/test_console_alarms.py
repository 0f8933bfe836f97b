"""Alarms and the audit of a real console, by commands; alarms by what really happens to a broker."""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from holdfast.files.token_file import add_token
from holdfast.storage.rocks.log.leases import renew_lease
from tests.behaviour.console.test_console_process import Place, place
from tests.history.processes import until

pytestmark = pytest.mark.slow


def command(here: Place, *words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from holdfast.cli.main import main; main()", *words, "--data", str(here.data)]
    return subprocess.run(program, check=False, capture_output=True, text=True, timeout=60)


def alarms_of(here: Place, *, active: bool) -> dict[str, str]:
    """What alarms say, by their names."""
    done = command(here, "alarms", "list", "--json")
    items = json.loads(done.stdout) if done.returncode == 0 else []
    return {item["alarm"]: item["detail"] for item in items if (item["until_us"] is None) == active}


def metrics_of(here: Place) -> str:
    return str(here.ask("GET", "/metrics")[1])


def publish(here: Place, size_bytes: int, *, answered: bool = True) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="p", reconnect_on_failure=False)
    client.connect("127.0.0.1", here.port)
    client.loop_start()
    until(client.is_connected, "the broker lets the client in")
    published = client.publish("a/b", bytes(size_bytes), qos=1)
    if answered:
        published.wait_for_publish(60)
        assert published.is_published()
    else:
        until(lambda: not client.is_connected(), "the broker ends")
    client.disconnect()
    client.loop_stop()


def test_a_write_that_fails_for_good_is_an_alarm_of_the_last_frame_and_a_past_one_after_the_next_start(
    tmp_path: Path,
) -> None:
    with place(tmp_path, "console.open_metrics=true") as here:
        publish(here, 10)
        assert here.broker.process is not None
        # No file of the broker may grow any further: the write-ahead log cannot take the next message.
        most_bytes = max(path.stat().st_size for path in here.data.glob("rocks/*.log")) + 100_000
        resource.prlimit(here.broker.process.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        publish(here, 1_000_000, answered=False)
        assert here.broker.process.wait(60) == 1
        kept = json.loads((here.data / "console" / "alarms.json").read_text())
        assert [alarm["alarm"] for alarm in kept["active"]] == ["poisoned"]
        here.broker.start()
        until(lambda: len(here.console_pids()) == 2, "the console serves again")
        until(lambda: "poisoned" in alarms_of(here, active=False), "the alarm ends with the next start")
        assert "nothing is stored any more" in alarms_of(here, active=False)["poisoned"]
        assert 'holdfast_alarm_last_raised_timestamp_seconds{alarm="poisoned"}' in metrics_of(here), "for alert rules"
        publish(here, 1_000_000)


def test_damaged_data_is_an_alarm_until_its_report_is_removed(tmp_path: Path) -> None:
    with place(tmp_path, "console.open_metrics=true") as here:
        publish(here, 10)
        here.broker.end()
        (here.data / "rocks" / "CURRENT").unlink()
        here.broker.start()
        until(lambda: here.broker.said("the data was damaged"), "the damage is mended")
        until(lambda: "damaged" in alarms_of(here, active=True), "the alarm is raised")
        assert alarms_of(here, active=True)["damaged"].startswith("1 reports of damage")
        assert "holdfast_damage_reports 1\n" in metrics_of(here)
        shutil.rmtree(here.data / "quarantine")
        until(lambda: "damaged" in alarms_of(here, active=False), "the alarm ends")


def test_a_lease_that_retention_does_not_wait_for_is_an_alarm_until_it_is_removed(tmp_path: Path) -> None:
    kept = ("storage.retention_s=1", "storage.generation_s=1", "history.lease_max_age_s=60")
    with place(tmp_path, "console.open_metrics=true", *kept) as here:
        publish(here, 10)
        renew_lease(here.data, "archive", dict.fromkeys(range(64), 0), time.time_ns() // 1000 - 120_000_000)

        def is_broken() -> bool:
            publish(here, 10)  # a generation ends with a message behind it
            return bool(here.broker.said("a lease is broken, and its pipeline may lose messages"))

        until(is_broken, "retention passes the lease")
        until(lambda: "lease_broken" in alarms_of(here, active=True), "the alarm is raised")
        assert alarms_of(here, active=True)["lease_broken"] == "retention did not wait for: archive"
        assert 'holdfast_lease_broken_timestamp_seconds{lease="archive"} ' in metrics_of(here)
        here.broker.end()
        here.broker.start()
        until(lambda: len(here.console_pids()) == 2, "the console serves again")
        until(lambda: "holdfast_leases_broken 1\n" in metrics_of(here), "the restarted broker knows of it")
        assert "lease_broken" in alarms_of(here, active=True)
        assert "was broken on " in command(here, "leases").stderr
        assert command(here, "leases", "--remove", "archive").returncode == 0
        until(lambda: "lease_broken" in alarms_of(here, active=False), "the alarm ends")


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
