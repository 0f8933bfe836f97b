"""`holdfast spark retain` says what is wrong before anything is started, and what it did in words."""

from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.cli.spark import retain as spark_retain
from holdfast.pipeline.lake.retention import RetainJob, RetainOutcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Looks like a data folder, and like a lake."""
    (tmp_path / "data" / "rocks").mkdir(parents=True)
    (tmp_path / "data" / "rocks" / "CURRENT").touch()
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    return tmp_path


LAKE = ["--lake", "HERE/lake"]
WRONG = [
    (["--lake", "nowhere", "--compact"], "--lake nowhere: this is no lake"),
    (["--lake", "iceberg://main/a.b", "--compact"], "--lake iceberg://main/a.b: this is an Iceberg table"),
    (LAKE, "say what to do: --older-than 90d, --compact, --erase-client ID or --erase-topic FILTER"),
    ([*LAKE, "--older-than", "90"], "--older-than '90': give whole days or weeks, such as 90d or 12w"),
    ([*LAKE, "--older-than", "0d"], "--older-than '0d': give whole days"),
    ([*LAKE, "--erase-client", "a"], "to erase, name the broker's data folder too, with --data"),
    ([*LAKE, "--erase-client", ""], "--erase-client '': name a client"),
    ([*LAKE, "--erase-client", "a", "--erase-topic", "b"], "give either --erase-client or --erase-topic"),
    ([*LAKE, "--erase-topic", "a/#/b"], "--erase-topic: "),
    ([*LAKE, "--erase-topic", "$share/g/a"], "write the filter alone"),
    ([*LAKE, "--erase-topic", "a", "--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    ([*LAKE, "--compact", "--master", "here"], "--master here: give local[*]"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[said for _arguments, said in WRONG])
def test_wrong_options_are_named(folder: Path, arguments: list[str], said: str) -> None:
    given = [argument.replace("HERE", str(folder)) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", "retain", *given])

    assert result.exit_code == 2
    assert said in result.output


def test_a_lake_that_is_none_after_all_is_wrong_usage(folder: Path) -> None:
    """`_delta_log` may be empty."""
    result = CliRunner().invoke(app, ["spark", "retain", "--lake", str(folder / "lake"), "--compact"])
    assert result.exit_code == 2
    assert "is no lake" in result.output


def test_what_was_done_is_told_in_words() -> None:
    done = RetainOutcome(
        erased_rows=1_200, rewritten=3, emptied=1, removed=9, hidden_up_to={0: 5}, size_before=5_000, version=7
    )
    assert spark_retain._summary(RetainJob(Path("/lake"), client="a"), done)[1] == (
        "/lake: 1,200 messages erased (3 files rewritten, 1 emptied), the log hides what it has of them, "
        "9 old files removed; 5.0 KB before, 0 B now; version 7"
    )
    would = RetainJob(Path("/lake"), keep_from=date(2026, 7, 1), compacts=True, dry_run=True)
    _row, told = spark_retain._summary(would, RetainOutcome(expired_rows=10, expired_days=["2026-06-01", "2026-06-03"]))
    assert told.startswith(
        "/lake: 10 messages of 2 days would be dropped (2026-06-01 to 2026-06-03), 0 small files would be replaced; "
    )
