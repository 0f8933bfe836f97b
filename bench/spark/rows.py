"""What is measured, under which key, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass

PER_SECOND = "/s"
MILLISECONDS = "ms"
MICROSECONDS = "µs"

TWO = "topic,payload"


@dataclass(frozen=True)
class Query:
    """A query over everything that is stored; no columns means all of them, and of a statement those that it uses."""

    key: str
    source: str
    grouped: bool
    columns: str
    label: str


def _queries() -> list[Query]:
    found = []
    for source, words in {"path": "the log, by its files", "flight": "the log, by Arrow Flight"}.items():
        for columns, which in (("", "all columns"), (TWO, "two columns")):
            for grouped in (False, True):
                key = f"{source}_{'two' if columns else 'all'}_{'group' if grouped else 'count'}"
                found.append(Query(key, source, grouped, columns, f"{words}, {which}: {_asked(grouped=grouped)}"))
    for grouped in (False, True):
        key = f"sql_{'group' if grouped else 'count'}"
        found.append(Query(key, "sql", grouped, "", f"the log, by its files, SQL: {_asked(grouped=grouped)}"))
    for source, words in {"parquet": "Parquet files", "json": "JSON files of an MQTT client"}.items():
        for grouped in (False, True):
            key = f"{source}_{'group' if grouped else 'count'}"
            found.append(Query(key, source, grouped, "", f"{words}: {_asked(grouped=grouped)}"))
    return found


def _asked(*, grouped: bool) -> str:
    return "group by topic" if grouped else "count"


QUERIES = tuple(_queries())
QUERIED = {"rate": PER_SECOND, "cpu_us": MICROSECONDS}
#: What an MQTT client in Python spends to write a message as JSON.
WRITTEN = "json/write_cpu_us"
#: From the call that publishes to the row in the hands of a micro-batch.
LATENCY = {"p50_ms": MILLISECONDS, "p99_ms": MILLISECONDS}
MOMENTS = {"alone": "Spark rests", "scanned": "Spark reads all of it, repeatedly"}
#: All messages on one topic.
DEVICE = {"filter": "`topicFilter`", "topic": "`WHERE topic =` of a statement of SQL"}
WAITED = {"p50_ms": MILLISECONDS, "p99_ms": MILLISECONDS, "max_ms": MILLISECONDS}


def keys() -> list[str]:
    """Every key of a report, in order."""
    return [
        *[f"query/{query.key}/{key}" for query in QUERIES for key in QUERIED],
        WRITTEN,
        *[f"device/{key}_ms" for key in DEVICE],
        *[f"latency/{key}" for key in LATENCY],
        *[f"bystander/{moment}/{key}" for moment in MOMENTS for key in WAITED],
    ]
