"""Sessions, queues and retained messages of a running broker as tables of Spark."""

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.plant import GROUP, MESSAGES, OFFLINE, Plant

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def table(spark: SparkSession, plant: Plant, name: str, **options: str) -> DataFrame:
    return spark.read.format("holdfast").option("table", name).options(**options).load(str(plant.data))


def test_sessions_with_their_subscriptions(spark: SparkSession, plant: Plant) -> None:
    rows = (
        table(spark, plant, "sessions")
        .selectExpr("client_id", "connected", "expires_at > now() AS stays", "explode(subscriptions) AS one")
        .selectExpr("client_id", "connected", "stays", "one.filter", "one.qos", "one.since <= now() AS holds")
        .orderBy("client_id")
        .collect()
    )

    assert [tuple(row) for row in rows] == [
        (OFFLINE, False, True, "plant/+/temp", 1, True),
        ("worker-1", False, True, GROUP, 1, True),
    ]


def test_queues_are_estimated_or_counted(spark: SparkSession, plant: Plant) -> None:
    counted = table(spark, plant, "queues", owed="exact", columns="client_id,group,owed_at_most,owed")
    totals = ("sum(owed) AS owed", "sum(owed_at_most) AS at_most")
    rows = {
        row.owner: row
        for row in counted.selectExpr("coalesce(client_id, group) AS owner", "owed", "owed_at_most")
        .groupBy("owner")
        .agg({"owed": "sum", "owed_at_most": "sum"})
        .collect()
    }
    guess = table(spark, plant, "queues").where(f"client_id = '{OFFLINE}'").selectExpr(*totals).first()

    assert {name: row["sum(owed)"] for name, row in rows.items()} == {OFFLINE: MESSAGES // 3, GROUP: MESSAGES // 3}
    assert guess is not None
    assert (guess.owed, guess.at_most) == (None, rows[OFFLINE]["sum(owed_at_most)"])
    assert MESSAGES // 3 <= guess.at_most <= MESSAGES


def test_retained_messages_with_their_properties(spark: SparkSession, plant: Plant) -> None:
    wanted = {message.topic: message.payload for message in plant.sent if message.retain}
    rows = table(spark, plant, "retained").collect()
    some = table(spark, plant, "retained", topicFilter="plant/0/#", columns="topic,stored_at").collect()

    assert {row.topic: bytes(row.payload) for row in rows} == wanted
    assert all(row.user_properties == {"unit": "C"} and row.client_id.startswith("device-") for row in rows)
    assert [row.topic for row in some] == ["plant/0/temp"]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("session", {}, "option table: there is no table 'session'; there are history, sessions, queues, retained"),
        ("queues", {"columns": "owing"}, "option columns: there is no column 'owing' in queues; there are client_id"),
        ("sessions", {"startingTime": "-1h"}, "option startingTime: it means nothing for the table sessions"),
        ("retained", {"path": "/nowhere"}, "option path: /nowhere is no data folder"),
    ],
)
def test_a_wrong_table_or_column_is_named_before_anything_runs(
    spark: SparkSession, plant: Plant, name: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("holdfast").options(**{"path": str(plant.data), "table": name, **options}).load()

    assert message in str(caught.value)


def test_a_wrong_schema_and_a_stream_are_refused(spark: SparkSession, plant: Plant) -> None:
    source = spark.read.format("holdfast").option("table", "sessions")
    with pytest.raises(PySparkException, match="schema: column 'connected' is boolean, not string"):
        source.schema("connected string").load(str(plant.data)).collect()

    stream = spark.readStream.format("holdfast").option("table", "sessions").load(str(plant.data))
    query = stream.writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException, match="sessions cannot be streamed; only history can"):
        query.awaitTermination()
