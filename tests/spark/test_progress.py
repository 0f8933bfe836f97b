"""Each job tells its steps, and how many messages and bytes it has done, in lines of one shape."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.cli.spark import job_output
from holdfast.pipeline.spark import progress
from tests.spark.declared_pipeline import declare, some
from tests.spark.progress_lines import check_progress
from tests.spark.publishers import Broker, Sent
from tests.spark.test_load import written

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.usefixtures("spark")]

COUNT = 600


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Runs, and is only read."""
    with Broker(tmp_path_factory.mktemp("filled"), "shards = 2\n") as running:
        fill(running)
        yield running


def fill(broker: Broker) -> None:
    broker.publish(
        Sent(f"plant/{number % 20}/temp", b"%d" % number, client_id=f"device-{number % 5}") for number in range(COUNT)
    )


def told(job: str, *words: str) -> dict[str, dict[str, Any]]:
    """The last line of each step of a job, on the Spark that runs already."""
    done = CliRunner().invoke(app, ["spark", job, *words])
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 1, "standard output has the summary alone"
    json.loads(done.stdout)
    return check_progress(done.stderr, job)


def test_archive_and_retain_tell_messages_and_bytes(broker: Broker, tmp_path: Path) -> None:
    fill(broker)
    lake = ["--lake", str(tmp_path / "lake"), "--data", str(broker.data), "--json"]

    archived = told("archive", *lake)["archiving messages"]
    erased = told("retain", *lake, "--erase-client", "device-3")

    assert archived["rows"] == COUNT
    assert archived["bytes"] > 0
    assert archived["rows_per_s"] > 0
    (searched,) = [line for step, line in erased.items() if step.startswith("looking through")]
    assert searched["rows"] == COUNT
    assert searched["bytes"] > 0
    assert "removing old files" in erased


def test_a_step_tells_how_far_it_is_before_it_ends(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the batches of an archive there is time for many lines, if all are printed."""
    monkeypatch.setattr(job_output, "_LINE_S", 0.0)
    monkeypatch.setattr(progress, "_LOOK_S", 0.01)
    fill(broker)
    words = ["--lake", str(tmp_path / "lake"), "--data", str(broker.data), "--batch", "100", "--json"]

    done = CliRunner().invoke(app, ["spark", "archive", *words])

    assert done.exit_code == 0, done.output
    check_progress(done.stderr, "archive")
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    within = [line for line in lines if line["step"] == "archiving messages" and 0 < (line["rows"] or 0) < COUNT]
    assert {line["rows"] for line in within} > {100, 200, 300, 400}
    for line in within:
        # The last tenth is for small files.
        assert line["share"] == round(0.9 * line["rows"] / COUNT, 4)
        assert line["seconds_left"] > 0
        assert line["rows_per_s"] > 0


@pytest.mark.parametrize(
    ("job", "step", "steps"), [("audit", "messages of the log", 8), ("learn", "messages", 4), ("report", "messages", 8)]
)
def test_jobs_over_all_history_tell_what_they_have_read(
    filled: Broker, tmp_path: Path, job: str, step: str, steps: int
) -> None:
    page = ["-o", str(tmp_path / "page")] if job == "report" else []

    lines = told(job, "--data", str(filled.data), "--json", *page)

    assert lines[step]["rows"] == COUNT
    assert len(lines) >= steps


def test_sql_tells_what_a_statement_has_read(filled: Broker) -> None:
    lines = told("sql", "--data", str(filled.data), "--format", "json", "SELECT count(*) AS n FROM history")

    assert lines["running the statement"]["rows"] == COUNT
    assert lines["running the statement"]["share"] == 1.0


def test_replay_tells_messages_and_bytes(filled: Broker, broker: Broker) -> None:
    into = ["--into", f"mqtt://127.0.0.1:{broker.process.ports['tcp']}"]

    lines = told("replay", "--data", str(filled.data), *into, "--json")

    assert lines["counting messages"]["rows"] == COUNT
    assert lines["publishing messages"]["rows"] == COUNT
    assert lines["publishing messages"]["bytes"] > sum(len(sent.payload) for sent in filled.sent)


def test_load_and_relayout_tell_each_pass_over_the_messages(broker: Broker, tmp_path: Path) -> None:
    written(tmp_path / "old.jsonl", COUNT)
    where = ["--data", str(broker.data), "--json"]

    loaded = told("load", str(tmp_path / "old.jsonl"), *where)
    relaid = told("relayout", *where, "--zone", "default~1", "--layout", "timeline")

    looked = loaded["looking through the rows"]
    assert looked["rows"] == COUNT
    assert looked["bytes"] >= (tmp_path / "old.jsonl").stat().st_size
    assert loaded["laying out the rows"]["rows"] == COUNT
    assert loaded["reading back"]["rows"] == COUNT
    (laid,) = [line for step, line in relaid.items() if step.startswith("laying out generation")]
    assert laid["rows"] == COUNT


def test_a_declared_pipeline_tells_its_steps(broker: Broker, tmp_path: Path) -> None:
    sent = broker.publish(some(0, 100))
    file = declare(tmp_path, broker, batch=1000)

    lines = told("run", str(file), "--json")

    assert {"decode", "deduplicate", "per_minute", "publish_2"} <= lines.keys()
    assert lines["decode"]["rows"] == len(sent)


def test_people_get_words_instead(filled: Broker, spark: SparkSession) -> None:
    assert spark is not None
    done = CliRunner().invoke(app, ["spark", "audit", "--data", str(filled.data)])

    assert done.exit_code == 0, done.output
    assert done.stderr.startswith("audit: starting, with Spark 4.")
    assert "{" not in done.stderr
