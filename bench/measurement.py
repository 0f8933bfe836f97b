"""How a benchmark measures: everything as often as there are rounds, with a bar for the person who waits."""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable

from rich.progress import Progress

from bench import conditions
from bench.progress import progress_bar


def measure(
    wanted: argparse.Namespace, one_round: Callable[[Progress], Iterable[tuple[str, float]]]
) -> tuple[dict[str, float], list[str]]:
    """The median of each value by its key, and under which conditions that was."""
    rounds = 1 if wanted.quick else wanted.rounds
    load_before = os.getloadavg()[0]
    samples: dict[str, list[float]] = defaultdict(list)
    with progress_bar() as progress:
        for _ in range(rounds):
            for key, value in one_round(progress):
                samples[key].append(value)
    results = {key: statistics.median(values) for key, values in samples.items()}
    return results, conditions.describe(rounds, load_before)
