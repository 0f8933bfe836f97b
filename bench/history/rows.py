"""What is measured, under which key, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.history.arrow.message_batches import COLUMNS

PER_SECOND = "/s"
MILLISECONDS = "ms"
MICROSECONDS = "µs"


@dataclass(frozen=True)
class Scan:
    """A read of everything."""

    key: str
    label: str
    columns: tuple[str, ...]
    in_order: bool


SCANS = (
    Scan("all", "all columns", COLUMNS, in_order=True),
    Scan("two", "`topic` and `payload`", ("topic", "payload"), in_order=True),
    Scan("all_unordered", "all columns, not in order", COLUMNS, in_order=False),
    Scan("two_unordered", "`topic` and `payload`, not in order", ("topic", "payload"), in_order=False),
)
#: Of each scan.
SCANNED = {"rate": PER_SECOND, "cpu_us": MICROSECONDS}
#: What a publisher waits for its PUBACK, at 200 messages per second.
MOMENTS = {"alone": "history is not read", "scanned": "another process reads all of it, repeatedly"}
WAITED = {"p50_ms": MILLISECONDS, "p99_ms": MILLISECONDS, "max_ms": MILLISECONDS}


def keys() -> list[str]:
    """Every key of a report, in order."""
    return [
        *[f"scan/{scan.key}/{key}" for scan in SCANS for key in SCANNED],
        *[f"bystander/{moment}/{key}" for moment in MOMENTS for key in WAITED],
    ]
