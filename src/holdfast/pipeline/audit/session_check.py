"""What each session is owed, computed again from the log and the stored session alone.

The broker has one rule for it (`durable/queues/log_queue.py`), by which it delivers and the table `queues` counts.
Here the same question is answered by other means: every message of the log against every subscription, as joins of
Spark.

    message is owed  ⇔  durable, not erased, not expired, above what was sent, neither done nor in flight,
                        of a group: above what was given out, or open; and
                        some subscription matches its topic, holds since then, has not ended, has not been replayed up
                        to there, takes messages of this publisher, and both it and the message are above QoS 0
                        (a replay takes QoS 0, too)
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, count_distinct, expr
from pyspark.sql.functions import min as lowest

_MATCHES: Final = "topic string, filter string, mount int"
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
    filters = [(row["filter"], row["mount"]) for row in subscriptions.select("filter", "mount").distinct().collect()]
    matches = rows.select("topic").distinct().mapInArrow(partial(_match, filters), _MATCHES)
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


def _match(filters: Sequence[tuple[str, int]], batches: Iterator[Any]) -> Iterator[Any]:
    """In a worker: topics and the filters that match them."""
    plain: dict[str, list[tuple[str, int]]] = {}
    wild = []
    for one in filters:
        if re.search(r"(^|/)[+#](/|$)", one[0]):
            wild.append((one, filter_regex(one[0])))
        else:
            plain.setdefault(one[0], []).append(one)
    for batch in batches:
        found = []
        for topic in batch.column("topic").to_pylist():
            matching = [*plain.get(topic, ()), *[one for one, regex in wild if regex.fullmatch(topic)]]
            found += [(topic, *one) for one in matching if not _hidden(topic, one[1])]
        for start in range(0, len(found), _BATCH_ROWS):
            names, texts, mounts = zip(*found[start : start + _BATCH_ROWS], strict=True)
            yield pa.RecordBatch.from_pydict(
                {"topic": pa.array(names), "filter": pa.array(texts), "mount": pa.array(mounts, pa.int32())}
            )


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
