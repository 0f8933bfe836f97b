"""The job of a report: read history and the broker's tables, and make the figures of the page."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from holdfast.pipeline.report.broker_state import describe_reasons, read_broker_state
from holdfast.pipeline.report.figures import Figures
from holdfast.pipeline.report.traffic import Traffic
from holdfast.pipeline.source.history_frame import history
from holdfast.pipeline.source.history_source import event_counts, learned_topics, open_source
from holdfast.pipeline.source.read_options import parse_read_options
from holdfast.pipeline.spark.errors import permanent_errors
from holdfast.pipeline.spark.executor_folder import check_executors_read
from holdfast.pipeline.spark.progress import JobProgress
from holdfast.pipeline.spark.session import session

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

_COLUMNS: Final = ("ts", "shard", "topic", "client_id", "qos", "retain", "payload", "expires_at")


@dataclass(frozen=True)
class ReportJob:
    #: Options of the data source.
    source: Mapping[str, str]
    since_us: int
    title: str
    topic_filter: str | None = None
    #: An archive of what the log may not have any more.
    lake: "LakeAddress | None" = None


def run_report(job: ReportJob, master: str | None, progress: JobProgress) -> Figures:
    """Start Spark, and read. PermanentError: the data cannot be read, or Spark failed."""
    with permanent_errors():
        spark = session("holdfast-report", master=master, say=progress.say)
        progress.watch(spark)
        check_executors_read(spark, job.source)
        return report_figures(spark, job, progress)


def report_figures(spark: SparkSession, job: ReportJob, progress: JobProgress) -> Figures:
    """PermanentError: the data cannot be read."""
    progress(0.0, "patterns", until=0.05)
    options = parse_read_options(job.source)
    patterns = learned_topics(options)
    with open_source(options) as source:
        zones = {shard: zone.name for zone in source.zones() for shard in zone.shards}
    messages = history(
        spark,
        job.topic_filter,
        str(job.since_us),
        path=job.source.get("path"),
        endpoint=job.source.get("endpoint"),
        token=job.source.get("token"),
        token_file=job.source.get("tokenFile"),
        ca=job.source.get("ca"),
        columns=_COLUMNS,
        lake=job.lake,
    )
    progress(0.05, "messages", until=0.4, reads=True)
    with closing(Traffic(messages, zones)) as traffic:
        progress(0.4, "patterns and time", until=0.6)
        pattern_count, shares, timeline = traffic.patterns(patterns)
        progress(0.6, "topics and publishers", until=0.7)
        topics, publishers = traffic.heaviest("topic"), traffic.heaviest("client_id")
        progress(0.7, "sizes and hours", until=0.8)
        sizes, hours, by_zone = traffic.sizes(), traffic.hours(), traffic.zones()
        progress(0.8, "silences", until=0.9)
        silences, lateness = traffic.silences(), traffic.lateness()
        totals = traffic.totals
    progress(0.9, "sessions and retained messages", until=1.0)
    found = read_broker_state(spark, dict(job.source))
    return Figures(
        job.title,
        options.endpoint or options.path,
        datetime.now(UTC),
        totals,
        timeline,
        pattern_count,
        shares,
        topics,
        publishers,
        by_zone,
        sizes,
        hours,
        silences,
        lateness,
        describe_reasons(event_counts(options, job.since_us)),
        found,
    )
