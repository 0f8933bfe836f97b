"""Rows that Spark publishes into a real broker, as a batch."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.written_log import WrittenBroker, wait_for_files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WrittenBroker]:
    running = WrittenBroker(tmp_path)
    yield running
    running.stop()


def save(frame: DataFrame, broker: WrittenBroker, **options: Any) -> None:
    frame.write.format("holdfast").options(broker=broker.url, **options).mode("append").save()


def test_every_row_is_published_as_its_columns_say(spark: SparkSession, broker: WrittenBroker, tmp_path: Path) -> None:
    columns = (
        "topic string, payload string, qos int, retain boolean, content_type string, response_topic string, "
        "correlation_data binary, user_properties map<string,string>, message_expiry_s int"
    )
    made: list[tuple[Any, ...]] = [
        ("a/full", "1", 2, True, "text/plain", "a/answers", b"\0\1", {"unit": "C"}, 3600),
        ("a/plain", "2", None, None, None, None, None, None, None),
        ("a/at-most-once", "3", 0, False, None, None, None, {}, None),
    ]
    save(spark.createDataFrame(made, columns).coalesce(1), broker, summaryFile=str(tmp_path / "summary.jsonl"))

    names = ("topic", "payload", "qos", "retain", "content_type", "response_topic", "correlation_data")
    assert broker.rows(*names, "user_properties") == [
        ("a/full", b"1", 2, True, "text/plain", "a/answers", b"\0\1", [("unit", "C")]),
        ("a/plain", b"2", 1, False, None, None, None, []),
        ("a/at-most-once", b"3", 0, False, None, None, None, []),
    ]
    assert [expires is None for (expires,) in broker.rows("expires_at")] == [False, True, True]
    summary = json.loads((tmp_path / "summary.jsonl").read_text())
    assert (summary["rows"], summary["bytes"], len(summary["partitions"])) == (3, 30, 1)


def test_many_rows_of_many_partitions_arrive_each_in_its_order(
    spark: SparkSession, broker: WrittenBroker, tmp_path: Path
) -> None:
    frame = spark.range(20_000, numPartitions=3).selectExpr("concat('a/', id % 50) topic", "cast(id as string) payload")
    save(frame, broker, contentType="text/plain", summaryFile=str(tmp_path / "summary.jsonl"))

    rows = broker.rows("client_id", "payload", "content_type")
    assert sorted(int(payload) for _client, payload, _type in rows) == list(range(20_000))
    assert {kind for _client, _payload, kind in rows} == {"text/plain"}
    for client in {client for client, _payload, _type in rows}:
        sent = [int(payload) for own, payload, _type in rows if own == client]
        assert sent == sorted(sent)
    summary = json.loads((tmp_path / "summary.jsonl").read_text())
    assert sum(part["rows"] for part in summary["partitions"]) == summary["rows"] == 20_000


def test_a_broker_that_is_killed_and_comes_back_gets_every_row(spark: SparkSession, broker: WrittenBroker) -> None:
    frame = spark.range(4_000, numPartitions=2).selectExpr("'a' topic", "cast(id as string) payload")
    ready = broker.folder / "go"
    # Each task stops in the middle until the broker was killed and runs again.
    frame = frame.mapInArrow(_pausing(str(ready), 1_000), frame.schema)

    def restart() -> None:
        wait_for_files(broker.folder, "go.*", 2)
        broker.kill()
        broker.start()
        ready.touch()

    thread = threading.Thread(target=restart)
    thread.start()
    save(frame, broker)
    thread.join()
    assert sorted({int(payload) for payload in broker.payloads()}) == list(range(4_000))


def _pausing(ready: str, after: int) -> Any:
    """A function for mapInArrow that hands over some rows, says so, and waits for a file before the rest."""

    def pause(batches: Any) -> Any:
        import pathlib
        import time

        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        for batch in batches:
            yield batch.slice(0, after)
            pathlib.Path(f"{ready}.{task.partitionId()}").touch()
            while not pathlib.Path(ready).exists():
                time.sleep(0.02)
            yield batch.slice(after)

    return pause


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        ("select 'a' topic, 'x' payload", {"qos": "7"}, "option qos: '7' is no number from 0 to 2"),
        ("select 'a' topic, 1 payload", {}, "column 'payload' has to be binary or string, not int"),
        ("select 'a/#' topic, 'x' payload", {}, "the row with topic 'a/#' is no message: .*wildcard"),
        ("select '$SYS/a' topic, 'x' payload", {}, "refused the message to \\$SYS/a: Not authorized"),
        ("select 'big' topic, repeat('x', 3000000) payload", {}, "message to big makes a packet of 30000.. bytes"),
        (
            "select 'a' topic, 'x' payload",
            {"user": "eve", "passwordEnv": "NOT_THERE"},
            "option passwordEnv NOT_THERE: there is no such variable",
        ),
    ],
)
def test_what_is_wrong_fails_the_job_with_topic_and_reason(
    spark: SparkSession, broker: WrittenBroker, rows: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(PySparkException, match=words):
        save(spark.sql(rows), broker, **options)
    assert broker.payloads() == []


def test_nothing_can_be_replaced_and_no_broker_is_told(spark: SparkSession, broker: WrittenBroker) -> None:
    frame = spark.sql("select 'a' topic, 'x' payload")
    with pytest.raises(PySparkException, match="cannot be replaced"):
        frame.write.format("holdfast").option("broker", broker.url).mode("overwrite").save()
    with pytest.raises(PySparkException, match=r"cannot connect to 127\.0\.0\.1:1:"):
        frame.write.format("holdfast").options(broker="mqtt://127.0.0.1:1", retryForS=0).mode("append").save()
