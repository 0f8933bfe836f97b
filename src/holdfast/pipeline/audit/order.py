"""Order: as messages lie in the log, and as their publishers published them (L1, L14)."""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import col, concat, count_distinct, lag, lit
from pyspark.sql.functions import max as highest
from pyspark.sql.functions import min as lowest

from holdfast.pipeline.audit.findings import faults_of


def order_faults(rows: DataFrame) -> DataFrame:
    """Whoever reads the log in order gets rising positions and serials, and no position outside of its generation."""
    said = concat(lit("in front of it lies message "), col("before_serial"), lit(" at "), col("before_offset"))
    swapped = rows.where("before_offset >= 0 AND (offset <= before_offset OR serial <= before_serial)")
    outside = rows.where("offset < lo OR offset >= hi")
    return faults_of(swapped, "it lies behind a message that comes later", detail=said).union(
        faults_of(outside, "its position does not belong where it lies")
    )


def publisher_faults(rows: DataFrame, zones: Mapping[int, str], lanes: Collection[int]) -> DataFrame:
    """Messages of a publisher on a topic are in one shard, so that they have an order; numbers they carry increase.

    Not in lanes: nobody has looked at the numbers of what was loaded.
    """
    zone = "CASE shard " + " ".join(f"WHEN {shard} THEN {_quoted(name)}" for shard, name in sorted(zones.items()))
    # A shard that no zone has is a fault of another check.
    placed = rows.selectExpr("*", f"{zone} ELSE '' END AS zone" if zones else "'' AS zone")
    divided = (
        placed.groupBy("zone", "generation", "client_id", "topic")
        .agg(
            count_distinct("shard").alias("shards"),
            lowest("shard").alias("shard"),
            highest("shard").alias("another"),
            lowest("serial").alias("serial"),
            lowest("offset").alias("offset"),
        )
        .where("shards > 1")
    )
    said = concat(lit("shards "), col("shard"), lit(" and "), col("another"))
    along = Window.partitionBy("client_id", "shard").orderBy("serial")
    published = rows.where(~col("shard").isin(sorted(lanes)))
    counted = published.where("number IS NOT NULL AND qos > 0").withColumn("previous", lag("number").over(along))
    numbers = concat(lit("number "), col("number"), lit(" behind number "), col("previous"))
    return faults_of(divided, "messages of one publisher and topic are in two shards", detail=said).union(
        faults_of(counted.where("number <= previous"), "its publish number does not increase", detail=numbers)
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
