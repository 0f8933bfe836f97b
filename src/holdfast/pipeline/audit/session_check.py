"""What each session is owed, computed again from the log and the stored session alone.

The broker has one rule for it (`durable/queues/log_queue.py`), by which it delivers and the table `queues` counts.
Here the same question is answered by other means: every message of the log against every subscription, as joins of
Spark.

    message is owed  ⇔  durable, not erased, not expired, above what was sent, neither done nor in flight,
                        of a group: above what was given out, or open; and
                        some subscription matches its topic, holds since then, has not ended, has not been replayed up
                        to there, takes messages of this publisher, and both it and the message are above QoS 0
                        (a replay takes QoS 0, too)

Topics find their filters by a join, so that no process holds all filters. Filters with literals at the same levels have
one mask; the key of a filter is its mask and its literals, and a topic has one key for each mask that filters have:

    plant/+/temp   ▶ 101 plant/temp  ◀──┬── plant/7/temp      what has one key is compared, level by level
    plant/#        ▶ 100 plant       ◀──┘
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, count_distinct, expr
from pyspark.sql.functions import min as lowest

_MATCHES: Final = "topic string, filter string, mount int"
_KEYED_FILTERS: Final = "filter string, mount int, mask int, key string"
_KEYED_TOPICS: Final = "topic string, key string"
#: Levels that a mask has: what is deeper is compared only.
_MASKED_LEVELS: Final = 8
#: Topics and what they match, before they are passed on.
_BATCH_ROWS: Final = 10_000


def owed_messages(states: DataFrame, rows: DataFrame, now_us: int) -> DataFrame:
    """What each queue is owed of each shard: `queue`, `shard`, `count`; of the oldest `serial`, `offset`, `topic`."""
    subscriptions = states.selectExpr(
        "queue",
        "client",
        "shard",
        "head",
        "coalesce(sent, -1) AS sent",
        "any_qos",
        "given_out",
        "open",
        "inline(wanted)",
    )
    matches = matching_topics(rows.select("topic").distinct(), subscriptions.select("filter", "mount").distinct())
    messages = rows.where(f"NOT erased AND (expires_us IS NULL OR expires_us > {now_us})").select(
        "shard", "serial", "offset", "topic", col("client_id").alias("publisher"), col("qos").alias("message_qos")
    )
    meant = (
        messages.join(matches, "topic")
        .join(subscriptions, ["shard", "filter", "mount"])
        .where("offset > sent AND offset <= head AND offset >= since AND offset < ends AND offset > replayed")
        .where("offset > given_out OR array_contains(open, offset)")
        .where("NOT (no_local AND publisher <=> client)")
        .where("any_qos OR (qos > 0 AND message_qos > 0)")
    )
    done = states.select("queue", "shard", expr("explode(done)").alias("offset"))
    return (
        meant.join(done, ["queue", "shard", "offset"], "left_anti")
        .groupBy("queue", "shard")
        .agg(count_distinct("offset").alias("count"), lowest(expr("struct(offset, serial, topic)")).alias("first"))
        .select("queue", "shard", "count", "first.*")
    )


def session_faults(states: DataFrame, found: DataFrame) -> DataFrame:
    """Queues for which the broker and `owed_messages` differ."""
    both = states.drop("offset").join(found, ["queue", "shard"], "left")
    wrong = both.selectExpr("*", "coalesce(count, 0) AS here", "coalesce(owed, 0) AS there").where(
        "here != there OR (here > 0 AND NOT (oldest <=> offset))"
    )
    return wrong.selectExpr(
        "CASE WHEN here > there THEN 'a session is owed more than its queue holds' "
        "WHEN here < there THEN 'a queue holds more than its session is owed' "
        "ELSE 'the oldest message that a session is owed is another one' END AS about",
        "greatest(abs(here - there), 1) AS count",
        "shard",
        "serial",
        "offset AS position",
        "topic",
        "owner AS client",
        "concat('by the log ', here, ', by its queue ', there, coalesce(concat(', replay of ', replay), '')) AS detail",
    )


# ---- topics and the filters that match them


def matching_topics(topics: DataFrame, filters: DataFrame) -> DataFrame:
    """Rows of `topic`, `filter` and `mount`: what matches. `topics`: topic; `filters`: filter, mount; each once."""
    keyed = filters.mapInArrow(key_filters, _KEYED_FILTERS)
    # 256 at most, whatever the filters are.
    masks = sorted(row["mask"] for row in keyed.select("mask").distinct().collect())
    candidates = topics.mapInArrow(partial(key_topics, masks), _KEYED_TOPICS)
    # A broadcast would have all filters in the driver.
    joined = candidates.join(keyed.hint("merge"), "key").select("topic", "filter", "mount")
    return joined.mapInArrow(compare_topics, _MATCHES)


def key_filters(batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker: filters with their masks and keys."""
    for batch in batches:
        found = [_filter_key(text.split("/")) for text in batch.column("filter").to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("filter"),
                batch.column("mount"),
                pa.array([mask for mask, _key in found], pa.int32()),
                pa.array([key for _mask, key in found], pa.string()),
            ],
            ["filter", "mount", "mask", "key"],
        )


def key_topics(masks: Sequence[int], batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker: topics, each with the keys of the filters that may match it."""
    for batch in batches:
        found = []
        for topic in batch.column("topic").to_pylist():
            levels = topic.split("/")
            found += [(topic, _key(mask, levels)) for mask in masks if mask.bit_length() <= len(levels)]
        for start in range(0, len(found), _BATCH_ROWS):
            names, keys = zip(*found[start : start + _BATCH_ROWS], strict=True)
            yield pa.RecordBatch.from_pydict({"topic": pa.array(names), "key": pa.array(keys)})


def compare_topics(batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker: of topics and filters with one key, those that match."""
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("topic", "filter", "mount")]
        yield batch.filter(pa.array([_matches(*row) for row in zip(*columns, strict=True)], pa.bool_()))


def _filter_key(levels: list[str]) -> tuple[int, str]:
    mask = 0
    for place, level in enumerate(levels[:_MASKED_LEVELS]):
        if level not in ("+", "#"):
            mask |= 1 << place
    return mask, _key(mask, levels)


def _key(mask: int, levels: list[str]) -> str:
    return f"{mask} " + "/".join([level for place, level in enumerate(levels[:_MASKED_LEVELS]) if mask >> place & 1])


def _matches(topic: str, text: str, mount: int) -> bool:
    return filter_regex(text).fullmatch(topic) is not None and not _hidden(topic, mount)


@lru_cache(maxsize=10_000)
def filter_regex(text: str) -> "re.Pattern[str]":
    """A filter as a regular expression: `+` is one level, `#` is the rest, the level above it included."""
    pattern = ""
    for place, level in enumerate(text.split("/")):
        between = "/" if place else ""
        if level == "#":
            pattern += f"(?:{between}.*)?" if place else ".*"
        else:
            pattern += between + ("[^/]*" if level == "+" else re.escape(level))
    # Wildcards at the first level leave out `$`-topics.
    return re.compile(rf"(?!\$){pattern}" if text[:1] in ("+", "#") else pattern, re.DOTALL)


def _hidden(topic: str, mount: int) -> bool:
    """A wildcard behind a mount point leaves out what is a `$`-topic there."""
    return mount > 0 and topic.encode()[mount : mount + 1] == b"$"
