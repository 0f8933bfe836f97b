"""`holdfast spark sql` over a running broker: statements, their errors, and what ends them."""

import _thread
import csv
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from holdfast.cli.main import app
from holdfast.files.token_file import add_token
from holdfast.history.flight.server import FlightServer
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.tokens import Tokens
from holdfast.pipeline.report.job import ReportJob, report_figures
from holdfast.pipeline.spark.progress import JobProgress, JobState, no_progress
from holdfast.pipeline.spark.watched_work import WatchedWork
from holdfast.pipeline.sql.views import Sql, SqlError, SqlJob
from tests.spark.lakes import archive_some
from tests.spark.plant import GROUP, MESSAGES, OFFLINE, Plant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(plant: Plant, *words: str, typed: str | None = None) -> Result:
    """The command, on the Spark that runs already."""
    return CliRunner().invoke(app, ["spark", "sql", "--data", str(plant.data), *words], input=typed)


def test_a_statement_answers_in_each_form(spark: SparkSession, plant: Plant) -> None:
    statement = "SELECT split(topic, '/')[0] AS kind, count(*) AS n FROM history GROUP BY kind ORDER BY kind"

    table, comma = run(plant, statement), run(plant, statement, "--format", "csv")
    lines = run(plant, statement, "--format", "json", "--limit", "1", "--columns", "ts, topic")

    assert (table.exit_code, comma.exit_code, lines.exit_code) == (0, 0, 0), table.output + comma.output + lines.output
    assert [line.split() for line in table.stdout.splitlines()] == [["kind", "n"], ["plant", "600"], ["press", "300"]]
    assert list(csv.reader(io.StringIO(comma.stdout))) == [["kind", "n"], ["plant", "600"], ["press", "300"]]
    assert json.loads(lines.stdout) == {"kind": "plant", "n": 600}
    assert "these are the first 1 rows" in lines.stderr


def test_views_can_be_joined_and_queues_counted(spark: SparkSession, plant: Plant) -> None:
    statements = """
        SELECT coalesce(client_id, group) AS owner, sum(owed) AS owed FROM queues GROUP BY owner ORDER BY owner;
        SELECT count(*) AS devices FROM (SELECT client_id FROM history EXCEPT SELECT client_id FROM sessions);
        -- Texts of several statements may come from a file.
        SELECT count(*) AS kept FROM retained
    """
    found = run(plant, "--exact", "--format", "json", typed=statements)

    assert found.exit_code == 0, found.output
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"owner": GROUP, "owed": MESSAGES // 3},
        {"owner": OFFLINE, "owed": MESSAGES // 3},
        {"devices": 10},
        {"kept": len({message.topic for message in plant.sent if message.retain})},
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELEKT 1", "Syntax error at or near 'SELEKT'"),
        (
            "SELECT topik FROM history",
            "with name `topik` cannot be resolved. Did you mean one of the following? [`topic`",
        ),
        ("SELECT * FROM histories", "The table or view `histories` cannot be found"),
    ],
)
def test_a_wrong_statement_is_told_without_stacks(
    spark: SparkSession, plant: Plant, statement: str, words: str
) -> None:
    found = run(plant, statement)

    assert found.exit_code == 1
    assert found.stdout == ""
    assert words in found.stderr
    assert "\tat " not in found.stderr
    assert "Traceback" not in found.stderr
    assert "Project" not in found.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "say where from: either --data"),
        (("--data", "/nowhere"), "--data /nowhere: this is no data folder of a broker"),
        (("--endpoint", "http://host"), "--endpoint http://host: give grpc://HOST:PORT"),
        (("--data", "{data}", "--master", "here"), "--master here: give local[*]"),
        (("--data", "{data}", " -- nothing"), "the statement is empty"),
        (("--data", "{data}", "--columns", "colour", "SELECT 1"), "option columns: there is no column 'colour'"),
        (("--data", "{data}", "--lake", "/nowhere", "SELECT 1"), "--lake /nowhere: this is no lake"),
    ],
)
def test_wrong_usage_is_told_before_spark_starts(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.setattr(Sql, "start", lambda *_given: pytest.fail("Spark was started"))

    found = CliRunner().invoke(app, ["spark", "sql", *[word.format(data=plant.data) for word in words]])

    assert found.exit_code == 2
    assert told in found.stderr


@dataclass(frozen=True)
class Served:
    """The plant by its history process, which wants a token."""

    endpoint: str
    token: str
    token_file: Path


@pytest.fixture
def served(plant: Plant, tmp_path: Path) -> Iterator[Served]:
    token = add_token(tmp_path / "tokens", "tester")
    (tmp_path / "secret").write_text(token)
    pool = ReaderPool(plant.data, 4)
    server = FlightServer(plant.data, pool, Tokens(tmp_path / "tokens"), "127.0.0.1", 0)
    yield Served(f"grpc://127.0.0.1:{server.port}", token, tmp_path / "secret")
    server.shutdown()
    pool.close()


def test_an_endpoint_answers_as_the_folder_does(spark: SparkSession, served: Served) -> None:
    statement = (
        "SELECT (SELECT count(*) FROM history) AS h, (SELECT count(*) FROM sessions) AS s, count(*) AS r FROM retained"
    )
    words = ["spark", "sql", "--endpoint", served.endpoint]
    found = CliRunner().invoke(app, [*words, "--token-file", str(served.token_file), "--format", "csv", statement])
    refused = CliRunner().invoke(app, [*words, statement])

    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == ["h,s,r", f"{MESSAGES},2,2"]
    assert refused.exit_code == 2
    assert "a token is needed" in refused.stderr


def test_an_endpoint_and_a_lake_are_one_history(
    spark: SparkSession, plant: Plant, served: Served, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    archive_some(spark, plant, lake, 400)
    where = ["--endpoint", served.endpoint, "--token-file", str(served.token_file), "--lake", str(lake)]
    statement = "SELECT count(*) AS n, count(DISTINCT shard, offset) AS places FROM history"

    found = CliRunner().invoke(app, ["spark", "sql", *where, "--format", "csv", statement])
    page = CliRunner().invoke(
        app, ["spark", "report", *where, "--since", "earliest", "-o", str(tmp_path / "a"), "--json"]
    )

    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines() == ["n,places", f"{MESSAGES},{MESSAGES}"]
    assert page.exit_code == 0, page.output
    assert json.loads(page.stdout)["messages"] == MESSAGES


def test_a_report_shows_a_token_that_is_given_as_a_text(spark: SparkSession, served: Served) -> None:
    job = ReportJob({"endpoint": served.endpoint, "token": served.token}, 0, "Plant")
    assert report_figures(spark, job, no_progress).totals.messages == MESSAGES


def test_history_is_that_of_a_lake_as_far_as_it_reaches(spark: SparkSession, plant: Plant, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    archive_some(spark, plant, lake, 400)
    statement = (
        "SELECT count(*) AS n, count(DISTINCT shard, offset) AS places, count(DISTINCT topic) AS topics FROM history"
    )

    found = run(plant, statement, "--lake", str(lake), "--format", "csv", "--columns", "shard,offset,topic")

    assert found.exit_code == 0, found.output
    topics = len({message.topic for message in plant.sent})
    assert found.stdout.splitlines() == ["n,places,topics", f"{MESSAGES},{MESSAGES},{topics}"]
    # Of the lake's files some were read, and they do not have everything.
    # A stream that ran in this process may have left its own copy of the session as the active one.
    active = SparkSession.getActiveSession()
    assert active is not None
    files = active.table("history").inputFiles()
    assert files
    assert all(file.startswith(lake.as_uri()) for file in files)
    assert spark.read.parquet(*files).count() == 400


def test_a_statement_that_is_ended_leaves_room_for_the_next(spark: SparkSession, plant: Plant) -> None:
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))

    interrupted = threading.Event()

    def interrupt(state: JobState) -> None:
        """Ctrl-C, when it is under way."""
        if not state.turns and not interrupted.is_set():
            interrupted.set()
            _thread.interrupt_main()

    progress = JobProgress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        sql.run("SELECT sum(a.id * b.id) FROM range(2000000) a CROSS JOIN range(2000000) b", None, progress)
    progress.close(done=False)

    assert sql.run("SELECT count(*) AS n FROM sessions").rows == [(2,)]


def test_work_is_ended_that_has_no_job_yet(spark: SparkSession) -> None:
    """Ctrl-C comes while a statement is planned: the job that it would begin ends, too."""
    planned = threading.Event()

    def work() -> object:
        planned.wait()
        return spark.sql("SELECT sum(a.id * b.id) FROM range(2000000) a CROSS JOIN range(2000000) b").collect()

    def interrupt() -> None:
        planned.set()
        raise KeyboardInterrupt

    watched = WatchedWork(spark, work)
    with pytest.raises(KeyboardInterrupt):
        watched.wait(interrupt)

    assert spark.range(3).count() == 3


def test_the_first_rows_come_before_the_last_task_begins(spark: SparkSession, plant: Plant, tmp_path: Path) -> None:
    """And what is not asked for is not read; all that is comes in its order."""
    from pyspark.sql.functions import udf

    def note(number: int) -> int:
        (tmp_path / str(number // 100)).touch()
        return number

    spark.udf.register("note", udf(note, "long", useArrow=False))
    sql = Sql(spark, SqlJob({"path": str(plant.data)}, streams=True))
    begun = sql.stream("SELECT note(id) AS a, id AS a FROM range(0, 2000, 1, 20)")
    batches = iter(begun)

    first = next(batches)
    begun.close()

    assert begun.columns == ["a", "a"]
    assert first[0] == (0, 0)
    assert len(list(tmp_path.iterdir())) < 20
    whole = sql.stream("SELECT id, CAST(NULL AS INT) AS n FROM range(0, 2000, 1, 20)", 1_500)
    assert [row for rows in whole for row in rows] == [(number, None) for number in range(1_500)]
    assert whole.has_more
    sorted_rows = sql.stream("SELECT serial FROM history WHERE shard = 0 ORDER BY serial DESC")
    serials = [row[0] for rows in sorted_rows for row in rows]
    assert serials == sorted(serials, reverse=True)
    assert len(serials) > 100
    assert list(sql.stream("SET spark.sql.session.timeZone = UTC")) != []
    assert list(sql.stream("CREATE TEMPORARY VIEW nothing_to_show AS SELECT 1")) == []
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") != "16m", "settings are as they were"


def test_a_stream_of_rows_that_fails_says_why(spark: SparkSession, plant: Plant) -> None:
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))
    with pytest.raises(SqlError, match="Division by zero"):
        list(sql.stream("SELECT 1 div (id - 1500) FROM range(0, 2000, 1, 20)"))


def test_an_error_of_a_worker_is_told_in_its_own_words(spark: SparkSession, plant: Plant, tmp_path: Path) -> None:
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))
    spark.read.format("holdfast").option("path", str(plant.data)).load().createOrReplaceTempView("history")
    from pyspark.sql.functions import udf

    def breaks(_text: str) -> str:
        raise ValueError("this one broke")

    spark.udf.register("breaks", udf(breaks, useArrow=False))

    with pytest.raises(SqlError) as caught:
        sql.run("SELECT breaks(topic) FROM history")

    assert str(caught.value) == "this one broke"
