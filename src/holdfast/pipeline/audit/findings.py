"""Verdicts of an audit, with examples of faults and where each is found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit
from pyspark.sql.functions import sum as total

#: What every check gives: a row for each fault, of `count` messages.
FAULTS: Final = (
    "about string, count bigint, shard int, serial bigint, position bigint, topic string, client string, detail string"
)
_COLUMNS: Final = [column.split()[0] for column in FAULTS.split(", ")]


@dataclass(frozen=True)
class Fault:
    """An example: what is wrong, and where."""

    about: str
    count: int
    shard: int | None
    serial: int | None
    position: int | None
    topic: str | None
    client: str | None
    detail: str | None


@dataclass(frozen=True)
class Check:
    """One check: what holds, what was examined, and what is wrong."""

    name: str
    #: What holds if it is sound.
    claim: str
    #: How many of what were looked at.
    examined: int
    unit: str
    faults: int = 0
    examples: tuple[Fault, ...] = ()
    #: What could not be judged, and why.
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.faults


@dataclass(frozen=True)
class AuditReport:
    checks: Sequence[Check]
    messages: int
    sessions: int
    heads: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return all(check.sound for check in self.checks)

    @property
    def faults(self) -> int:
        return sum(check.faults for check in self.checks)


def faults_of(frame: DataFrame, about: str, count: Any = 1, *, detail: Any = None) -> DataFrame:
    """Rows of a frame as faults: it has `shard`, `serial`, `offset`, `topic` and `client_id`."""
    return frame.select(
        lit(about).alias("about"),
        (lit(count) if isinstance(count, int) else count).cast("bigint").alias("count"),
        col("shard"),
        col("serial"),
        col("offset").alias("position"),
        col("topic"),
        col("client_id").alias("client"),
        (lit(None) if detail is None else detail).cast("string").alias("detail"),
    )


def by_shard(column: str, values: Mapping[int, int], default: int = -1) -> str:
    """A number for each shard, in SQL."""
    cases = " ".join(f"WHEN {shard} THEN {value}L" for shard, value in sorted(values.items()))
    return f"CASE {column} {cases} ELSE {default}L END" if cases else f"{default}L"


def judge(
    name: str, claim: str, faults: DataFrame, examined: int, unit: str, most: int, notes: Sequence[str] = ()
) -> Check:
    """A verdict, with `most` examples at most, the first ones of each shard."""
    kept = faults.select(*_COLUMNS).persist()
    try:
        row = kept.agg(total("count").alias("count")).first()
        count = int(row["count"] or 0) if row else 0
        first = kept.orderBy("shard", "position", "serial", "about", "client").limit(most).collect() if count else []
    finally:
        kept.unpersist()
    return Check(name, claim, examined, unit, count, tuple(Fault(*row) for row in first), tuple(notes))
