"""What statements read of `history`, and that their answers are those over the whole table."""

from collections.abc import Mapping

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast.pipeline.source.schema import DEFAULT_COLUMNS, FIELDS
from holdfast.pipeline.sql.statement_reads import StandIns, ViewReads, with_constants
from holdfast.pipeline.sql.views import Sql, SqlJob
from tests.spark.plant import Plant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ONCE, TWICE = {"is_single": True}, {"is_single": False}
#: What each reads of which view; None: everything, because it cannot be told.
READS: dict[str, dict[str, ViewReads] | None] = {
    "SELECT count(*) FROM history": {"history": ViewReads((), **ONCE)},
    "SELECT * FROM history": {"history": ViewReads(DEFAULT_COLUMNS, **ONCE)},
    "SELECT topic, sum(length(payload)) FROM history WHERE qos = 1 GROUP BY topic": {
        "history": ViewReads(("topic", "qos", "payload"), **ONCE)
    },
    "SELECT max(offset) FROM (SELECT * FROM history WHERE topic LIKE 'plant/%') ORDER BY 1": {
        "history": ViewReads(("offset", "topic"), **ONCE)
    },
    "WITH some AS (SELECT topic, ts FROM history) SELECT count(DISTINCT topic) FROM some": {
        "history": ViewReads(("topic",), **ONCE)
    },
    "SELECT h.shard, q.client_id FROM history h JOIN queues q ON h.shard = q.shard": {
        "history": ViewReads(("shard",), **ONCE),
        "queues": ViewReads(("client_id", "shard"), **ONCE),
    },
    "SELECT a.serial FROM history a JOIN history b ON a.offset = b.offset AND a.shard = b.shard": {
        "history": ViewReads(("shard", "offset", "serial"), **TWICE)
    },
    "SELECT count(*) FROM sessions": {"sessions": ViewReads((), **ONCE)},
    "SELECT 1": {},
    "SELECT count(*) FROM history WHERE shard = 0 UNION ALL SELECT count(*) FROM history WHERE shard = 1": None,
    "SELECT (SELECT max(serial) FROM history) AS newest, count(*) FROM sessions": None,
    "SELECT topic FROM history WHERE client_id NOT IN (SELECT client_id FROM sessions)": None,
    "DESCRIBE history": None,
    "CREATE TEMPORARY VIEW made AS SELECT topic FROM history": None,
    "SELECT topik FROM history": None,
    "SELEKT": None,
}

#: Statements whose conditions the log applies in part, with uses of the view that must not see each other's.
ANSWERED = (
    *[statement for statement in READS if statement.startswith(("SELECT", "WITH")) and "topik" not in statement],
    "SELECT topic, count(*) FROM history WHERE topic = 'press/2/flow' GROUP BY topic",
    "SELECT serial FROM history WHERE shard >= 0 AND topic IN ('press/2/flow', 'plant/0/temp') ORDER BY serial",
    """
    SELECT a.n, b.n FROM (SELECT count(*) AS n FROM history WHERE shard = 0) a
    CROSS JOIN (SELECT count(*) AS n FROM history WHERE shard = 1) b
    """,
    "SELECT topic, row_number() OVER (PARTITION BY client_id ORDER BY offset) AS n FROM history WHERE shard = 1",
    "SELECT key, count(*) FROM history LATERAL VIEW explode(user_properties) AS key, value GROUP BY key",
    "SELECT count(*) FROM history TABLESAMPLE (100 PERCENT)",
    "SELECT client_id FROM history INTERSECT SELECT client_id FROM history WHERE topic LIKE 'press/%'",
    "SELECT count(*) FROM history WHERE ts < '1971-01-01'",
    "SELECT count(ts), count(user_properties), count(expires_at) FROM history",
)


@pytest.fixture
def stand_ins(spark: SparkSession, plant: Plant) -> StandIns:
    def schema(table: str) -> DataFrame:
        return spark.read.format("holdfast").options(path=str(plant.data), table=table).load()

    return StandIns(spark, {table: schema(table).schema for table in ("history", "queues", "sessions")})


def test_what_a_statement_reads_is_known_before_it_runs(stand_ins: StandIns) -> None:
    found = {statement: stand_ins.reads_of(statement) for statement in READS}

    assert found == READS


def test_constants_keep_the_schema(spark: SparkSession, plant: Plant) -> None:
    def table(columns: str) -> DataFrame:
        return spark.read.format("holdfast").options(path=str(plant.data), columns=columns).load()

    whole = table(",".join(FIELDS))

    assert with_constants(table("shard"), whole.schema).schema == whole.schema
    assert with_constants(table("payload_bytes,json"), whole.schema).schema == whole.schema


def test_a_view_that_a_statement_made_reads_everything(spark: SparkSession, plant: Plant) -> None:
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))
    sql.run("CREATE OR REPLACE TEMPORARY VIEW presses AS SELECT * FROM history WHERE topic LIKE 'press/%'")

    found = sql.run("SELECT count(*) AS n, count(DISTINCT topic) AS topics FROM presses").rows

    sent = [message.topic for message in plant.sent if message.topic.startswith("press/")]
    assert found == [(len(sent), len(set(sent)))]


def test_answers_are_those_over_the_whole_table(
    spark: SparkSession, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))
    narrow = {statement: sorted(map(str, sql.run(statement).rows)) for statement in ANSWERED}

    monkeypatch.setattr(StandIns, "reads_of", lambda *_given: None)
    whole = {statement: sorted(map(str, sql.run(statement).rows)) for statement in ANSWERED}

    assert narrow == whole
    assert [statement for statement, rows in whole.items() if not rows] == []


def test_the_log_applies_conditions_of_a_view_that_stands_once(
    spark: SparkSession, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))
    loaded: list[Mapping[str, str]] = []
    load = Sql._load

    def note(self: Sql, view: str, narrow: Mapping[str, str]) -> DataFrame:
        loaded.append(narrow)
        return load(self, view, narrow)

    monkeypatch.setattr(Sql, "_load", note)
    counted = sql.run("SELECT count(*) FROM history WHERE topic = 'press/2/flow'").rows
    sql.run("SELECT count(*) FROM history")
    sql.run("SELECT a.serial FROM history a JOIN history b ON a.offset = b.offset AND a.shard = b.shard LIMIT 1")

    assert counted == [(sum(message.topic == "press/2/flow" for message in plant.sent),)]
    assert loaded == [
        {"columns": "topic", "pushdown": "true"},
        {"columns": "shard", "pushdown": "true"},
        {"columns": "shard,offset,serial"},
    ]
    assert spark.table("history").columns == list(DEFAULT_COLUMNS)


def test_a_statement_loads_the_views_that_it_uses(
    spark: SparkSession, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    load = Sql._load

    def note(self: Sql, view: str, narrow: Mapping[str, str]) -> DataFrame:
        loaded.append(view)
        return load(self, view, narrow)

    monkeypatch.setattr(Sql, "_load", note)
    sql = Sql(spark, SqlJob({"path": str(plant.data)}))

    for statement in ("SELECT count(*) FROM sessions", "SELECT max(client_id) FROM sessions", "SELECT 1"):
        sql.run(statement)
    assert loaded == ["sessions"]
    sql.run("SELECT (SELECT count(*) FROM history) AS h, (SELECT count(*) FROM retained) AS r")

    assert loaded == ["sessions", "history", "queues", "retained"]
