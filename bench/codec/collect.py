"""Runs the children, alternating between the variants, and takes the medians."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections import defaultdict

from rich.progress import Progress

from bench.codec import rows
from bench.codec.variants import Variant

#: Values by form, then by the key of a row.
Results = dict[str, dict[str, float]]


def collect(variants: tuple[Variant, ...], rounds: int, *, quick: bool, progress: Progress) -> Results:
    """Measure every section in every variant, `rounds` times.

    Variants alternate within a section, and each round starts with another one, so that a machine that
    gets slower for a while slows all of them.
    """
    samples: dict[str, dict[str, list[float]]] = {variant.form: defaultdict(list) for variant in variants}
    task = progress.add_task("", total=rounds * len(rows.SECTIONS) * len(variants))
    for turn in range(rounds):
        shift = turn % len(variants)
        for section in rows.SECTIONS:
            for variant in variants[shift:] + variants[:shift]:
                progress.update(task, description=f"round {turn + 1}: {section}, {variant.form}")
                for key, value in run_child(variant, section, quick=quick):
                    samples[variant.form][key].append(value)
                progress.advance(task)
    sizes = rows.QUICK_SIZES if quick else rows.SIZES
    return {form: with_growth(medians(found), sizes) for form, found in samples.items()}


def run_child(variant: Variant, section: str, *, quick: bool) -> list[tuple[str, float]]:
    """The values that one child reports; what it complains of goes to our own stderr."""
    done = subprocess.run(
        variant.command(section, quick=quick),
        cwd=variant.folder,
        env=variant.environment(),
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(str(line["key"]), float(line["value"])) for line in lines]


def medians(samples: dict[str, list[float]]) -> dict[str, float]:
    return {key: statistics.median(values) for key, values in samples.items()}


def with_growth(values: dict[str, float], sizes: tuple[int, ...]) -> dict[str, float]:
    """Add how much dearer the largest number of subscriptions is than the one before."""
    growth = {
        rows.growth_key(lookup): values[f"{lookup}/{sizes[-1]}"] / values[f"{lookup}/{sizes[-2]}"]
        for lookup in rows.LOOKUPS
    }
    return {**values, **growth}
