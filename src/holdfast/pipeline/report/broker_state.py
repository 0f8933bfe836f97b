"""The figures of a report about the broker: sessions, queues and retained messages by Spark, and its events."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from holdfast.exchange.drops import REASONS
from holdfast.history.event_counts import ReasonCount
from holdfast.history.tables.tables import QUEUES, RETAINED, SESSIONS
from holdfast.model.time import datetime_of
from holdfast.pipeline.report.figures import BrokerState, DropReason, QueueFigures, TrafficShare, moment_of
from holdfast.pipeline.source.data_source import NAME

_SHOWN: Final = 10


def read_broker_state(spark: SparkSession, source: dict[str, str]) -> BrokerState:
    """Sessions, queues by estimate, and retained messages, as of now."""

    def table(name: str) -> DataFrame:
        return spark.read.format(NAME).options(**source, table=name).load()

    sessions = (
        table(SESSIONS)
        .agg(
            fn.count("*").alias("sessions"),
            fn.count_if("connected").alias("connected"),
            fn.coalesce(fn.sum(fn.size("subscriptions")), fn.lit(0)).alias("subscriptions"),
            fn.count("will_topic").alias("wills"),
        )
        .first()
    )
    assert sessions is not None
    owner = fn.coalesce("client_id", "group")
    queues = (
        table(QUEUES)
        .groupBy(owner.alias("owner"))
        .agg(
            fn.first("group").alias("group"),
            fn.first("connected").alias("connected"),
            fn.sum("owed_at_most").alias("owed"),
            fn.min(fn.unix_micros("behind_since")).alias("since"),
            fn.sum(fn.size("inflight")).alias("inflight"),
        )
        .cache()
    )
    groups = queues.where("group IS NOT NULL").count()
    owed = queues.where("owed > 0 OR inflight > 0").orderBy(fn.desc("owed"), "owner").limit(_SHOWN).collect()
    queues.unpersist()
    tree = fn.split("topic", "/")[0]
    trees = (
        table(RETAINED)
        .groupBy(tree.alias("tree"))
        .agg(
            fn.count("*").alias("n"),
            fn.sum(fn.octet_length("payload")).alias("size"),
            fn.countDistinct("client_id").alias("publishers"),
        )
        .cache()
    )
    whole = trees.agg(fn.sum("n").alias("n"), fn.sum("size").alias("size")).first()
    assert whole is not None
    rows = trees.orderBy(fn.desc("n"), "tree").limit(_SHOWN).collect()
    trees.unpersist()
    return BrokerState(
        **sessions.asDict(),
        groups=groups,
        queues=[QueueFigures(row.owner, row.connected, row.owed, moment_of(row.since), row.inflight) for row in owed],
        retained=whole.n or 0,
        retained_bytes=whole["size"] or 0,
        retained_trees=[TrafficShare(row.tree, row.n, row["size"], publishers=row.publishers) for row in rows],
    )


def describe_reasons(counts: Iterable[ReasonCount]) -> list[DropReason]:
    """What was dropped, refused or ended, in words."""
    return [
        DropReason(
            one.reason, REASONS.get(one.reason, one.reason), one.count, datetime_of(one.last_us), list(one.clients)
        )
        for one in counts
    ]
