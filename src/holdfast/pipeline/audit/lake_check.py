"""The lake against the log: its serials are dense but for erasures and age, and common messages are equal."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import concat, crc32, expr, lit

from holdfast.durable.log import NO_END
from holdfast.history.reader.view import UNKNOWN
from holdfast.pipeline.audit.findings import FAULTS, faults_of
from holdfast.pipeline.audit.serial_check import SERIALS, ExpectedSerials, serial_faults
from holdfast.pipeline.lake.archive_table import ArchiveTable
from holdfast.pipeline.lake.erasures import ERASED, EXPIRED, UNARCHIVED, erasures_of
from holdfast.pipeline.lake.lake_reader import read_lake

_COLUMNS: Final = ("shard", "serial", "offset", "topic", "client_id", "payload")
_UNFINISHED: Final = "it was erased, and is still there: run the erasure again"
_LOST: Final = "messages were dropped from the log before they were archived"
_GONE: Final = "shard int, serials array<struct<first: bigint, last: bigint>>"


def archived_messages(spark: SparkSession, lake: ArchiveTable) -> DataFrame:
    """Every message of a lake, without payloads."""
    rows = read_lake(spark, lake, (), 0, NO_END, _COLUMNS)
    return rows.withColumn("checksum", crc32("payload")).drop("payload")


def gone_from(spark: SparkSession, lake: ArchiveTable, *kinds: str) -> DataFrame | None:
    """The serials that are recorded as gone for some reasons, each once; None if there are none."""
    recorded = [row for row in erasures_of(lake.store).to_pylist() if row["kind"] in kinds]
    if not recorded:
        return None
    found = [(row["shard"], [tuple(one.values()) for one in row["serials"]]) for row in recorded]
    ranges = spark.createDataFrame(found, _GONE).selectExpr("shard", "inline(serials)")
    return ranges.selectExpr("shard", "explode(sequence(first, last)) AS serial").distinct()


def archived_faults(spark: SparkSession, lake: ArchiveTable, rows: DataFrame) -> DataFrame:
    """What is wrong with the serials of a lake, and with the positions along them, as `serial_faults` finds it."""
    lasts = [
        ExpectedSerials(shard, 0, UNKNOWN, offset.serial)
        for shard, offset in sorted(lake.offsets.items())
        if offset.serial
    ]
    there = rows.select("shard", "serial", "offset", "topic", "client_id").withColumn("stretch", lit(0))
    gone = gone_from(spark, lake, ERASED, EXPIRED, UNARCHIVED)
    if gone is None:
        return serial_faults(spark, there, lasts)
    unknown = "CAST(NULL AS bigint) AS offset", "CAST(NULL AS string) AS topic", "CAST(NULL AS string) AS client_id"
    missing = gone.join(rows.select("shard", "serial"), ["shard", "serial"], "left_anti")
    found = serial_faults(
        spark, there.unionByName(missing.selectExpr("shard", "serial", *unknown, "0 AS stretch")), lasts
    )
    erased = gone_from(spark, lake, ERASED, UNARCHIVED)
    if erased is not None:
        still = faults_of(rows.join(erased, ["shard", "serial"]), _UNFINISHED)
        found = found.unionByName(still.withColumn("of", lit(SERIALS)))
    return found


def differing_faults(rows: DataFrame, log: DataFrame) -> DataFrame:
    """Messages that are in both, and are not the same."""
    names = ("offset", "topic", "client_id")
    compared = [log[name].alias(f"log_{name}") for name in (*names, "checksum")]
    other = log.select("shard", "serial", "erased", *compared)
    # What was erased in the log has no checksum there, and may be in the lake until it is erased there, too.
    same = " AND ".join([*[f"{name} <=> log_{name}" for name in names], "(erased OR checksum <=> log_checksum)"])
    wrong = rows.join(other, ["shard", "serial"]).where(f"NOT ({same})")
    said = concat(lit("in the log it is at "), expr("log_offset"), lit(" on "), expr("log_topic"))
    return faults_of(wrong, "the lake and the log have different messages of this serial", detail=said)


def uncovered_faults(spark: SparkSession, lake: ArchiveTable, log: list[ExpectedSerials]) -> DataFrame:
    """Serials that are missing between the end of the lake and the beginning of the log."""
    found = []
    goes_on: dict[int, ExpectedSerials] = {}
    for one in log:
        if one.shard in lake.offsets and one.last > lake.offsets[one.shard].serial:
            goes_on.setdefault(one.shard, one)
    for one in goes_on.values():
        offset = lake.offsets[one.shard]
        if one.first != UNKNOWN and offset.serial + 1 < one.first:
            said = f"serials {offset.serial + 1} to {one.first - 1}"
            found.append((_LOST, one.first - 1 - offset.serial, one.shard, offset.serial + 1, None, None, None, said))
    return spark.createDataFrame(found, FAULTS)
