"""The rows of the layout bench: which figures are shown, how they are called, and in which form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.storage.rocks.bench.layout_bench import Figures
from holdfast.storage.rocks.bench.layout_workload import QUERIES

CAPTION: Final = (
    "Processor time of all threads, except where a row says otherwise; encoding counts, making messages does not. Each "
    "layout is written and compacted by one process, then opened and read by another. First: how long a reader waits "
    "for the first message (median of five). Each: processor time per message found, the search included."
)


@dataclass(frozen=True)
class ReportRow:
    """One row: a figure for each layout, or two with a comma between."""

    keys: tuple[str, ...]
    label: str
    units: tuple[str, ...]
    begins_section: bool = False


def rows() -> list[ReportRow]:
    """Every row, in order."""
    return [
        ReportRow(("write_cpu_us",), "write, with compaction: each", ("µs",)),
        ReportRow(("write_loop_us",), "of it on the loop: each", ("µs",)),
        ReportRow(("segments_us",), "segments, in another process: each", ("µs",)),
        ReportRow(("disk_bytes",), "on disk, compacted: each", ("B",)),
        ReportRow(("amplification",), "bytes written / bytes of records", ("x",)),
        ReportRow(("write_peak_mb",), "memory while writing, at most", ("MB",)),
        *[
            ReportRow((f"{key}_first_ms", f"{key}_us"), f"{label}: first, each", ("ms", "µs"), key == "topic")
            for key, label in QUERIES.items()
        ],
        ReportRow(("reader_us", "readers_us"), "`#`, 500 at a time: one reader, four in turn: each", ("µs", "µs")),
        ReportRow(("open_ms",), "open", ("ms",), begins_section=True),
        ReportRow(("open_mb", "read_peak_mb"), "memory when open, and while reading, at most", ("MB", "MB")),
    ]


def cells(row: ReportRow, results: Sequence[Figures]) -> list[str]:
    """A row's figures, layout by layout."""
    return [
        ", ".join([number(figures[key], unit) for key, unit in zip(row.keys, row.units, strict=True)])
        for figures in results
    ]


def number(value: float, unit: str) -> str:
    if value < 0.1 and unit == "ms":
        value, unit = value * 1_000, "µs"
    if value >= 1_000_000 and unit == "µs":
        return f"{value / 1_000_000:.3g} s"
    if value >= 10_000 and unit == "µs":
        return f"{value / 1_000:.3g} ms"
    if value >= 1_000:
        return f"{value:,.0f} {unit}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}".replace(" x", "x")
