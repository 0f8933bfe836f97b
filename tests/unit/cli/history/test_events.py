"""`holdfast events`: what is listed, in which form, and what is said when nothing can be."""

import json
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from holdfast.cli.history.events import events
from holdfast.records.events import Event
from holdfast.storage.event_files import EventFiles

app = typer.Typer()
app.command()(events)

HOUR_US = 3_600_000_000


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "250"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "rocks").mkdir()
    now_us = time.time_ns() // 1000
    EventFiles(tmp_path).write(
        [
            Event(now_us - 30 * HOUR_US, "expired", "press", "plant/1/temp"),
            Event(now_us - HOUR_US, "expired", "press", "plant/1/temp", shard=2, from_us=11, to_us=17, count=3),
            Event(now_us - HOUR_US, "denied", "t1/\0press", "plant/2/temp", detail="no rule allows it"),
            Event(now_us, "session_ended", "lamp", "", count=0, detail="its expiry interval had passed"),
        ]
    )
    return tmp_path


def listed(data: Path, *arguments: str) -> list[tuple[str, str]]:
    done = run("--data", data, "--json", *arguments)
    assert done.exit_code == 0, done.output
    return [(event["reason"], event.get("client", "")) for event in json.loads(done.stdout)]


def test_the_last_day_is_listed_and_more_if_asked_for(data: Path) -> None:
    day = [("expired", "press"), ("denied", "t1/\0press"), ("session_ended", "lamp")]
    assert sorted(listed(data)) == sorted(day)
    assert sorted(listed(data, "--since", "earliest")) == sorted([("expired", "press"), *day])
    assert listed(data, "--since", "-10m") == [("session_ended", "lamp")]
    assert listed(data, "--since", "earliest", "--until", "-10h") == [("expired", "press")]
    assert "--until 'soon' is no time" in run("--data", data, "--until", "soon").stderr


def test_events_are_chosen_by_reason_client_and_topic(data: Path) -> None:
    assert listed(data, "--reason", "denied") == [("denied", "t1/\0press")]
    assert sorted(listed(data, "--client", "press")) == [("denied", "t1/\0press"), ("expired", "press")]
    assert listed(data, "--topic", "plant/1/#") == [("expired", "press")]
    assert sorted(listed(data, "--topic", "plant/+/temp")) == [("denied", "t1/\0press"), ("expired", "press")]
    assert listed(data, "--limit", "1") == [("session_ended", "lamp")]


def test_people_get_a_table_with_places_counts_and_words(data: Path) -> None:
    done = run("--data", data, "--limit", "2", "--since", "-2h")
    assert done.exit_code == 0, done.output
    assert "press (mount point t1/)" in done.stdout or "2/11..17" in done.stdout
    assert "its expiry interval had passed" in done.stdout
    assert "1 older ones are not shown" in done.stdout
    assert "2/11..17" in run("--data", data, "--reason", "expired").stdout
    assert "nothing was dropped" in run("--data", data, "--client", "nobody").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--reason", "bad"), "there is no reason 'bad'; there are: denied, expired"),
        (("--topic", "a/#/b"), "'#' must be the whole last level"),
        (("--topic", "$share/g/a"), "without $share and $replay"),
        (("--since", "yesterday"), "--since 'yesterday' is no time; right would be -2h"),
    ],
)
def test_wrong_usage_says_what_would_be_right(data: Path, arguments: tuple[str, ...], words: str) -> None:
    done = run("--data", data, *arguments)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    done = run("--data", tmp_path / "nowhere")
    assert done.exit_code == 2
    assert "is no data folder" in done.output
