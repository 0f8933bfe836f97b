"""Data to learn from: features for each device and hour, as Parquet, and a first model of the next hour.

    python examples/training_data.py /var/lib/holdfast features

Spark makes few rows out of many messages. What learns from them reads the Parquet files; here it is numpy and a
straight line: the mean of the next hour from the mean, the trend and the spread of this one.
"""

import sys

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from holdfast.pipeline import history, session

FEATURES = ["mean", "trend", "spread"]


def features(messages: DataFrame) -> DataFrame:
    """A row for each device and hour that is followed by another: what was, and what came next."""
    payload = f.col("payload").cast("string")
    readings = messages.select(
        f.split("topic", "/")[2].alias("device"),
        f.get_json_object(payload, "$.at").cast("timestamp").alias("at"),
        f.get_json_object(payload, "$.celsius").cast("double").alias("celsius"),
    )
    hours = readings.groupBy("device", f.date_trunc("hour", "at").alias("hour")).agg(
        f.avg("celsius").alias("mean"),
        (f.max_by("celsius", "at") - f.min_by("celsius", "at")).alias("trend"),
        f.stddev_pop("celsius").alias("spread"),
    )
    order = Window.partitionBy("device").orderBy("hour")
    followed = f.lead("hour").over(order) == f.col("hour") + f.expr("INTERVAL 1 HOUR")
    return hours.withColumn("next_mean", f.when(followed, f.lead("mean").over(order))).where("next_mean IS NOT NULL")


def learn(folder: str) -> tuple[dict[str, float], float]:
    """The line that fits best, and how much of the variation it explains (R²)."""
    table = pq.read_table(folder)
    known = np.column_stack([*(table[name].to_numpy() for name in FEATURES), np.ones(table.num_rows)])
    wanted = table["next_mean"].to_numpy()
    weights = np.linalg.lstsq(known, wanted, rcond=None)[0]
    missed = wanted - known @ weights
    explained = 1.0 - float(missed @ missed) / float(np.square(wanted - wanted.mean()).sum())
    return dict(zip([*FEATURES, "constant"], weights.tolist(), strict=True)), explained


def main(spark: SparkSession, data: str, folder: str) -> tuple[dict[str, float], float]:
    messages = history(spark, "plant/+/+/temperature", path=data, columns=["topic", "payload"])
    features(messages).write.mode("overwrite").parquet(folder)
    return learn(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    line, r2 = main(session(), *sys.argv[1:])
    print(line, f"R² = {r2:.3f}")
