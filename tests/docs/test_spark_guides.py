"""Commands in the guides to jobs on Spark are taken as they stand there; tests/spark shows what they do."""

import shlex
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli import (
    spark_audit,
    spark_learn,
    spark_load,
    spark_migrate,
    spark_relayout,
    spark_replay,
    spark_report,
    spark_retain,
    spark_sql,
)
from holdfast.cli.main import app
from holdfast.pipeline import migrate, migrate_task, replay
from holdfast.pipeline.audit.findings import Audit, Check
from holdfast.pipeline.lake import Lake
from holdfast.pipeline.learning.counting import Outside
from holdfast.pipeline.learning.making import Result
from holdfast.pipeline.learning.words import explain
from holdfast.pipeline.loading import Loaded
from holdfast.pipeline.relayout import Relaid, Rewritten
from holdfast.pipeline.report.figures import Figures, Totals
from holdfast.pipeline.sql import Answer
from holdfast.records.generations import Generation
from tests.disk_world import DiskWorld, publish
from tests.unit.pipeline.counted import learn_from

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

    def run(self, statement: str, *_given: object) -> Answer:
        return Answer(["statement"], [(statement,)], has_more=False)


def answering(result: object) -> Callable[..., Awaitable[object]]:
    async def answer(*_given: object) -> object:
        return result

    return answer


def test_the_guides_have_commands() -> None:
    assert len(commands()) >= 27


@pytest.mark.parametrize("line", commands())
def test_a_command_of_the_guide_is_accepted(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_sql, "_started", lambda *_given, **_more: Runner())
    figures = Figures("made up", "/data", datetime.now(UTC), Totals())
    monkeypatch.setattr(spark_report, "_figures", lambda *_given: figures)
    record = Generation("default~1", 1, "learned", {}, 1, (1,), 3, end_us=2, last_serials=(1,))
    loaded = Loaded("made-up", 1, 0, [record], 100, "the broker", verified=True)
    monkeypatch.setattr(spark_load, "_load", lambda *_given, **_more: loaded)
    relaid = Relaid([Rewritten(record, "timeline", 1, 100, "the broker")], 0)
    monkeypatch.setattr(spark_relayout, "_relayout", lambda *_given, **_more: relaid)
    monkeypatch.setattr(spark_replay, "_checked", lambda *_given: None)
    monkeypatch.setattr(spark_replay, "_knock", lambda *_given: None)
    monkeypatch.setattr(replay, "run_replay", lambda *_given: replay.Outcome())
    # The broker of this test has the folder, and nobody listens where the queues are.
    monkeypatch.setattr(spark_migrate, "_check_data", lambda *_given, **_more: None)
    monkeypatch.setattr(migrate, "run_migrate", lambda *_given: migrate_task.Sums(1, copied=1))
    monkeypatch.setattr(migrate, "change_sessions", lambda *_given: 1)
    monkeypatch.setattr(spark_migrate, "_import", lambda *_given: (migrate_task.Sums(1, copied=1), 1))
    monkeypatch.setattr(migrate_task, "look", answering(migrate_task.Sums(1)))
    (tmp_path / "queues").mkdir()
    found = explain(learn_from([(f"fleet/d{n}/temp", 1, 4) for n in range(30)]))
    monkeypatch.setattr(spark_learn, "_result", lambda *_given: Result(found, 30, Outside(0, 0, 0)))
    sound = Audit([Check("serials", "serials are dense", 1, "messages")], 1, 0)
    monkeypatch.setattr(spark_audit, "_audit", lambda *_given, **_more: sound)
    # Nothing to look through.
    monkeypatch.setattr(spark_retain, "_spark", lambda _master: None)
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
