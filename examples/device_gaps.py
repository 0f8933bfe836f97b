"""Which devices were silent, and for how long: a stream with a watermark for messages that come late.

    python examples/device_gaps.py /var/lib/holdfast work

Devices send {"at": "2026-03-01T08:20:00Z", "celsius": 21.5}, some of them hours later. The stream counts messages for
each device and ten minutes of the device's own clock. A window is written when the watermark has passed it; what is
later than that is dropped, and counted. Run it again, and it goes on where it ended.
"""

import sys

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from holdfast.pipeline import session


def counts(messages: DataFrame) -> DataFrame:
    """Messages for each device and window, once no more are expected."""
    readings = messages.select(
        f.split("topic", "/")[2].alias("device"),
        f.get_json_object(f.col("payload").cast("string"), "$.at").cast("timestamp").alias("at"),
    )
    windows = readings.withWatermark("at", "30 minutes").groupBy("device", f.window("at", "10 minutes"))
    return windows.count().selectExpr("device", "window.start", "window.end", "count")


def gaps(windows: DataFrame) -> DataFrame:
    """Between two windows of a device that do not touch, it was silent."""
    before = f.lag("end").over(Window.partitionBy("device").orderBy("start"))
    silent = windows.withColumn("silent_from", before).where("silent_from < start")
    return silent.selectExpr("device", "silent_from", "start AS silent_until").orderBy("silent_from", "device")


def main(spark: SparkSession, data: str, folder: str) -> tuple[DataFrame, int]:
    """Take what is new; the gaps so far, and how many rows came too late this time."""
    reader = spark.readStream.format("holdfast").options(topicFilter="plant/+/+/temperature", columns="topic,payload")
    reader = reader.option("maxRowsPerTrigger", 100_000)
    writer = counts(reader.load(data)).writeStream.format("parquet").option("path", f"{folder}/windows")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    late = sum(state["numRowsDroppedByWatermark"] for step in query.recentProgress for state in step["stateOperators"])
    return gaps(spark.read.parquet(f"{folder}/windows")), late


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found, too_late = main(session(), *sys.argv[1:])
    found.show(truncate=False)
    print(f"{too_late} messages came too late")
