"""What is measured, under which key, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass

PER_SECOND = "/s"
MEGABYTES = "MB"


@dataclass(frozen=True)
class Job:
    key: str
    label: str
    #: What it is compared with, and at least how many times as fast it should be.
    against: str = ""
    goal: float = 0.0


JOBS = (
    Job("copy", "Spark alone, Parquet to Parquet"),
    Job("archive", "`archive` to Delta", "copy", 0.6),
    Job("load", "`load` of Parquet, read back"),
    Job("relayout", "`relayout`, `learned` to `paged`, read back"),
    Job("audit", "`audit`"),
    Job("learn", "`learn`"),
)
#: Of all rows, and of a tenth of them.
SIZES = ("all", "tenth")
#: The most that each process of a driver had resident.
PROCESSES = {"python": "Python", "java": "Java"}
#: Of the Python of a driver: memory that grows with the rows is a fault. So many times as much, at most.
GROWTH_GOAL = 1.2


def keys() -> list[str]:
    """Every key of a report, in order."""
    return [
        key
        for job in JOBS
        for key in (
            f"job/{job.key}/rate",
            *[f"job/{job.key}/{process}_mb/{size}" for process in PROCESSES for size in SIZES],
        )
    ]
