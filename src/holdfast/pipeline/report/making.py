"""Make a report: read, add up, and say how far it is."""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.history.patterns import learned_patterns
from holdfast.history.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.pipeline.frames import history
from holdfast.pipeline.report.beside import beside, reasons
from holdfast.pipeline.report.figures import Figures
from holdfast.pipeline.report.traffic import Traffic
from holdfast.pipeline.spark_session import session
from holdfast.pipeline.sql import in_words

_COLUMNS: Final = ("ts", "shard", "topic", "client_id", "qos", "retain", "payload", "expires_at")
_SECOND_US: Final = 1_000_000

Progress = Callable[[float, str], None]


class Wish(NamedTuple):
    """What a report is to be about."""

    data: Path
    since_us: int
    title: str
    topic_filter: str | None = None
    #: An archive of what the log may not have any more.
    lake: Path | None = None


def report_of(wish: Wish, master: str | None, progress: Progress) -> Figures:
    """Start Spark for it. PermanentError says what went wrong, in words."""
    try:
        return make_report(session("holdfast-report", master=master), wish, progress)
    except (PySparkException, Py4JError) as error:
        raise PermanentError(in_words(error)) from error


def make_report(spark: SparkSession, wish: Wish, progress: Progress) -> Figures:
    """PermanentError if the data cannot be read."""
    progress(0.0, "patterns")
    with HistoryReader.open(wish.data) as reader:
        patterns = learned_patterns(reader)
        zones = {shard: zone.name for zone in reader.zones() for shard in zone.shards}
    messages = history(spark, wish.topic_filter, str(wish.since_us), path=wish.data, columns=_COLUMNS, lake=wish.lake)
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
    found = beside(spark, {"path": str(wish.data)})
    return Figures(
        wish.title,
        str(wish.data),
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
        reasons(wish.data, wish.since_us),
        found,
    )
