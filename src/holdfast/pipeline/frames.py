"""History as a DataFrame, by a call instead of options."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from holdfast.pipeline.source import NAME


def history(
    spark: SparkSession,
    topic_filter: str | None = None,
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    *,
    path: str | Path,
    columns: Sequence[str] | None = None,
    zone: str | None = None,
) -> DataFrame:
    """Messages whose topic matches a filter, with since <= ts < until; only the columns that are named, if any are.

    A time is a datetime, or a text as the option `startingTime` takes it.
    """
    chosen = {
        "path": str(path),
        "topicFilter": topic_filter,
        "startingTime": _time(since),
        "endingTime": _time(until),
        "columns": None if columns is None else ",".join(columns),
        "zone": zone,
    }
    return spark.read.format(NAME).options(**{key: text for key, text in chosen.items() if text is not None}).load()


def _time(moment: str | datetime | None) -> str | None:
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
    return moment
