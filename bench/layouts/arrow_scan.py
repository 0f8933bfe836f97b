"""A process that reads everything a layout stored as Arrow record batches, as the history does, and prints the rates.

python -m bench.layouts.arrow_scan <spec as JSON>
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import holdfast
from bench.checkout import ROOT
from holdfast.history.arrow.page_batches import stored_batches
from holdfast.history.reader.reader import BATCH_ROWS
from holdfast.history.without_pandas import refuse_pandas
from holdfast.storage.rocks.bench.layout_bench import Figures, Spec, generation_of
from holdfast.storage.rocks.bench.layout_report import ReportRow
from holdfast.storage.rocks.bench.layout_workload import MEASURES
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.layouts.segments import SegmentFamilies

#: By the keys of their figures, which are millions of rows a second.
COLUMNS = {"arrow_topics": ("ts", "topic"), "arrow_payloads": ("topic", "payload")}
ROWS = [
    ReportRow(
        tuple(COLUMNS),
        f"Arrow, one processor: {'; '.join([', '.join(names) for names in COLUMNS.values()])}",
        ("M/s", "M/s"),
        begins_section=True,
    )
]
_HI_US = 2**63 - 1


def measure(spec: Spec) -> Figures:
    """In a process of its own, whose Holdfast is that of this one."""
    environment = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parent.parent)}
    command = [sys.executable, "-m", "bench.layouts.arrow_scan", json.dumps(asdict(spec))]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True
    )
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def scan(spec: Spec) -> Figures:
    engine = Engine.open(Path(spec.folder))
    piece = generation_of(SegmentFamilies(engine), spec).by_shard[0]
    family = engine.family(piece.family)
    piece.layout.load(family)
    figures: Figures = {}
    for key, columns in COLUMNS.items():
        for warming_up in (True, False):  # the first batch of a process loads Arrow's own modules
            began_s = time.process_time()
            values = (value for value in piece.layout.read_pages(family, (), 0, _HI_US) if value)
            batches = stored_batches(values, 0, 0, _HI_US, (), columns, BATCH_ROWS)
            rows = sum([batch.num_rows for batch in islice(batches, 1 if warming_up else None)])
            figures[key] = rows / 1e6 / (time.process_time() - began_s)
        if rows != spec.messages // len(MEASURES) * len(MEASURES):
            raise SystemExit(f"{rows} rows were read, and {spec.messages} messages are stored")
    del family
    engine.close()
    return figures


if __name__ == "__main__":
    refuse_pandas()
    print(json.dumps(scan(Spec(**json.loads(sys.argv[1])))), flush=True)
