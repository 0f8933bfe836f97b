"""Spark with two executors in processes of their own: reads a batch and a stream, and prints what came as JSON.

python cluster_program.py DATA|ENDPOINT FOLDER
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
    spark = session(master="local-cluster[2,1,1024]")
    machine = spark.sparkContext._jvm
    assert machine is not None
    where = {"endpoint" if data.startswith("grpc") else "path": data}
    table = spark.read.format("holdfast").option("rowsPerPartition", 50).options(**where).load()
    stream = spark.readStream.format("holdfast").option("maxRowsPerTrigger", 70).options(**where).load().writeStream
    query = stream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query.start(f"{folder}/out").awaitTermination()
    found = {
        "rows": payloads(table),
        "streamed": payloads(spark.read.parquet(f"{folder}/out")),
        "filtered": history(spark, "plant/3", **where).count(),
        "executors": table.mapInArrow(parents, "id bigint").distinct().count(),
        "home": machine.System.getProperty("java.home"),
        "zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
