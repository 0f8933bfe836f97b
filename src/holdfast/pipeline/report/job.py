"""The job of a report: read history and the broker's tables, and make the figures of the page."""

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from holdfast.history.patterns import learned_patterns
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.report.broker_state import count_reasons, read_broker_state
from holdfast.pipeline.report.figures import Figures
from holdfast.pipeline.report.traffic import Traffic
from holdfast.pipeline.source.history_frame import history
from holdfast.pipeline.spark.errors import permanent_errors
from holdfast.pipeline.spark.progress import Progress
from holdfast.pipeline.spark.session import session

if TYPE_CHECKING:
    from holdfast.pipeline.lake.store import LakeAddress

_COLUMNS: Final = ("ts", "shard", "topic", "client_id", "qos", "retain", "payload", "expires_at")


@dataclass(frozen=True)
class ReportJob:
    data: Path
    since_us: int
    title: str
    topic_filter: str | None = None
    #: An archive of what the log may not have any more.
    lake: "LakeAddress | None" = None


def run_report(job: ReportJob, master: str | None, progress: Progress) -> Figures:
    """Start Spark, and read. PermanentError: the data cannot be read, or Spark failed."""
    with permanent_errors():
        return report_figures(session("holdfast-report", master=master), job, progress)


def report_figures(spark: SparkSession, job: ReportJob, progress: Progress) -> Figures:
    """PermanentError: the data cannot be read."""
    progress(0.0, "patterns")
    with HistoryReader.open(job.data) as reader:
        patterns = learned_patterns(reader)
        zones = {shard: zone.name for zone in reader.zones() for shard in zone.shards}
    messages = history(spark, job.topic_filter, str(job.since_us), path=job.data, columns=_COLUMNS, lake=job.lake)
    progress(0.05, "messages")
    with closing(Traffic(messages, zones)) as traffic:
        progress(0.4, "patterns and time")
        pattern_count, shares, timeline = traffic.patterns(patterns)
        progress(0.6, "topics and publishers")
        topics, publishers = traffic.heaviest("topic"), traffic.heaviest("client_id")
        progress(0.7, "sizes and hours")
        sizes, hours, by_zone = traffic.sizes(), traffic.hours(), traffic.zones()
        progress(0.8, "silences")
        silences, lateness = traffic.silences(), traffic.lateness()
        totals = traffic.totals
    progress(0.9, "sessions and retained messages")
    found = read_broker_state(spark, {"path": str(job.data)})
    return Figures(
        job.title,
        str(job.data),
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
        count_reasons(job.data, job.since_us),
        found,
    )
