"""Retained messages: each is the newest of its topic that was published to be retained, as far as the log can tell.

    heads are seen ──▶ the table is read ──▶ the log is read
    all up to here     is in the table,      and what came since then is known
                       or was replaced

1. Of two messages in different shards, less than a second apart, the log does not know which came first: each shard
   has its own clock.
2. What is not in the log says nothing: a message that retention dropped, one of a zone that is not stored. Nor does an
   absence, where a broker did not retain for want of room, or a removal may have come with QoS 0 and not been stored.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.functions import max as highest

from holdfast.exchange.drops import DROP_RETAINED
from holdfast.history.tables.tables import RETAINED
from holdfast.pipeline.audit.findings import by_shard, faults_of
from holdfast.pipeline.source.data_source import NAME
from holdfast.pipeline.source.history_source import event_counts
from holdfast.pipeline.source.read_options import ReadOptions

_APART_US: Final = 1_000_000
#: What expires so soon may go while the audit runs.
_SOON_US: Final = 3_600_000_000
_REPLACED: Final = "a newer retained message of its topic is not the one that is kept"
_REMOVED: Final = "it removes what is retained, and that is still there"
_ABSENT: Final = "it should be retained, and nothing is"
_UNKNOWN: Final = "it is retained, and the log does not have it"


def retained_table(spark: SparkSession, source: Mapping[str, str]) -> DataFrame:
    table = spark.read.format(NAME).options(**source, table=RETAINED).load()
    return table.selectExpr("topic", "shard AS kept_shard", "offset AS kept", "client_id AS kept_client")


def retained_faults(table: DataFrame, rows: DataFrame, seen: Mapping[int, int]) -> DataFrame:
    """What is kept, and should not be. `seen`: the head of each shard when the table was read."""
    known = _published(rows).where(f"offset <= {by_shard('shard', seen)} AND NOT erased")
    last = known.groupBy("topic", "shard").agg(highest(expr("struct(offset, serial, client_id, empty)")).alias("one"))
    newer = (
        last.select("topic", "shard", "one.*")
        .join(table.where("kept IS NOT NULL"), "topic")
        .where(f"offset > kept + if(shard = kept_shard, 0, {_APART_US})")
    )
    return faults_of(newer.where("NOT empty"), _REPLACED).union(faults_of(newer.where("empty"), _REMOVED))


def absent_faults(table: DataFrame, rows: DataFrame, seen: Mapping[int, int], now_us: int) -> DataFrame:
    """What should be kept, and is not."""
    topics = (
        _published(rows)
        .groupBy("topic")
        .agg(
            highest(expr("struct(offset, shard, serial, client_id, empty, erased, expires_us)")).alias("one"),
            highest(expr("if(empty OR erased, offset, -1)")).alias("removed"),
        )
        .select("topic", "removed", "one.*")
    )
    lasting = f"(expires_us IS NULL OR expires_us > {now_us + _SOON_US})"
    wanted = topics.where(
        f"NOT empty AND NOT erased AND {lasting} AND offset <= {by_shard('shard', seen)} "
        f"AND removed < offset - {_APART_US}"
    )
    return faults_of(wanted.join(table, "topic", "left_anti"), _ABSENT)


def unknown_faults(table: DataFrame, rows: DataFrame, begins: Mapping[int, int], heads: Mapping[int, int]) -> DataFrame:
    """What is kept, and should be in the log, between where it begins and its head, and is not."""
    stored = rows.selectExpr("shard AS kept_shard", "offset AS kept")
    inside = f"kept >= {by_shard('kept_shard', begins)} AND kept <= {by_shard('kept_shard', heads)}"
    lone = table.where(f"kept IS NOT NULL AND {inside}").join(stored, ["kept_shard", "kept"], "left_anti")
    places = "kept_shard AS shard", "CAST(NULL AS bigint) AS serial", "kept AS offset", "topic"
    return faults_of(lone.selectExpr(*places, "kept_client AS client_id"), _UNKNOWN)


def lacks_room(options: ReadOptions) -> bool:
    """Whether the broker could not retain everything."""
    return any(found.reason == DROP_RETAINED for found in event_counts(options))


def _published(rows: DataFrame) -> DataFrame:
    names = "topic", "shard", "serial", "offset", "client_id", "empty", "expires_us", "erased"
    return rows.where("retain").select(*names)
