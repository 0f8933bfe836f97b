"""`bench jobs`: measures the jobs of `holdfast spark`, prints a table, and writes `.reports/bench-jobs.json`."""

from __future__ import annotations

import argparse
from functools import partial

from bench.jobs import plot, rows
from bench.jobs.collect import QUICK, Amounts, Results, one_round
from bench.measurement import measure
from bench.output import present
from bench.storage.table import Block, number

DEFAULTS: dict[str, object] = {"job_rows": Amounts.stored, "job_devices": Amounts.devices}

CAPTION = (
    "Each job is the command of `holdfast spark`, with two tasks at a time (`local[2]`), over a sealed generation. "
    "Rows per second are those between a run over all rows and one over a tenth: what comes before the first row is "
    "left out. Memory is the most that a process of the driver had resident, in a run over a tenth → over all. With "
    "`local[2]` Java does the work of the tasks, too, and takes what its heap may have. Messages have 64 random bytes "
    "of payload, topics of 34 bytes on average."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    for option, name, meaning in (
        ("--rows", "job_rows", "stored messages"),
        ("--job-devices", "job_devices", "devices that published them"),
    ):
        default = DEFAULTS[name]
        parser.add_argument(option, dest=name, type=int, default=default, help=f"{meaning} (default: {default})")


def main(wanted: argparse.Namespace) -> int:
    amounts = QUICK if wanted.quick else Amounts(wanted.job_rows, wanted.job_devices)
    results, conditions = measure(wanted, partial(one_round, amounts))
    stored = f"{amounts.stored:,} stored messages of {amounts.devices:,} devices with four topics each."
    present(wanted, "jobs", results, blocks(results), CAPTION, [stored, *conditions], plot.draw(results))
    return 0


def blocks(results: Results) -> list[Block]:
    headings = ("job", "rows", "goal", *[f"driver's {name}" for name in rows.PROCESSES.values()])
    return [Block(headings, tuple(_line(job, results) for job in rows.JOBS))]


def _line(job: rows.Job, results: Results) -> tuple[str, ...]:
    rate = results[f"job/{job.key}/rate"]
    return (
        job.label,
        number(rate, rows.PER_SECOND),
        _goal(job, rate, results),
        *[_memory(job, process, results) for process in rows.PROCESSES],
    )


def _goal(job: rows.Job, rate: float, results: Results) -> str:
    if not job.against:
        return ""
    ratio = rate / results[f"job/{job.against}/rate"]
    return f"{ratio:.2f}x of {job.against} (≥ {job.goal}x), {'met' if ratio >= job.goal else 'missed'}"


def _memory(job: rows.Job, process: str, results: Results) -> str:
    tenth, all_ = (results[f"job/{job.key}/{process}_mb/{size}"] for size in ("tenth", "all"))
    grows = process == "python" and all_ > tenth * rows.GROWTH_GOAL
    return f"{tenth:,.0f} → {number(all_, rows.MEGABYTES)}{', grows' if grows else ''}"
