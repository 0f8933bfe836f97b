"""Batches of Spark over the history of a real broker: what publishers sent, all of it and nothing else."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from holdfast.pipeline import history
from pyspark_holdfast import DefaultSource
from tests.spark.publishers import Broker, Sent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: Two shards and a zone of its own for presses.
STORAGE = """
shards = 2
[zones.press]
filter = "press/#"
layout = "timeline"
"""


@pytest.fixture(scope="module", params=["path", "endpoint"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Messages of many publishers, some with all that MQTT 5 has. It goes on running while it is read.

    By each way to it: its files, and Arrow Flight.
    """
    with Broker(tmp_path_factory.mktemp("broker"), STORAGE, served=request.param == "endpoint") as broker:
        broker.publish(
            Sent(
                f"{'press' if number % 5 == 0 else 'plant'}/{number % 7}/{'temp' if number % 2 else 'flow'}",
                json.dumps({"number": number, "at": {"line": number % 3}}).encode() if number % 10 else b"\xff no json",
                client_id=f"device-{number // 100}",
                qos=number % 3,
                retain=number % 11 == 0,
                content_type="application/json" if number % 4 == 0 else None,
                response_topic="answers/1" if number % 6 == 0 else None,
                correlation_data=b"\x00\xff" if number % 6 == 0 else None,
                user_properties=(("unit", "C"), ("unit", "K")) if number % 9 == 0 else (),
                expiry_s=3600 if number % 8 == 0 else None,
            )
            for number in range(600)
        )
        yield broker


def table(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    return spark.read.format("holdfast").options(**{**broker.where, **options}).load()


def payloads(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.payload) for row in frame.select("payload").collect())


def sent(broker: Broker, wanted: Callable[[Sent], bool] = lambda message: True) -> list[bytes]:
    return sorted(message.payload for message in broker.sent if wanted(message))


def test_every_column_is_what_its_publisher_sent(spark: SparkSession, filled: Broker) -> None:
    rows = (
        table(spark, filled, rowsPerPartition="100")
        .withColumn("pairs", col("user_properties").cast("string"))
        .collect()
    )

    found = sorted(
        (
            row.client_id,
            row.topic,
            bytes(row.payload),
            row.qos,
            row.retain,
            row.content_type,
            row.response_topic,
            None if row.correlation_data is None else bytes(row.correlation_data),
            row.pairs,
            row.expires_at is not None,
        )
        for row in rows
    )
    assert found == sorted(
        (
            message.client_id,
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            message.content_type,
            message.response_topic,
            message.correlation_data,
            "{" + ", ".join(f"{name} -> {value}" for name, value in message.user_properties) + "}",
            message.expiry_s is not None,
        )
        for message in filled.sent
    )
    epoch = datetime(1970, 1, 1)
    assert all(row.ts == epoch + timedelta(microseconds=row.offset) for row in rows)
    assert {row.shard for row in rows} == {0, 1, 2}


CONDITIONS: list[tuple[str, Callable[[Sent], bool]]] = [
    ("topic = 'plant/3/temp'", lambda m: m.topic == "plant/3/temp"),
    ("topic IN ('plant/3/temp', 'press/0/flow', 'x')", lambda m: m.topic in ("plant/3/temp", "press/0/flow")),
    ("topic LIKE 'press/%' AND qos > 1", lambda m: m.topic.startswith("press/") and m.qos > 1),
    ("startswith(topic, 'plant/3') AND NOT retain", lambda m: m.topic.startswith("plant/3") and not m.retain),
    ("ts > TIMESTAMP '2001-01-01' AND ts < TIMESTAMP '2001-01-02'", lambda m: False),
    ("ts >= TIMESTAMP '2001-01-01' AND content_type IS NOT NULL", lambda m: m.content_type is not None),
    ("topic = 'plant/+/temp' OR client_id = 'device-2'", lambda m: m.client_id == "device-2"),
]


@pytest.mark.parametrize(("condition", "wanted"), CONDITIONS, ids=[text for text, _wanted in CONDITIONS])
def test_conditions_mean_the_same_with_and_without_pushdown(
    spark: SparkSession, filled: Broker, condition: str, wanted: Callable[[Sent], bool]
) -> None:
    right = sent(filled, wanted)

    assert payloads(table(spark, filled).where(condition)) == right
    assert payloads(table(spark, filled, pushdown="true").where(condition)) == right


def test_a_table_that_is_used_twice_misses_nothing(spark: SparkSession, filled: Broker) -> None:
    """Spark keeps the plan of a Python source for later queries on the same table."""
    messages = table(spark, filled)
    some = payloads(messages.where("topic = 'plant/3/temp'"))
    both = messages.where("topic = 'plant/3/temp'").union(messages.where("topic = 'press/0/flow'"))

    assert some == sent(filled, lambda m: m.topic == "plant/3/temp")
    assert payloads(messages) == sent(filled)
    assert payloads(both) == sent(filled, lambda m: m.topic in ("plant/3/temp", "press/0/flow"))


def test_what_was_taken_by_the_log_is_gone_from_the_plan(spark: SparkSession, filled: Broker) -> None:
    frame = table(spark, filled, pushdown="true").where(
        "topic = 'plant/3/temp' AND ts > TIMESTAMP '2001-01-01' AND qos = 1"
    )

    plan = frame._jdf.queryExecution().optimizedPlan().toString()

    assert "(qos#" in plan
    assert "plant/3/temp" not in plan
    assert "2001-01-01" not in plan


@pytest.mark.parametrize(
    ("topic_filter", "wanted"),
    [
        ("plant/+/temp", lambda m: m.topic.startswith("plant/") and m.topic.endswith("/temp")),
        ("press/#", lambda m: m.topic.startswith("press/")),
        ("no/such/topic", lambda m: False),
    ],
)
def test_history_is_a_table_by_filter_time_and_columns(
    spark: SparkSession, filled: Broker, topic_filter: str, wanted: Callable[[Sent], bool]
) -> None:
    since = datetime.now(UTC) - timedelta(hours=1)
    where: dict[str, Any] = dict(filled.where)
    frame = history(spark, topic_filter, since, "latest", **where, columns=["payload", "qos"])

    assert frame.columns == ["payload", "qos"]
    assert payloads(frame) == sent(filled, wanted)


def test_a_time_in_the_middle_divides(spark: SparkSession, filled: Broker) -> None:
    every = table(spark, filled, columns="ts,payload")
    middle = every.selectExpr("percentile_approx(unix_micros(ts), 0.5) AS at").first()
    assert middle is not None
    at = str(middle["at"])

    before, after = table(spark, filled, endingTime=at), table(spark, filled, startingTime=at)

    assert sorted(payloads(before) + payloads(after)) == sent(filled)
    assert 200 < len(payloads(before)) < 400


def test_json_payloads_are_a_variant_column(spark: SparkSession, filled: Broker) -> None:
    frame = table(spark, filled, payload_format="json", columns="topic")
    found = frame.selectExpr("try_variant_get(json, '$.number', 'int') AS number", "json IS NULL AS none").collect()

    assert frame.columns == ["topic", "json"]
    assert sorted(row.number for row in found if not row.none) == [n for n in range(600) if n % 10]
    assert sum(row.none for row in found) == 60


def test_a_schema_and_a_view_choose_columns_and_options(spark: SparkSession, filled: Broker) -> None:
    frame = spark.read.format("holdfast").schema("qos tinyint, payload binary").options(**filled.where).load()
    [(name, place)] = filled.where.items()
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW presses USING holdfast OPTIONS ({name} '{place}', topicFilter 'press/#')"
    )

    assert frame.columns == ["qos", "payload"]
    assert payloads(frame) == sent(filled)
    assert payloads(spark.table("presses")) == sent(filled, lambda m: m.topic.startswith("press/"))


def test_one_zone_alone(spark: SparkSession, filled: Broker) -> None:
    assert payloads(table(spark, filled, zone="press")) == sent(filled, lambda m: m.topic.startswith("press/"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topicFilter": "a/#/b"}, "option topicFilter: "),
        ({"startingTime": "yesterday"}, "option startingTime: 'yesterday' is no time"),
        ({"columns": "colour"}, "option columns: there is no column 'colour'"),
        ({"path": "/nowhere", "endpoint": ""}, "option path: /nowhere is no data folder"),
        ({"path": "", "endpoint": "grpc://nowhere"}, "option endpoint: 'grpc://nowhere' is no address of a history"),
        ({"zone": "nowhere"}, "option zone: there is no zone 'nowhere'; there are default, press"),
        ({"topicfliter": "a"}, "there is no option 'topicfliter'"),
    ],
)
def test_a_wrong_option_is_named_before_anything_runs(
    spark: SparkSession, filled: Broker, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        table(spark, filled, **options)

    assert message in str(caught.value)


def test_a_wrong_schema_is_named_before_anything_runs(spark: SparkSession, filled: Broker) -> None:
    frame = spark.read.format("holdfast").schema("qos string").options(**filled.where).load()

    with pytest.raises(PySparkException, match="schema: column 'qos' is tinyint, not string"):
        frame.collect()


def test_the_source_is_found_by_its_module(spark: SparkSession, filled: Broker) -> None:
    """Spark's own discovery, in a session that nobody has prepared."""
    fresh = spark.newSession()
    found: Any = fresh.read.format("holdfast").options(**filled.where).load()

    assert found.count() == len(filled.sent)
    assert DefaultSource.name() == "holdfast"
