"""A stream into Parquet files, to be killed: follows the log, or takes what is there and ends.

python stream_program.py follow|finish MASTER FOLDER NAME=VALUE…          options of the source
"""

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from holdfast.pipeline import session

#: Spark gives a Python ten seconds to start, which is not always enough on a machine that is busy.
_SPARK_IS_LATE = "Python worker failed to connect back"
_TRIES = 10


def main(mode: str, master: str, folder: str, *options: str) -> None:
    settings = {"spark.driver.memory": "512m", "spark.sql.streaming.numRecentProgressUpdates": "1"}
    spark = session(master=master, settings=settings)
    given = dict(option.split("=", 1) for option in options)
    for attempt in range(_TRIES):
        try:
            run(spark, mode, folder, given)
            break
        except StreamingQueryException as failed:
            if _SPARK_IS_LATE not in str(failed) or attempt == _TRIES - 1:
                raise
    spark.stop()


def run(spark: SparkSession, mode: str, folder: str, options: dict[str, str]) -> None:
    rows = spark.readStream.format("holdfast").options(**options).load()
    sink = rows.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    sink = sink.trigger(processingTime="100 milliseconds") if mode == "follow" else sink.trigger(availableNow=True)
    sink.start(f"{folder}/out").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
