"""Spark in a separate process: takes commands as lines of JSON, and answers each with one.

    {"do": "query", "source": …, "grouped": …, "columns": …}     → {"rows": …, "took_s": …}
    {"do": "device"}                                             → {"rows": …, "filter_s": …, "topic_s": …}
    {"do": "latency", "port": …, "messages": …}                  → {"waits_ms": […]}
    {"do": "scan"}                                               → {"rows": …}, when anything more comes in

python -m bench.spark.child <places as JSON> <master>
"""

from __future__ import annotations

import json
import select
import sys
import tempfile
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, length
from pyspark.sql.functions import sum as total

from holdfast.client import BlockingClient, ConnectionOptions
from holdfast.pipeline import history, session
from holdfast.pipeline.sql.views import Sql, SqlJob

_EVERY_S = 0.05
_LIMIT_S = 120.0


_COUNT = "SELECT count(*) FROM history"
_GROUP = """
    SELECT sum(messages), sum(bytes)
    FROM (SELECT topic, count(*) AS messages, sum(length(payload)) AS bytes FROM history GROUP BY topic)
"""


class Child:
    """`places`: where each source is."""

    def __init__(self, spark: SparkSession, places: dict[str, str]) -> None:
        self._spark = spark
        self._places = places
        self._sql = Sql(spark, SqlJob({"path": places["path"]}))

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = getattr(self, asked.pop("do"))(**asked)
        return found

    def query(self, source: str, columns: str, *, grouped: bool) -> dict[str, Any]:
        began_s = time.perf_counter()
        if source == "sql":
            rows = int(self._sql.run(_GROUP if grouped else _COUNT).rows[0][0])
            return {"rows": rows, "took_s": time.perf_counter() - began_s}
        frame = self._frame(source, columns)
        began_s = time.perf_counter()
        return {"rows": _rows(frame, grouped=grouped), "took_s": time.perf_counter() - began_s}

    def device(self) -> dict[str, Any]:
        """All messages on one topic, by the index of the log: from the question to the rows."""
        topic = self._sql.run("SELECT max(topic) FROM history").rows[0][0]
        began_s = time.perf_counter()
        rows = len(history(self._spark, topic, path=self._places["path"]).collect())
        filter_s = time.perf_counter() - began_s
        began_s = time.perf_counter()
        found = self._sql.run(f"SELECT * FROM history WHERE topic = '{topic}'").rows
        if len(found) != rows:
            raise SystemExit(f"{topic}: the filter finds {rows} messages, and the condition {len(found)}")
        return {"rows": rows, "filter_s": filter_s, "topic_s": time.perf_counter() - began_s}

    def latency(self, port: int, messages: int) -> dict[str, Any]:
        """How long each message took from its publisher into a micro-batch."""
        waits_ms: list[float] = []
        enough = threading.Event()

        def take(batch: DataFrame, _number: int) -> None:
            rows = batch.select("payload").collect()
            now_ns = time.time_ns()
            waits_ms.extend((now_ns - int(bytes(row.payload))) / 1e6 for row in rows)
            if len(waits_ms) >= messages:
                enough.set()

        reader = self._spark.readStream.format("holdfast").options(startingOffsets="latest", topicFilter="latency/now")
        frame = reader.option("path", self._places["path"]).load()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            query = frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
            publisher = BlockingClient(ConnectionOptions(port=port))
            # What comes while the stream begins is not counted, and there is something to begin with.
            while not waits_ms:
                publisher.publish("latency/now", b"%d" % time.time_ns(), qos=1)
                publisher.flush()
                enough.wait(_EVERY_S)
            waits_ms.clear()
            enough.clear()
            ends_s = time.monotonic() + _LIMIT_S
            while not enough.wait(_EVERY_S):
                publisher.publish("latency/now", b"%d" % time.time_ns(), qos=1)
                publisher.flush()
                if time.monotonic() > ends_s:
                    raise SystemExit(f"{len(waits_ms)} of {messages} messages came within {_LIMIT_S} s")
            publisher.close()
            query.stop()
        return {"waits_ms": sorted(waits_ms)}

    def scan(self) -> dict[str, Any]:
        rows = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            rows += _rows(self._frame("path", ""), grouped=True)
        return {"rows": rows}

    def _frame(self, source: str, columns: str) -> DataFrame:
        if source == "parquet":
            return self._spark.read.parquet(self._places[source])
        if source == "json":
            return self._spark.read.schema("ts long, topic string, qos int, payload string").json(self._places[source])
        options = {"columns": columns} if columns else {}
        where = {"path" if source == "path" else "endpoint": self._places[source]}
        return self._spark.read.format("holdfast").options(**where, **options).load()


def _rows(frame: DataFrame, *, grouped: bool) -> int:
    if not grouped:
        return frame.count()
    topics = frame.groupBy("topic").agg(count("*").alias("messages"), total(length("payload")).alias("bytes"))
    [row] = topics.agg(total("messages").alias("messages"), total("bytes")).collect()
    return int(row["messages"])


def main(places: str, master: str) -> int:
    spark = session("bench", master=master, settings={"spark.driver.memory": "2g"})
    child = Child(spark, json.loads(places))
    print("ready", flush=True)
    while line := sys.stdin.readline():
        print(json.dumps(child.answer(json.loads(line))), flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
