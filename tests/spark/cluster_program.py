"""Spark with two executors in processes of their own: reads a batch and a stream, and prints what came as JSON.

python cluster_program.py DATA FOLDER
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame

from holdfast.pipeline import history, session


def parents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which process started the one that has a row."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"id": pa.array([os.getppid()] * batch.num_rows, pa.int64())})


def payloads(frame: DataFrame) -> list[str]:
    return sorted(row.payload.decode() for row in frame.select("payload").collect())


def main(data: str, folder: str) -> None:
    # Both are there before the first task is given out, so each gets some.
    both = {"spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    patience = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "120s"}
    spark = session(master="local-cluster[2,1,1024]", settings={**both, **patience})
    machine = spark.sparkContext._jvm
    assert machine is not None
    table = spark.read.format("holdfast").option("rowsPerPartition", 50).load(data)
    stream = spark.readStream.format("holdfast").option("maxRowsPerTrigger", 70).load(data).writeStream
    query = stream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query.start(f"{folder}/out").awaitTermination()
    found = {
        "rows": payloads(table),
        "streamed": payloads(spark.read.parquet(f"{folder}/out")),
        "filtered": history(spark, "plant/3", path=data).count(),
        "executors": table.mapInArrow(parents, "id bigint").distinct().count(),
        "home": machine.System.getProperty("java.home"),
        "zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
