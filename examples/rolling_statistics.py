"""What is usual for each device, and what is not: rolling statistics over its last twelve readings.

    python examples/rolling_statistics.py /var/lib/holdfast

A reading is compared with the ones before it, of the same device: their mean and their spread. Five times the spread is
far off.
"""

import sys

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from holdfast.pipeline import history, session


def rolling(messages: DataFrame) -> DataFrame:
    """Each reading with the mean and the spread of the twelve before it."""
    payload = f.col("payload").cast("string")
    readings = messages.select(
        f.split("topic", "/")[2].alias("device"),
        f.get_json_object(payload, "$.at").cast("timestamp").alias("at"),
        f.get_json_object(payload, "$.celsius").cast("double").alias("celsius"),
    )
    before = Window.partitionBy("device").orderBy("at").rowsBetween(-12, -1)
    return readings.withColumns(
        {
            "mean": f.avg("celsius").over(before),
            "spread": f.stddev("celsius").over(before),
            "known": f.count("celsius").over(before),
        }
    )


def main(spark: SparkSession, data: str) -> DataFrame:
    """Readings that are far off, the farthest first."""
    readings = rolling(history(spark, "plant/+/+/temperature", path=data, columns=["topic", "payload"]))
    off = f.abs(f.col("celsius") - f.col("mean")) / f.col("spread")
    return readings.withColumn("off", off).where("known >= 6 AND off > 5").orderBy(f.desc("off"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(session(), *sys.argv[1:]).show(truncate=False)
