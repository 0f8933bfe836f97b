"""JSON of any shape, without a schema: payloads as VARIANT.

    python examples/json_payloads.py /var/lib/holdfast

Devices send what they like: {"celsius": 21.5}, {"celsius": "21.5", "battery": {"volt": 3.1}}, or no JSON at all. A
VARIANT keeps each as it is, and `try_variant_get` takes out what is there, as the type that is asked for.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.pipeline import history, session


def taken_apart(messages: DataFrame) -> DataFrame:
    """Columns from what is in the payloads; null where it is not, or is no JSON."""
    parsed = messages.withColumn("json", f.try_parse_json(f.col("payload").cast("string")))
    return parsed.select(
        "topic",
        f.try_variant_get("json", "$.celsius", "double").alias("celsius"),
        f.try_variant_get("json", "$.battery.volt", "double").alias("volt"),
        f.schema_of_variant("json").alias("shape"),
    )


def main(spark: SparkSession, data: str) -> DataFrame:
    """Which shapes there are, how often, and what is in them."""
    rows = taken_apart(history(spark, "plant/#", path=data, columns=["topic", "payload"]))
    found = rows.groupBy("shape").agg(
        f.count("*").alias("messages"),
        f.count("celsius").alias("with_celsius"),
        f.min("volt").alias("lowest_volt"),
    )
    return found.orderBy(f.desc("messages"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(session(), *sys.argv[1:]).show(truncate=False)
