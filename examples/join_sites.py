"""Readings with what a table knows about their devices: a CSV file of sites and limits.

python examples/join_sites.py /var/lib/holdfast sites.csv

device,site,limit_celsius
d1,Hamburg,30
d2,Lyon,35
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.pipeline import history, session

COLUMNS = "device string, site string, limit_celsius double"


def main(spark: SparkSession, data: str, sites_csv: str) -> DataFrame:
    """For each site how many readings there are, and how many are above the limit of their device."""
    sites = spark.read.csv(sites_csv, schema=COLUMNS, header=True)
    messages = history(spark, "plant/+/+/temperature", path=data, columns=["topic", "payload"])
    readings = messages.select(
        f.split("topic", "/")[2].alias("device"),
        f.get_json_object(f.col("payload").cast("string"), "$.celsius").cast("double").alias("celsius"),
    )
    # The table is small: it goes to where the readings are. Devices that it does not know stay, without a site.
    known = readings.join(f.broadcast(sites), "device", "left")
    found = known.groupBy("site").agg(
        f.count("*").alias("readings"),
        f.countDistinct("device").alias("devices"),
        f.count_if(f.col("celsius") > f.col("limit_celsius")).alias("above_limit"),
    )
    return found.orderBy("site")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(session(), *sys.argv[1:]).show(truncate=False)
