"""Commands in the guides to jobs on Spark are taken as they stand there; tests/spark shows what they do."""

import shlex
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.cli.spark import migrate as spark_migrate
from holdfast.cli.spark import replay as spark_replay
from holdfast.cli.spark import sql as spark_sql
from holdfast.cli.spark.migrate import MigrateOptions
from holdfast.pipeline.audit.findings import AuditReport, Check
from holdfast.pipeline.bulk_load.job import LoadOutcome
from holdfast.pipeline.lake.lake import Lake
from holdfast.pipeline.learn.description import explain_patterns
from holdfast.pipeline.learn.job import LearnOutcome
from holdfast.pipeline.learn.topic_counts import UnmatchedTopics
from holdfast.pipeline.migrate import job as migrate
from holdfast.pipeline.migrate import task as migrate_task
from holdfast.pipeline.relayout.job import RelayoutOutcome, RewrittenGeneration
from holdfast.pipeline.replay import job as replay
from holdfast.pipeline.report.figures import Figures, Totals
from holdfast.pipeline.sql.row_stream import LimitedRows
from holdfast.pipeline.sql.views import QueryResult
from holdfast.records.generations import Generation
from tests.disk_world import DiskWorld, publish
from tests.unit.pipeline.topic_counts import learn_from

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
JOBS = ("sql", "report", "learn", "replay", "audit", "retain", "load", "relayout", "migrate")
PAGES = tuple(f"spark-{job}.md" for job in JOBS)
#: In place of the folder that the guides name.
DATA = "/var/lib/holdfast/data"
LAKE = "/srv/lake"
SECRET = "/run/secrets/replay"
QUEUES = "/var/lib/holdfast/queues"


def commands() -> list[str]:
    pages = [(GUIDE / name).read_text(encoding="utf-8") for name in PAGES]
    return [line for page in pages for line in page.splitlines() if line.startswith("holdfast spark ")]


class Runner:
    """Answers every statement."""

    def run(self, statement: str, *_given: object) -> QueryResult:
        return QueryResult(["statement"], [(statement,)], has_more=False)

    def stream(self, statement: str, *_given: object) -> LimitedRows:
        return LimitedRows(["statement"], iter([[(statement,)]]), None)


def answering(result: object) -> Callable[..., Awaitable[object]]:
    async def answer(*_given: object) -> object:
        return result

    return answer


def test_the_guides_have_commands() -> None:
    assert len(commands()) >= 27


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_guide_is_accepted(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_sql, "_start", lambda *_given, **_more: Runner())
    figures = Figures("made up", "/data", datetime.now(UTC), Totals())
    monkeypatch.setattr("holdfast.pipeline.report.job.run_report", lambda *_given: figures)
    record = Generation("default~1", 1, "learned", {}, 1, (1,), 3, end_us=2, last_serials=(1,))
    loaded = LoadOutcome("made-up", 1, 0, [record], 100, "the broker", verified=True)
    monkeypatch.setattr("holdfast.pipeline.bulk_load.job.run_load", lambda *_given: loaded)
    relaid = RelayoutOutcome([RewrittenGeneration(record, "timeline", 1, 100, "the broker")], 0)
    monkeypatch.setattr("holdfast.pipeline.relayout.job.run_relayout", lambda *_given: relaid)
    monkeypatch.setattr("holdfast.pipeline.spark.session.session", lambda *_given, **_more: None)
    monkeypatch.setattr("holdfast.pipeline.spark.progress.JobProgress.watch", lambda *_given: None)
    monkeypatch.setattr(spark_replay, "_check_source", lambda *_given: None)
    monkeypatch.setattr(spark_replay, "_check_broker", lambda *_given: None)
    monkeypatch.setattr(replay, "run_replay", lambda *_given: replay.ReplayOutcome())
    # The broker of this test has the folder, and nobody listens where the queues are.
    monkeypatch.setattr(MigrateOptions, "_check_data", lambda *_given, **_more: None)
    monkeypatch.setattr(migrate, "run_migrate", lambda *_given: migrate_task.MigrateSums(1, copied=1))
    monkeypatch.setattr(migrate, "change_sessions", lambda *_given: 1)
    monkeypatch.setattr(spark_migrate, "_import", lambda *_given: (migrate_task.MigrateSums(1, copied=1), 1))
    monkeypatch.setattr(migrate_task, "preview_queues", answering(migrate_task.MigrateSums(1)))
    (tmp_path / "queues").mkdir()
    found = explain_patterns(learn_from([(f"fleet/d{n}/temp", 1, 4) for n in range(30)]))
    monkeypatch.setattr(
        "holdfast.pipeline.learn.job.run_learn", lambda *_given: LearnOutcome(found, 30, UnmatchedTopics(0, 0, 0))
    )
    sound = AuditReport([Check("serials", "serials are dense", 1, "messages")], 1, 0)
    monkeypatch.setattr("holdfast.pipeline.audit.job.run_audit", lambda *_given: sound)
    (tmp_path / "lake").mkdir()
    Lake.open_or_make(tmp_path / "lake", "main")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "secret").touch()
    (tmp_path / "work" / "lake" / "_delta_log").mkdir(parents=True)
    for name in ("messages.jsonl", "2025.parquet", "log.csv"):
        (tmp_path / "work" / name).touch()
    monkeypatch.chdir(tmp_path / "work")
    with DiskWorld(tmp_path / "data") as world:
        publish(world, *[(f"fleet/d{n}/temp", b"21.5") for n in range(30)])
        world.settle()
        named = {DATA: "data", LAKE: "lake", SECRET: "secret", QUEUES: "queues"}
        for folder, own in named.items():
            line = line.replace(folder, str(tmp_path / own))
        words = shlex.split(line, comments=True)[1:]
        kept = [word for word in words if word not in ("<", ">")]
        if len(kept) < len(words):
            kept.pop()  # the file behind it

        done = CliRunner().invoke(app, kept, input="SELECT 1; SELECT 2;")

    assert done.exit_code == 0, done.output
    assert done.stdout or list((tmp_path / "work").iterdir())
