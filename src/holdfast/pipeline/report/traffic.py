"""The figures of a report about messages, added up by Spark in one pass over history.

    history ──▶ slim: no payloads, only their sizes, kept by Spark ──▶ sums by slice and topic, by publisher, …
                                                                 └───▶ silences, by publisher in the order of time

Topics are filed under learned patterns after they were added up, so each topic is looked at once and not each message.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from holdfast.model.time import EPOCH, datetime_of, us_of
from holdfast.pipeline.report.figures import Lateness, Series, Silence, Sizes, Timeline, Totals, TrafficShare, moment_of
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: Rows of a table of the page.
TOP: Final = 15
#: Kinds of messages that have their own colour.
SERIES: Final = 7
OTHER: Final = "other topics"
#: Slices of the timeline, at most.
_SLICES: Final = 180
_WIDTHS_S: Final = (1, 5, 10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800, 2592000)
#: A silence of so many times the usual is a gap.
_GAP: Final = 10
#: What follows sooner belongs to the same burst.
_BURST_US: Final = 1_000_000
_LATE_S: Final = 60
#: Where payloads in JSON say when they were made: a number since 1970 in s, ms, µs or ns, or ISO 8601.
_TIME_KEYS: Final = ("ts", "time", "timestamp")
_FILED: Final = "pattern string, topic string"


class Traffic:
    """Requires: `close`, which lets go of what Spark keeps."""

    def __init__(self, history: DataFrame, zones: dict[int, str]) -> None:
        self._zones: Final = zones
        self._slim: Final = _slim(history).persist()
        self.totals: Final = self._totals()

    def close(self) -> None:
        self._slim.unpersist()

    def _totals(self) -> Totals:
        qos = [fn.count_if(fn.col("qos") == level) for level in range(3)]
        row = self._slim.agg(
            fn.count("*").alias("messages"),
            fn.coalesce(fn.sum("size"), fn.lit(0)).alias("size_bytes"),
            fn.min("us").alias("first"),
            fn.max("us").alias("last"),
            fn.countDistinct("topic").alias("topics"),
            fn.countDistinct("client_id").alias("publishers"),
            fn.count_if("retain").alias("retain"),
            fn.count_if("expires").alias("expiring"),
            fn.array(*qos).alias("qos"),
        ).first()
        assert row is not None
        times = {name: moment_of(row[name]) for name in ("first", "last")}
        return Totals(**row.asDict() | times | {"qos": tuple(row.qos)})

    def patterns(self, patterns: Sequence[str]) -> tuple[int, list[TrafficShare], Timeline | None]:
        """How many patterns there are, the busiest of them, and their messages in time."""
        filed = self._slim.select("topic").distinct().mapInArrow(_filing(tuple(patterns)), _FILED).persist()
        try:
            rows = (
                self._slim.groupBy("topic", "client_id")
                .agg(fn.count("*").alias("n"), fn.sum("size").alias("size"))
                .join(filed, "topic")
                .groupBy("pattern")
                .agg(
                    fn.sum("n").alias("n"),
                    fn.sum("size").alias("size"),
                    fn.countDistinct("topic").alias("topics"),
                    fn.countDistinct("client_id").alias("publishers"),
                )
                .orderBy(fn.desc("n"), "pattern")
                .limit(TOP)
                .collect()
            )
            shares = [TrafficShare(row.pattern, row.n, row["size"], row.topics, row.publishers) for row in rows]
            count = filed.select("pattern").distinct().count()
            return count, shares, self._timeline(filed, [share.name for share in shares[:SERIES]])
        finally:
            filed.unpersist()

    def _timeline(self, filed: DataFrame, shown: list[str]) -> Timeline | None:
        first, last = self.totals.first, self.totals.last
        if first is None or last is None:
            return None
        width_s = next((width for width in _WIDTHS_S if self.totals.span_s / width <= _SLICES), _WIDTHS_S[-1])
        start_s = int(first.timestamp()) // width_s * width_s
        at = fn.floor((fn.col("us") / 1_000_000 - fn.lit(start_s)) / fn.lit(width_s)).cast("int")
        by_slice = self._slim.groupBy("topic", at.alias("slice")).agg(fn.count("*").alias("n"))
        kind = fn.when(fn.col("pattern").isin(shown), fn.col("pattern")).otherwise(OTHER) if shown else fn.lit(OTHER)
        rows = by_slice.join(filed, "topic").groupBy(kind.alias("kind"), "slice").agg(fn.sum("n").alias("n")).collect()
        counts: dict[str, dict[int, int]] = {name: {} for name in [*shown, OTHER]}
        for row in rows:
            counts[row.kind][row.slice] = row.n
        slices = int(last.timestamp() - start_s) // width_s + 1
        series = [Series(name, found) for name, found in counts.items() if found]
        return Timeline(EPOCH + timedelta(seconds=start_s), width_s, slices, series)

    def heaviest(self, column: str) -> list[TrafficShare]:
        """Of `topic` or `client_id`, by bytes."""
        rows = (
            self._slim.groupBy(column)
            .agg(
                fn.count("*").alias("n"),
                fn.sum("size").alias("size"),
                fn.countDistinct("topic").alias("topics"),
                fn.countDistinct("client_id").alias("publishers"),
                fn.max("us").alias("last"),
            )
            .orderBy(fn.desc("size"), fn.desc("n"), column)
            .limit(TOP)
            .collect()
        )
        return [
            TrafficShare(row[column], row.n, row["size"], row.topics, row.publishers, moment_of(row["last"]))
            for row in rows
        ]

    def zones(self) -> list[TrafficShare]:
        rows = self._slim.groupBy("shard").agg(fn.count("*").alias("n"), fn.sum("size").alias("size")).collect()
        sums: dict[str, tuple[int, int]] = {}
        for row in rows:
            name = self._zones.get(row.shard, f"shard {row.shard}")
            before = sums.get(name, (0, 0))
            sums[name] = (before[0] + row.n, before[1] + row["size"])
        return [TrafficShare(name, *sums[name]) for name in sorted(sums, key=lambda name: -sums[name][0])]

    def sizes(self) -> Sizes | None:
        """Payloads by powers of two."""
        if not self.totals.messages:
            return None
        power = fn.when(fn.col("size") == 0, 0).otherwise(fn.floor(fn.log2("size")) + 1).cast("int")
        rows = self._slim.groupBy(power.alias("bin")).agg(fn.count("*").alias("n")).collect()
        marks = self._slim.agg(
            fn.percentile_approx("size", [0.5, 0.9, 0.99], 10_000).alias("marks"), fn.max("size").alias("most")
        ).first()
        assert marks is not None
        median, p90, p99 = marks.marks
        return Sizes({row.bin: row.n for row in rows}, median, p90, p99, marks.most)

    def hours(self) -> dict[tuple[int, int], int]:
        hour = fn.floor(fn.col("us") / 3_600_000_000)
        rows = (
            self._slim.groupBy(hour.alias("hour"))
            .agg(fn.count("*").alias("n"))
            .orderBy(fn.desc("hour"))
            .limit(24 * 366)
        )
        return {divmod(row.hour, 24): row.n for row in rows.collect()}

    def silences(self) -> list[Silence]:
        """Publishers by their longest silence, compared with what is usual for them."""
        last = self.totals.last
        if last is None:
            return []
        in_order = Window.partitionBy("client_id").orderBy("us")
        steps = self._slim.select("client_id", "us", (fn.col("us") - fn.lag("us").over(in_order)).alias("step"))
        usual = steps.groupBy("client_id").agg(
            fn.count("*").alias("n"),
            # A burst is one occasion, however many messages it has.
            fn.percentile_approx(fn.when(fn.col("step") >= _BURST_US, fn.col("step")), 0.5, 1000).alias("usual"),
            fn.max(fn.struct("step", "us")).alias("longest"),
            fn.max("us").alias("last"),
        )
        usual = usual.withColumn("usual", fn.coalesce("usual", fn.lit(_BURST_US)))
        wide = steps.join(usual.select("client_id", "usual"), "client_id").where(
            fn.col("step") > fn.col("usual") * _GAP
        )
        gaps = wide.groupBy("client_id").agg(fn.count("*").alias("gaps"))
        last_us = us_of(last)
        longest = fn.greatest(fn.coalesce("longest.step", fn.lit(0)), fn.lit(last_us) - fn.col("last"))
        rows = (
            usual.join(gaps, "client_id", "left")
            .where(fn.col("n") > 2)
            .orderBy(fn.desc(longest / fn.col("usual")), "client_id")
            .limit(TOP)
            .collect()
        )
        return [_silence(row, last_us) for row in rows]

    def lateness(self) -> Lateness | None:
        """None if hardly any payload says when it was made."""
        late = self._slim.where("late_us IS NOT NULL")
        seconds = fn.greatest(fn.col("late_us"), fn.lit(0)) / 1_000_000
        row = late.agg(
            fn.count("*").alias("n"),
            fn.percentile_approx(seconds, [0.5, 0.99], 1000).alias("marks"),
            fn.max(seconds).alias("most"),
            fn.count_if(seconds > _LATE_S).alias("late"),
        ).first()
        if row is None or row.n < max(1, self.totals.messages // 100):
            return None
        worst = (
            late.where(seconds > _LATE_S)
            .groupBy("client_id")
            .agg(fn.count("*").alias("n"), fn.max(seconds).alias("most"))
            .orderBy(fn.desc("n"), "client_id")
            .limit(TOP // 3)
            .collect()
        )
        return Lateness(
            row.n, row.marks[0], row.marks[1], row.most, row.late, [(one.client_id, one.n, one.most) for one in worst]
        )


def _slim(history: DataFrame) -> DataFrame:
    return history.select(
        fn.unix_micros("ts").alias("us"),
        "shard",
        "topic",
        "client_id",
        "qos",
        "retain",
        fn.octet_length("payload").cast("long").alias("size"),
        fn.col("expires_at").isNotNull().alias("expires"),
        (fn.unix_micros("ts") - _made_us()).alias("late_us"),
    )


def _made_us() -> Any:
    """When a payload says that it was made; null if it does not, or if that is not of the last year or so."""
    json = fn.when(fn.substring(fn.col("payload"), 1, 1) == fn.lit(b"{"), fn.col("payload").cast("string"))
    found = fn.coalesce(*[fn.get_json_object(json, f"$.{key}") for key in _TIME_KEYS])
    number = found.try_cast("double")
    scaled = (
        fn.when(number < 1e11, number * 1e6)
        .when(number < 1e14, number * 1e3)
        .when(number < 1e17, number)
        .otherwise(number / 1e3)
        .cast("long")
    )
    made = fn.coalesce(scaled, fn.unix_micros(found.try_cast("timestamp")))
    year_us = 366 * 86_400 * 1_000_000
    return fn.when(fn.abs(fn.unix_micros("ts") - made) < year_us, made)


def _filing(patterns: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """In a task: rows of topics, each with the pattern in front that it is filed under; itself if there is none."""

    def file(batches: Iterator[Any]) -> Iterator[Any]:
        by_length: dict[int, list[tuple[str, tuple[bytes, ...]]]] = {}
        for text in patterns:
            levels = tuple(text.encode().split(SEPARATOR))
            by_length.setdefault(len(levels), []).append((text, levels))
        for batch in batches:
            names = []
            for topic in batch.column("topic").to_pylist():
                raw = topic.encode()
                tokens, dollar = raw.split(SEPARATOR), is_dollar(raw)
                known = by_length.get(len(tokens), ())
                fits = (text for text, levels in known if levels_match(levels, tokens, dollar=dollar))
                names.append(next(fits, topic))
            filed = [pa.array(names, pa.string()), batch.column("topic")]
            yield pa.RecordBatch.from_arrays(filed, ["pattern", "topic"])

    return file


def _silence(row: Row, end_us: int) -> Silence:
    step_us, until_us = (row.longest.step or 0), row.longest.us
    quiet_us = end_us - row["last"]
    if quiet_us > step_us:
        step_us, until_us = quiet_us, end_us
    since, until = datetime_of(until_us - step_us), datetime_of(until_us)
    gaps = (row.gaps or 0) + (quiet_us > row.usual * _GAP)
    return Silence(row.client_id, row.n, row.usual / 1e6, step_us / 1e6, since, until, gaps, quiet_us / 1e6)
