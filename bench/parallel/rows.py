"""What is measured, under which key, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass

from bench.spark.rows import MICROSECONDS, PER_SECOND, TWO

SINGLE = "single"


@dataclass(frozen=True)
class Subscribers:
    """MQTT clients, each in a separate process."""

    key: str
    label: str
    members: int
    #: Behind it comes the filter of the replay.
    group: str = ""
    kind: str = "mqtt"


@dataclass(frozen=True)
class Table:
    """Spark, so many tasks at a time; no columns means all of them."""

    key: str
    label: str
    cores: int
    source: str
    columns: str

    @property
    def kind(self) -> str:
        return self.source


SUBSCRIBERS = (
    Subscribers(SINGLE, "one subscriber of `#`", 1),
    *[
        Subscribers(f"group_{members}", f"a group of {members} `$share/…/#`", members, f"g{members}")
        for members in (1, 2, 4, 8)
    ],
)
TABLES = tuple(
    Table(
        f"{source}_{which}_{cores}",
        f"Spark, {words}, {which} columns, {cores} core{'' if cores == 1 else 's'}",
        cores,
        source,
        columns,
    )
    for source, words in {"path": "by files", "flight": "by Arrow Flight"}.items()
    for columns, which in ((TWO, "two"), ("", "all"))
    for cores in (1, 2)
)
READERS: tuple[Subscribers | Table, ...] = (*SUBSCRIBERS, *TABLES)
#: Of each reader: messages per second, and processor time of both sides for each message.
MEASURED = {"rate": PER_SECOND, "reader_us": MICROSECONDS, "broker_us": MICROSECONDS}


def keys() -> list[str]:
    """Every key of a report, in order."""
    return [f"{reader.key}/{key}" for reader in READERS for key in MEASURED]
