"""Makes an archive: `… java.jsa FILE` of Java's own classes, `… classes.jsa FILE [BASE]` of those that Spark loads.

For the second, a Spark does a little of everything, and Java writes down the classes which that takes when it ends.
Classes that are not in the archive are loaded as ever.

`class_archive` runs this program in its own session. When the standard input is closed, which that never writes to, it
was killed, and all programs of the session end.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

from holdfast.pipeline.spark.class_archive import BASE, QUIET_JAVA
from holdfast.pipeline.spark.session import session

_COLUMNS: Final = "id long, word string, ts timestamp"


class _Numbers(DataSource):
    """A source in Python, as history is one."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "id long"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark gives it by its name
        return _NumbersReader()


class _NumbersReader(DataSourceReader):
    def read(self, partition: Any) -> Iterator[Any]:  # noqa: ARG002 - Spark gives it by its name
        yield pa.RecordBatch.from_pydict({"id": list(range(100))})


def exercise(spark: SparkSession, folder: str) -> None:
    """A source in Python, files, Arrow functions, aggregates, joins, and a stream."""
    spark.dataSource.register(_Numbers)
    spark.read.format("numbers").load().createOrReplaceTempView("source")
    spark.sql("SELECT count(*) FROM source").toArrow()
    table = f"{folder}/table"
    numbers = spark.range(1000).selectExpr("id", "cast(id % 7 as string) as word", "now() as ts")
    numbers.write.parquet(table)
    numbers.createOrReplaceTempView("numbers")
    spark.sql(
        "SELECT word, count(*), max(id) FROM numbers JOIN source USING (id) GROUP BY word ORDER BY word"
    ).collect()
    spark.read.parquet(table).mapInArrow(lambda batches: batches, _COLUMNS).collect()
    spark.sparkContext.parallelize([1, 2], 2).map(lambda number: number + 1).collect()
    stream = spark.readStream.schema(_COLUMNS).parquet(table)
    query = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    query.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()


def make_base(file: str) -> None:
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    subprocess.run([java, "-Xshare:dump", f"-XX:SharedArchiveFile={file}"], stdin=subprocess.DEVNULL, check=True)


def make_classes(file: str, bases: list[str]) -> None:
    options = [*(f"-XX:SharedArchiveFile={base}" for base in bases), f"-XX:ArchiveClassesAtExit={file}", QUIET_JAVA]
    with tempfile.TemporaryDirectory(prefix="holdfast-spark-") as folder:
        running = session(master="local[2]", settings={"spark.driver.extraJavaOptions": " ".join(options)})
        exercise(running, folder)
        running.stop()


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    kind, made, *given = sys.argv[1:]
    if kind == BASE:
        make_base(made)
    else:
        make_classes(made, given)
