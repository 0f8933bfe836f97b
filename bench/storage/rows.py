"""What is measured, under which key, and how it is called. Child processes and the table agree on it."""

from __future__ import annotations

from dataclasses import dataclass

#: Messages of one commit.
COMMITS = (1, 10, 100, 500, 2000)
#: Bytes of a payload.
PAYLOADS = (2, 64, 1024)

PER_SECOND = "/s"
MILLISECONDS = "ms"
MICROSECONDS = "µs"
MEGABYTES = "MB"
BYTES = "B"
COUNT = ""


@dataclass(frozen=True)
class Row:
    key: str
    label: str
    unit: str
    #: What it is meant to be at most, or at least if it is a rate; at ten million messages.
    goal: float | None = None


#: For each number of stored messages.
STORED = (
    Row("fill_rate", "written, in commits of 500, with fsync, and made into segments", PER_SECOND),
    Row("fill_cpu_us", "CPU of it, compaction so far included, per message", MICROSECONDS),
    Row("fill_peak_mb", "memory of the process while it wrote, at most", MEGABYTES),
    Row("open_killed_ms", "open after kill -9", MILLISECONDS, 2000),
    Row("open_killed_engine_ms", "of it RocksDB", MILLISECONDS),
    Row("open_killed_cpu_ms", "CPU of it", MILLISECONDS),
    Row("open_clean_ms", "open after a clean end", MILLISECONDS, 2000),
    Row("open_clean_engine_ms", "of it RocksDB", MILLISECONDS),
    Row("open_clean_cpu_ms", "CPU of it", MILLISECONDS),
    Row("open_mb", "memory of the process when it is open", MEGABYTES),
    Row("first_ms", "first messages of one device", MILLISECONDS, 50),
    Row("replay_rate", "replay of `#` from disk", PER_SECOND, 300_000),
    Row("replay_cpu_us", "CPU of it, per message", MICROSECONDS),
    Row("read_peak_mb", "memory of the process while it read, at most", MEGABYTES),
)

#: For each size of a commit.
COMMIT = (
    Row("alone_rate", "one after the other", PER_SECOND),
    Row("alone_ms", "a commit", MILLISECONDS),
    Row("alone_cpu_us", "CPU per message", MICROSECONDS),
    Row("overlapping_rate", "overlapping", PER_SECOND),
    Row("overlapping_cpu_us", "CPU per message", MICROSECONDS),
)

#: For each size of a payload.
KEPT = (
    Row("record_bytes", "record", BYTES),
    Row("disk_bytes", "on disk", BYTES),
    Row("beyond_bytes", "on disk beyond the payload", BYTES),
)

#: What else happens while segments are made.
MOMENTS = {"resting": "nothing else", "committing": "50,000 messages/s, synced"}

#: For each of them.
SLICES = (
    Row("steps", "slices", COUNT),
    Row("ms", "median", MILLISECONDS),
    Row("p99_ms", "99th of 100", MILLISECONDS),
    Row("longest_ms", "longest", MILLISECONDS),
    Row("longest_cpu_ms", "most CPU", MILLISECONDS),
    Row("reading_ms", "longest read", MILLISECONDS),
)


def keys(sizes: tuple[int, ...]) -> list[str]:
    """Every key of a report, in order, for these numbers of stored messages."""
    return [
        *[f"commit/{size}/{row.key}" for size in COMMITS for row in COMMIT],
        *[f"stored/{size}/{row.key}" for size in sizes for row in STORED],
        *[f"segments/{moment}_{row.key}" for moment in MOMENTS for row in SLICES],
        *[f"payload/{size}/{row.key}" for size in PAYLOADS for row in KEPT],
    ]
