"""A query that publishes what it reads, with gates at which its tasks wait for whoever wants to kill something.

    python writer_program.py DATA BROKER FOLDER RUN GATES

GATES are row numbers with commas, one for each attempt at a task of batch 0. A task that came to its gate writes its
process id into FOLDER/reached-RUN-ATTEMPT-PARTITION, and waits for FOLDER/open-RUN-ATTEMPT.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.types import StructType

from holdfast.client.message import OutgoingMessage
from holdfast.pipeline import session
from holdfast.pipeline.sink.stream_writer import StreamWriter
from holdfast.pipeline.source.data_source import HoldfastSource


def main(data: str, broker: str, folder: str, run: str, gates: str) -> None:
    rows = [int(row) for row in gates.split(",")]

    class GatedWriter(StreamWriter):
        def messages(self, batch_id: int, packed: Any) -> Iterator[OutgoingMessage]:
            task = TaskContext.get()
            assert task is not None
            attempt = task.attemptNumber()
            for row, message in enumerate(super().messages(batch_id, packed)):
                if batch_id == 0 and attempt < len(rows) and row == rows[attempt]:
                    note = Path(folder, f"reached-{run}-{attempt}-{task.partitionId()}")
                    note.with_suffix(".new").write_text(str(os.getpid()))
                    note.with_suffix(".new").rename(note)
                    while not Path(folder, f"open-{run}-{attempt}").exists():
                        time.sleep(0.02)
                yield message

    class GatedSource(HoldfastSource):
        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
            return GatedWriter(schema, self._broker, overwrite=overwrite)

    # A task may fail three times before the query does.
    spark = session(master="local[2,4]")
    spark.dataSource.register(GatedSource)
    reader = spark.readStream.format("holdfast").options(
        topicFilter="in/#", columns="offset,topic,payload", maxRowsPerTrigger=4000
    )
    # Two partitions of about the same size, whatever the times of the messages are; and rows in any order.
    frame = reader.load(data).repartition(2, "offset").selectExpr("offset", "concat('out/', topic) topic", "payload")
    writer = frame.writeStream.format("holdfast").option("checkpointLocation", f"{folder}/checkpoint")
    writer = writer.options(broker=broker, orderBy="offset", maxInflight=4)
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
