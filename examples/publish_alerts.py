"""Back to the devices: a stream that publishes an alert for each reading above a limit, exactly once.

    python examples/publish_alerts.py /var/lib/holdfast mqtt://localhost:1883 work

Kill it, or the broker, whenever you like, and run it again: each alert is there once. `orderBy` puts the rows of a
batch into the same order each time, which that takes; QoS 2 takes each to its subscribers once.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.pipeline import session

LIMIT_CELSIUS = 40.0


def alerts(messages: DataFrame) -> DataFrame:
    """Rows that are messages: topic and payload, and what orders them."""
    celsius = f.get_json_object(f.col("payload").cast("string"), "$.celsius").cast("double")
    hot = messages.withColumn("celsius", celsius).where(f.col("celsius") > LIMIT_CELSIUS)
    return hot.select(
        "shard",
        "offset",
        f.concat(f.lit("alerts/"), f.split("topic", "/")[2]).alias("topic"),
        f.to_json(f.struct("celsius", f.col("topic").alias("source"), "ts")).alias("payload"),
        f.lit("application/json").alias("content_type"),
    )


def main(spark: SparkSession, data: str, broker: str, folder: str) -> None:
    """Take what is new. With `.trigger(processingTime="1 second")` it would run until stopped."""
    reader = spark.readStream.format("holdfast").options(topicFilter="plant/+/+/temperature")
    messages = reader.option("columns", "ts,shard,offset,topic,payload").load(data)
    writer = alerts(messages).writeStream.format("holdfast").options(broker=broker, qos="2", orderBy="shard,offset")
    writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(session(), *sys.argv[1:])
