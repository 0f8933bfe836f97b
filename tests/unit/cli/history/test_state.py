"""`holdfast state` and `holdfast density`: answers about the past, from a folder that is open elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.cli.output.text import format_time
from tests.unit.history.past.past_folder import LAYOUTS, PastFolder
from tests.unit.history.past.questioner import Questioner

YEAR_S = "31536000"


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PastFolder]:
    folder = PastFolder(tmp_path_factory.mktemp("past"), LAYOUTS[0])
    yield folder
    folder.close()


def run(past: PastFolder, *words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--data", str(past.folder)], env={"COLUMNS": "200"})


def test_a_state_is_that_of_the_api_and_its_table_has_each_topic(past: PastFolder) -> None:
    at_us = past.expected()[-1].position_us
    words = ("state", "#", "--at", str(at_us), "--look-back-s", YEAR_S)
    found = json.loads(run(past, *words, "--json").stdout)
    with Questioner(past.folder) as ask:
        wanted = ask("state", filter="#", at=at_us, look_back_s=YEAR_S)
    assert {**found, "as_of_us": 0} == {**wanted, "as_of_us": 0}
    printed = run(past, *words).stdout
    assert f"{len(wanted['topics'])} topics at {format_time(at_us)}" in printed
    assert all(one["topic"]["text"][:40] in printed for one in wanted["topics"] if "text" in one["topic"])


def test_a_comparison_names_what_changed_since(past: PastFolder) -> None:
    written = past.expected()
    a_us, b_us = written[len(written) // 3].position_us, written[-1].position_us
    words = ("state", "#", "--at", str(b_us), "--compare", str(a_us), "--look-back-s", YEAR_S)
    found = json.loads(run(past, *words, "--json").stdout)
    with Questioner(past.folder) as ask:
        wanted = ask("compare", filter="#", a=a_us, b=b_us, look_back_s=YEAR_S)
    assert {**found, "as_of_us": 0} == {**wanted, "as_of_us": 0}
    last = run(past, *words).stdout.splitlines()[-1]
    assert last.startswith(f"{len(wanted['changed'])} changed, {len(wanted['came'])} came")


def test_a_density_counts_every_message_once(past: PastFolder) -> None:
    written = past.expected("#")
    words = ("density", "#", "--since", "earliest", "--until", str(written[-1].position_us + 1), "--buckets", "20")
    found = json.loads(run(past, *words, "--json").stdout)
    # What was erased has a serial: it is counted, and said.
    assert found["total"] - found["erased_at_most"] <= len(written) < found["total"]
    assert found["exact"]
    assert found["done"]
    lines = run(past, *words).stdout.splitlines()
    assert f"of them up to {found['erased_at_most']} are erased" in lines
    counts = [int(line.split()[1].replace(",", "")) for line in lines if "Z " in line and "messages" not in line]
    assert counts == found["counts"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("state", "a/#/b"), "filter"),
        (("state", "$share/g/a"), "$share"),
        (("state", "#", "--at", "yesterday"), "yesterday"),
        (("state", "#", "--zone", "nowhere"), "nowhere"),
        (("density", "#", "--since", "-1h", "--until", "-2h"), "to"),
    ],
)
def test_what_is_wrong_is_said_with_status_2(past: PastFolder, words: tuple[str, ...], said: str) -> None:
    done = run(past, *words)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert done.stdout == ""


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["state", "#", "--data", str(tmp_path / "nothing")])
    assert (done.exit_code, "no data folder" in done.stderr) == (2, True)
