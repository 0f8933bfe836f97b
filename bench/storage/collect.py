"""Runs the children, part by part, and takes the medians of the rounds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress, TaskID

import holdfast
from bench.checkout import ROOT
from bench.storage import rows
from bench.storage.child import Figures
from holdfast.storage.rocks.layouts.paged import SEGMENT_SIZE

#: Values by key (see `rows.keys`).
Results = dict[str, float]


@dataclass(frozen=True)
class Amounts:
    """How much is measured."""

    stored: tuple[int, ...] = (1_000_000,)
    devices: int = 100_000
    #: Messages prepared for commits, and messages weighed for each payload; they are of fewer devices.
    committed: int = 400_000
    weighed: int = 200_000
    few_devices: int = 1_000
    #: Messages of which segments are made, and messages of one segment.
    segmented: int = 1_000_000
    segment: int = SEGMENT_SIZE.messages

    def total(self) -> int:
        """The length of the bar: messages that are written."""
        return (
            self.committed * len(rows.COMMITS)
            + 3 * sum(self.stored)
            + self.weighed * len(rows.PAYLOADS)
            + self.segmented
        )


QUICK = Amounts(
    stored=(2_000,), devices=100, committed=8_000, weighed=2_000, few_devices=50, segmented=4_000, segment=500
)


class Bench:
    """One run over all parts."""

    def __init__(self, amounts: Amounts, disk: Path | None, progress: Progress) -> None:
        self._amounts = amounts
        self._disk = disk
        self._progress = progress
        self._task: TaskID = progress.add_task("", total=amounts.total())

    def round(self) -> Iterator[tuple[str, float]]:
        """Every key with its value."""
        self._progress.reset(self._task)
        amounts = self._amounts
        for size in rows.COMMITS:
            with self._folder() as folder:
                figures = self._child("commits", f"commits of {size}", folder, amounts.committed, size)
            yield from [(f"commit/{size}/{key}", value) for key, value in figures.items()]
        for stored in amounts.stored:
            with self._folder() as folder:
                words = f"{stored:,} messages"
                figures = self._child("fill", f"writing {words}", folder, stored, 0)
                figures |= self._child("open", f"opening {words}", folder, stored, 0)
                figures |= self._child("read", f"reading {words}", folder, stored, 0)
            yield from [(f"stored/{stored}/{key}", value) for key, value in figures.items()]
        with self._folder() as folder:
            figures = self._child("segments", "segments", folder, amounts.segmented, amounts.segment)
        yield from [(f"segments/{key}", value) for key, value in figures.items()]
        for size in rows.PAYLOADS:
            with self._folder() as folder:
                figures = self._child("bytes", f"payloads of {size:,} bytes", folder, amounts.weighed, size)
            yield from [(f"payload/{size}/{key}", value) for key, value in figures.items()]

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=self._disk))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _child(self, part: str, words: str, folder: Path, messages: int, size: int) -> Figures:
        self._progress.update(self._task, description=words)
        few = part in ("commits", "bytes")
        numbers = (messages, self._amounts.few_devices if few else self._amounts.devices, size)
        command = [sys.executable, "-m", "bench.storage.child", part, str(folder), *map(str, numbers)]
        # The child measures the same Holdfast that was imported here.
        environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
        figures: Figures = {}
        told = 0
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                report = json.loads(line)
                if "done" in report:
                    self._progress.advance(self._task, report["done"] - told)
                    told = report["done"]
                figures = report.get("figures", figures)
        expected = -signal.SIGKILL if part == "fill" else 0
        if child.returncode != expected or not figures:
            raise SystemExit(f"measuring {words} ended with status {child.returncode}")
        self._progress.advance(self._task, messages - told)
        return figures


def collect(amounts: Amounts, rounds: int, disk: Path | None, progress: Progress) -> Results:
    """Measure everything `rounds` times."""
    bench = Bench(amounts, disk, progress)
    samples: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for key, value in bench.round():
            samples[key].append(value)
    return {key: statistics.median(values) for key, values in samples.items()}
