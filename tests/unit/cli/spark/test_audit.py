"""`holdfast spark audit`: options, and what people and machines are shown."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.cli.spark import audit as spark_audit
from holdfast.pipeline.audit.findings import AuditReport, Check, Fault


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Looks like a data folder."""
    (tmp_path / "data" / "rocks").mkdir(parents=True)
    (tmp_path / "data" / "rocks" / "CURRENT").touch()
    return tmp_path / "data"


WRONG = [
    ([], "say where from: either --data, the broker's data folder, or --endpoint"),
    (["--data", "DATA", "--endpoint", "grpc://host:1"], "either --data"),
    (["--endpoint", "http://host:1"], "--endpoint http://host:1: give grpc://HOST:PORT"),
    (["--data", "nowhere"], "--data nowhere: this is no data folder of a broker"),
    (["--data", "DATA", "--lake", "DATA"], "this is no lake: it holds no Delta table"),
    (["--data", "DATA", "--output", "nowhere/audit.md"], "-o nowhere/audit.md: name a file in a folder that is there"),
    (["--data", "DATA", "--master", "here"], "--master here: give local[*]"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[said for _arguments, said in WRONG])
def test_wrong_options_are_named(data: Path, arguments: list[str], said: str) -> None:
    given = [argument.replace("DATA", str(data)) for argument in arguments]

    result = CliRunner().invoke(app, ["spark", "audit", *given], env={"COLUMNS": "200"})

    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize("command", ["audit", "retain"])
def test_wrong_options_are_found_without_spark(tmp_path: Path, command: str) -> None:
    """Importing it alone takes longer than people wait."""
    program = (
        "import sys; from typer.testing import CliRunner; from holdfast.cli.main import app; "
        f"print(CliRunner().invoke(app, ['spark', '{command}', '--lake', 'x', '--data', 'nowhere']).exit_code, "
        "[name for name in ('pyspark', 'deltalake', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert shown.stdout == "2 []\n"


SOUND = Check("serials", "serials are dense", 1_200, "messages")
BAD = Check(
    "order",
    "messages lie in order",
    1_200,
    "messages",
    2,
    (Fault("it lies behind a later one", 2, 0, 7, 123, "plant/[1]/temp", "meter", "in front of it lies message 8"),),
    ("10 of 20 topics were asked for",),
)


def test_the_exit_status_tells_what_was_found(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for checks, status in (([SOUND], 0), ([SOUND, BAD], 3)):
        monkeypatch.setattr(
            "holdfast.pipeline.audit.job.run_audit", lambda *_given, found=checks: AuditReport(found, 1_200, 3)
        )
        result = CliRunner().invoke(app, ["spark", "audit", "--data", str(data)], env={"COLUMNS": "200"})
        assert result.exit_code == status
        assert ("sound: 1 checks, 1,200 messages, 3 sessions" in result.output) is (status == 0)


def test_a_fault_is_shown_with_all_that_it_takes_to_find_it() -> None:
    shown = io.StringIO()
    spark_audit.show(AuditReport([SOUND, BAD], 1_200, 3), Console(file=shown, width=200))
    text = shown.getvalue()
    assert (
        "order: 2x it lies behind a later one: shard 0, serial 7, position 123, topic plant/[1]/temp, client meter "
        "(in front of it lies message 8)" in text
    )
    assert "order: 10 of 20 topics were asked for" in text


def test_a_report_has_the_verdicts_and_the_examples(
    data: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = AuditReport([SOUND, BAD], 1_200, 3, {0: (99, 7)})
    monkeypatch.setattr("holdfast.pipeline.audit.job.run_audit", lambda *_given: found)
    result = CliRunner().invoke(app, ["spark", "audit", "--data", str(data), "-o", str(tmp_path / "a.md"), "--json"])
    page = (tmp_path / "a.md").read_text()
    assert result.exit_code == 3
    assert "| order | **2 faults** | 1,200 messages | messages lie in order |" in page
    assert "- 2x it lies behind a later one: shard 0, serial 7" in page
    assert "| 0 | 99 | 7 |" in page
    assert '"sound": false, "faults": 2' in result.stdout
    assert result.stdout.count("\n") == 1
