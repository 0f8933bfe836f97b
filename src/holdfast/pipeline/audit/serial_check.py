"""Serials, positions and order of a shard: what must be there, and what is.

Only this module knows how serials are given.

dropped by retention │ first …………… dense …………… last │ not durable yet
─────────────────────┤─────────────────────────────┤───────────────▶ serials

A generation that was restored from an archive lies before what retention has dropped meanwhile. So a shard may have
several stretches; each of them is dense. Lanes have their own shards, which are dense as well.

A message is compared with the one before it. So that a shard is not one task, its serials are cut into ranges, and each
range is told the last message of those before it:

    range 0 …… 41, 42 │ range 1: nothing │ range 2: 43, 44 ……
                   └──────────────────────────▶ before 43
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import coalesce, col, concat, count_distinct, expr, lag, last, lit, struct, when
from pyspark.sql.functions import max as highest
from pyspark.sql.functions import min as lowest

from holdfast.durable.log import NO_END
from holdfast.history.reader.view import UNKNOWN, View
from holdfast.pipeline.audit.findings import faults_of
from holdfast.pipeline.source.partitions import rows_per_task, task_count

_EXPECTED: Final = "shard int, stretch int, first bigint, last bigint"
_STRETCHES: Final = "shard int, generation int, stretch int"
SERIALS: Final = "serials"
POSITIONS: Final = "positions"
#: A condition in SQL that a faulty message meets, the check it belongs to, a description, the count and a detail.
_KINDS: Final = (
    (
        "serial > before + 1",
        SERIALS,
        "messages are missing before it",
        "serial - before - 1",
        "concat('serials ', before + 1, ' to ', serial - 1)",
    ),
    ("serial = previous", SERIALS, "its serial is there twice"),
    ("last IS NULL OR serial > last OR serial <= before AND previous IS NULL", SERIALS, "there can be no such serial"),
    (
        "offset <= previous_offset AND serial > previous",
        POSITIONS,
        "its position is not behind that of the message before it",
        "1L",
        "concat('that is at ', previous_offset)",
    ),
)
#: Of a window: everything before.
_FIRST: Final = Window.unboundedPreceding
#: Ranges of serials for each task: chance places them, and evens them out.
_RANGES_OF_A_TASK: Final = 4


class ExpectedSerials(NamedTuple):
    """Serials that a shard has to have: all of [first, last]; a first that is UNKNOWN is the lowest there is."""

    shard: int
    stretch: int
    first: int
    last: int


def expected_serials(view: View) -> list[ExpectedSerials]:
    """What the log has to have: everything behind what retention dropped, up to the durable head."""
    return [one for one, _generations in _stretches(view)]


def number_stretches(spark: SparkSession, rows: DataFrame, view: View) -> DataFrame:
    """The rows of a log, with the number of the stretch that each belongs to by its generation."""
    found = _stretches(view)
    if all(one.stretch == 0 for one, _generations in found):
        return rows.withColumn("stretch", lit(0))
    numbers = [(one.shard, number, one.stretch) for one, generations in found for number in generations]
    known = spark.createDataFrame(numbers, _STRETCHES)
    return rows.join(known.hint("broadcast"), ["shard", "generation"], "left").fillna(0, ["stretch"])


def _stretches(view: View) -> list[tuple[ExpectedSerials, list[int]]]:
    """With the generations of each, by shard and in the order of serials."""
    found: dict[int, list[tuple[ExpectedSerials, list[int]]]] = {}
    for part in sorted(view.parts(0, NO_END, None), key=lambda part: (part.shard, part.generation)):
        own = found.setdefault(part.shard, [])
        before = own[-1][0].last if own else UNKNOWN
        if own and part.after_serial in (UNKNOWN, before):
            own[-1] = (own[-1][0]._replace(last=part.last_serial), [*own[-1][1], part.generation])
        else:
            first = UNKNOWN if part.after_serial == UNKNOWN else part.after_serial + 1
            own.append((ExpectedSerials(part.shard, len(own), first, part.last_serial), [part.generation]))
    return [one for shard in sorted(found) for one in found[shard]]


def serial_faults(spark: SparkSession, rows: DataFrame, expected: Sequence[ExpectedSerials]) -> DataFrame:
    """What is wrong with serials, and with positions along them: faults, and by `of` which of the two.

    `rows`: shard, stretch, serial, offset, topic, client_id. An offset that is not known is not looked at.
    """
    wanted = spark.createDataFrame([tuple(one) for one in expected], _EXPECTED)
    count = sum(max(0, one.last - max(0, one.first) + 1) for one in expected)
    known = (
        _with_previous(rows, count)
        .join(wanted.hint("broadcast"), ["shard", "stretch"], "left")
        # Before the first row comes what was dropped.
        .selectExpr("*", f"coalesce(previous, if(first = {UNKNOWN}, serial, first) - 1) AS before")
    )
    kinds = ", ".join(f"if({condition}, {_said(of, about, *more)}, NULL)" for condition, of, about, *more in _KINDS)
    wrong = known.selectExpr(
        "shard", "serial", "offset", "topic", "client_id", f"array_compact(array({kinds})) AS found"
    )
    inside = wrong.where("size(found) > 0").selectExpr(
        "inline(found)", "shard", "serial", "offset AS position", "topic", "client_id AS client"
    )
    ends = rows.groupBy("shard", "stretch").agg(highest("serial").alias("highest"))
    short = (
        wanted.join(ends, ["shard", "stretch"], "left")
        .selectExpr("shard", "last", f"coalesce(highest, if(first = {UNKNOWN}, last, first - 1)) AS highest")
        .where("highest < last")
        .selectExpr(
            f"'{SERIALS}' AS of",
            "'messages are missing at the end' AS about",
            "last - highest AS count",
            "shard",
            "last AS serial",
            "CAST(NULL AS bigint) AS position",
            "CAST(NULL AS string) AS topic",
            "CAST(NULL AS string) AS client",
            "concat('serials ', highest + 1, ' to ', last) AS detail",
        )
    )
    return inside.unionByName(short)


def _with_previous(rows: DataFrame, count: int) -> DataFrame:
    """The rows with `previous` and `previous_offset`, of the message before each by its serial. About `count` rows."""
    width = max(1, rows_per_task(count) // _RANGES_OF_A_TASK)
    cut = rows.withColumn("range", expr(f"serial div {width}"))
    place = struct("serial", "offset")
    ends = cut.groupBy("shard", "stretch", "range").agg(
        highest(place).alias("end"), highest(when(col("offset").isNotNull(), place)).alias("placed")
    )
    before = Window.partitionBy("shard", "stretch").orderBy("range")
    carried = ends.select(
        "shard",
        "stretch",
        "range",
        lag("end.serial").over(before).alias("carried"),
        last("placed.offset", ignorenulls=True).over(before.rowsBetween(_FIRST, -1)).alias("carried_offset"),
    )
    keys = ["shard", "stretch", "range"]
    tasks = max(rows.sparkSession.sparkContext.defaultParallelism, task_count(count))
    along = Window.partitionBy(*keys).orderBy("serial", "offset")
    inside = last("offset", ignorenulls=True).over(along.rowsBetween(_FIRST, -1))
    return (
        cut.repartition(tasks, *keys)
        .join(carried, keys, "left")
        .withColumn("previous", coalesce(lag("serial").over(along), "carried"))
        .withColumn("previous_offset", coalesce(inside, "carried_offset"))
        .drop("range", "carried", "carried_offset")
    )


def _said(of: str, about: str, count: str = "1L", detail: str = "CAST(NULL AS string)") -> str:
    return f"named_struct('of', '{of}', 'about', '{about}', 'count', {count}, 'detail', {detail})"


# ---- order, as messages lie in the log and as their publishers published them (L1, L14)


def order_faults(rows: DataFrame) -> DataFrame:
    """Positions and serials rise in the order of the log, and no position lies outside of its generation."""
    said = concat(lit("in front of it lies message "), col("before_serial"), lit(" at "), col("before_offset"))
    swapped = rows.where("before_offset >= 0 AND (offset <= before_offset OR serial <= before_serial)")
    outside = rows.where("offset < lo OR offset >= hi")
    return faults_of(swapped, "it lies behind a message that comes later", detail=said).union(
        faults_of(outside, "its position does not belong where it lies")
    )


def publisher_faults(rows: DataFrame, zones: Mapping[int, str], lanes: Collection[int]) -> DataFrame:
    """Messages of a publisher on a topic are in one shard, so that they have an order; numbers they carry increase.

    Lanes are left out: a load does not check the numbers of its rows.
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
