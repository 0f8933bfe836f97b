"""Which serials there have to be in a shard, and which there are. The one place that knows how serials are given.

dropped by retention │ first …………… dense …………… last │ not durable yet
─────────────────────┤─────────────────────────────┤───────────────▶ serials

A generation that was brought back from an archive lies before what retention has dropped meanwhile. So a shard may have
several stretches; each of them is dense. Lanes have shards of their own, and are as dense as any.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import lag, last, lit
from pyspark.sql.functions import max as highest

from holdfast.durable.log import FOR_EVER
from holdfast.history.view import UNKNOWN, View

_EXPECTED: Final = "shard int, stretch int, first bigint, last bigint"
_STRETCHES: Final = "shard int, generation int, stretch int"
SERIALS: Final = "serials"
POSITIONS: Final = "positions"
#: When something is wrong with a message, in SQL, which of the two that is, in words, how many are concerned, and more.
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


class Expected(NamedTuple):
    """Serials that a shard has to have: all of [first, last]; a first that is UNKNOWN is the lowest there is."""

    shard: int
    stretch: int
    first: int
    last: int


def expected_in(view: View) -> list[Expected]:
    """What the log has to have: everything behind what retention dropped, up to the durable head."""
    return [one for one, _generations in _stretches(view)]


def with_stretches(spark: SparkSession, rows: DataFrame, view: View) -> DataFrame:
    """The rows of a log, with the number of the stretch that each belongs to by its generation."""
    found = _stretches(view)
    if all(one.stretch == 0 for one, _generations in found):
        return rows.withColumn("stretch", lit(0))
    numbers = [(one.shard, number, one.stretch) for one, generations in found for number in generations]
    known = spark.createDataFrame(numbers, _STRETCHES)
    return rows.join(known.hint("broadcast"), ["shard", "generation"], "left").fillna(0, ["stretch"])


def _stretches(view: View) -> list[tuple[Expected, list[int]]]:
    """With the generations of each, by shard and in the order of serials."""
    found: dict[int, list[tuple[Expected, list[int]]]] = {}
    for part in sorted(view.parts(0, FOR_EVER, None), key=lambda part: (part.shard, part.generation)):
        own = found.setdefault(part.shard, [])
        before = own[-1][0].last if own else UNKNOWN
        if own and part.after_serial in (UNKNOWN, before):
            own[-1] = (own[-1][0]._replace(last=part.last_serial), [*own[-1][1], part.generation])
        else:
            first = UNKNOWN if part.after_serial == UNKNOWN else part.after_serial + 1
            own.append((Expected(part.shard, len(own), first, part.last_serial), [part.generation]))
    return [one for shard in sorted(found) for one in found[shard]]


def serial_faults(spark: SparkSession, rows: DataFrame, expected: Sequence[Expected]) -> DataFrame:
    """What is wrong with serials, and with positions along them: faults, and by `of` which of the two.

    `rows`: shard, stretch, serial, offset, topic, client_id. An offset that is not known is not looked at.
    """
    wanted = spark.createDataFrame([tuple(one) for one in expected], _EXPECTED)
    along = Window.partitionBy("shard", "stretch").orderBy("serial", "offset")
    known = (
        rows.join(wanted.hint("broadcast"), ["shard", "stretch"], "left")
        .withColumn("previous", lag("serial").over(along))
        .withColumn("previous_offset", last("offset", ignorenulls=True).over(along.rowsBetween(_FIRST, -1)))
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


def _said(of: str, about: str, count: str = "1L", detail: str = "CAST(NULL AS string)") -> str:
    return f"named_struct('of', '{of}', 'about', '{about}', 'count', {count}, 'detail', {detail})"
