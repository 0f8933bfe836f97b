"""Spark with two executors in processes of their own: reads a batch and a stream, and prints what came as JSON.

python cluster_program.py DATA|ENDPOINT
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.pipeline import history, session


def with_parents(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Payloads, and which process started the one that read them: an executor starts its own."""
    for batch in batches:
        parents = pa.array([os.getppid()] * batch.num_rows, pa.int64())
        yield pa.RecordBatch.from_pydict({"payload": batch.column("payload"), "parent": parents})


def main(data: str) -> None:
    # Both are there before the first task is given out, so each gets some.
    both = {"spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    patience = {"spark.scheduler.maxRegisteredResourcesWaitingTime": "300s"}
    spark = session(master="local-cluster[2,1,1024]", settings={**both, **patience})
    machine = spark.sparkContext._jvm
    assert machine is not None
    where: dict[str, Any] = {"endpoint" if data.startswith("grpc") else "path": data}
    read = spark.read.format("holdfast").option("rowsPerPartition", 50).option("columns", "payload")
    rows = read.options(**where).load().mapInArrow(with_parents, "payload binary, parent bigint").collect()
    follow = spark.readStream.format("holdfast").option("maxRowsPerTrigger", 120)
    stream = follow.options(**where).load().select("payload").writeStream
    query = stream.format("memory").queryName("streamed").trigger(availableNow=True).start()
    query.awaitTermination()
    found = {
        "rows": sorted(row.payload.decode() for row in rows),
        "streamed": sorted(row.payload.decode() for row in spark.table("streamed").collect()),
        "filtered": history(spark, "plant/3", **where).count(),
        "executors": len({row.parent for row in rows}),
        "home": machine.System.getProperty("java.home"),
        "zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
