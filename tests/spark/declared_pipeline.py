"""A declared pipeline on the messages of a broker, and what it has to give, worked out one message after the other."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from holdfast.history.reader.reader import HistoryReader
from tests.spark.publishers import Broker, Sent

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
WINDOW = timedelta(minutes=1)
WATERMARK = timedelta(seconds=20)

_DECLARED = """\
name = "plant"
state = "state"
batch = {batch}

[source]
{where}
topic = "plant/#"

[decode]
format = "json"
columns = [
  {{ name = "hall", level = 2 }},
  {{ name = "at", type = "timestamp", required = true }},
  {{ name = "celsius", type = "double", required = true }},
  {{ name = "seq", type = "bigint" }},
]

[[rule]]
name = "plausible"
where = "celsius BETWEEN -40 AND 125"

[[rule]]
name = "indoors"
where = "hall <> 'yard'"
on_fail = "drop"

[deduplicate]
by = ["client_id", "seq"]
within = "1h"

[[aggregate]]
name = "per_minute"
window = "1m"
by = ["hall"]
time = "at"
watermark = "20s"
measures = {{ readings = "count(*)", warmest = "max(celsius)", total = "sum(celsius)" }}

[[sink]]
kind = "delta"
of = "rows"
path = "lake/rows"

[[sink]]
kind = "delta"
of = "per_minute"
path = "lake/per_minute"

[[sink]]
kind = "publish"
of = "per_minute"
broker = "mqtt://127.0.0.1:{port}"
topic = "stats/{{hall}}"
"""


def declare(folder: Path, broker: Broker, *, batch: int = 1_000, more: str = "") -> Path:
    file = folder / "pipeline.toml"
    [(key, place)] = broker.where.items()
    where = f'{"data" if key == "path" else key} = "{place}"'
    text = _DECLARED.format(batch=batch, where=where, port=broker.process.ports["tcp"])
    file.write_text(text + more, encoding="utf-8")
    return file


def reading(number: int, *, seq: int | None = None, seconds: float | None = None, **changed: Any) -> Sent:
    """Three halls, a reading each two seconds; whole and half degrees, so that sums are exact."""
    at = MIDNIGHT + timedelta(seconds=2 * number if seconds is None else seconds)
    found = {"at": at.isoformat(), "celsius": 20 + number % 13 / 2, "seq": number if seq is None else seq, **changed}
    hall = "yard" if number % 41 == 0 else f"hall{number % 3}"
    return Sent(f"plant/{hall}/temp", json.dumps(found).encode(), client_id=f"device-{number // 25 % 4}")


def some(first: int, count: int) -> list[Sent]:
    """Among them what cannot be, what was sent twice, and what is no JSON."""
    sent: list[Sent] = []
    for number in range(first, first + count):
        sent.append(reading(number, celsius=900.0) if number % 31 == 0 else reading(number))
        if number % 10 == 0:
            sent.append(reading(number))
        if number % 37 == 0:
            who = sent[-1].client_id
            sent.append(Sent("plant/hall0/temp", b"no JSON", client_id=who))
            sent.append(Sent("plant/hall0/temp", b'{"celsius": 20, "seq": 1}', client_id=who))
    return sent


class Expected:
    """What a pipeline has to give for these messages, in their order."""

    def __init__(self, sent: Iterable[Sent]) -> None:
        self.messages = 0
        self.quarantined = {"decode": 0, "plausible": 0}
        self.dropped = 0
        self.duplicates = 0
        self.rows: list[tuple[str, str, int, float, datetime]] = []
        seen = set()
        for message in sent:
            self.messages += 1
            hall = message.topic.split("/")[1]
            try:
                found = json.loads(message.payload)
                at = datetime.fromisoformat(found["at"])
            except (ValueError, KeyError):
                self.quarantined["decode"] += 1
                continue
            if not -40 <= found["celsius"] <= 125:
                self.quarantined["plausible"] += 1
            elif hall == "yard":
                self.dropped += 1
            elif (message.client_id, found["seq"]) in seen:
                self.duplicates += 1
            else:
                seen.add((message.client_id, found["seq"]))
                self.rows.append((message.client_id, hall, found["seq"], found["celsius"], at))

    def windows(self) -> list[tuple[datetime, str, int, float, float]]:
        """Those that are over: no row within the watermark can change them."""
        passed = max(row[4] for row in self.rows) - WATERMARK
        found: dict[tuple[datetime, str], list[float]] = {}
        for _client, hall, _seq, celsius, at in self.rows:
            found.setdefault((MIDNIGHT + (at - MIDNIGHT) // WINDOW * WINDOW, hall), []).append(celsius)
        return sorted(
            (start, hall, len(all_of), max(all_of), sum(all_of))
            for (start, hall), all_of in found.items()
            if start + WINDOW <= passed
        )


class Found:
    """What a pipeline gave."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self._folder = folder
        self._broker = broker

    def table(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = DeltaTable(str(self._folder / path)).to_pyarrow_table().to_pylist()
        return found

    def files(self, path: str) -> set[str]:
        """Names of those in a table, and of those that compaction has replaced."""
        table = DeltaTable(str(self._folder / path))
        there = {*table.file_uris(), *table.vacuum(0, enforce_retention_duration=False)}
        return {Path(file).name for file in there}

    def rows(self) -> list[tuple[str, str, int, float, datetime]]:
        names = ("client_id", "hall", "seq", "celsius", "at")
        return sorted(tuple(row[name] for name in names) for row in self.table("lake/rows"))

    def windows(self) -> list[tuple[datetime, str, int, float, float]]:
        names = ("window_start", "hall", "readings", "warmest", "total")
        return sorted(tuple(row[name] for name in names) for row in self.table("lake/per_minute"))

    def quarantined(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in self.table("state/tables/quarantine"):
            counts[row["rule"]] = counts.get(row["rule"], 0) + 1
        return counts

    def published(self) -> list[tuple[datetime, str, int, float, float]]:
        """From the broker's own log."""
        found = []
        with HistoryReader.open(self._broker.data) as reader:
            for part in reader.parts():
                for batch in reader.batches(part, (b"stats", b"#"), ["topic", "payload"]):
                    for row in batch.to_pylist():
                        told = json.loads(row["payload"])
                        start = datetime.fromisoformat(told["window_start"])
                        found.append((start, told["hall"], told["readings"], told["warmest"], told["total"]))
                        assert row["topic"] == f"stats/{told['hall']}"
        return sorted(found)
