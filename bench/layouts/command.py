"""`bench layouts`: measures, prints a table for each size, and writes `.reports/bench-layouts.json` and `.svg`.

What is measured is the installed `holdfast bench layouts`; here it is repeated, over several sizes, and put on paper.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path

from bench import conditions, document
from bench.checkout import ROOT
from bench.layouts import arrow_scan, plot, table
from bench.layouts.sizes import Results, Size
from bench.reports import write_reports
from holdfast.cli.storage.bench import check_layouts, measure_layouts, print_table
from holdfast.storage.rocks.bench.layout_bench import Spec
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS

DEFAULTS: dict[str, object] = {
    "layouts": ",".join(ALL_LAYOUTS),
    "sizes": "1000000x1000,1000000x100000",
    "payload": 64,
    "disk": None,
}
_QUICK_SIZES = "2000x20,2000x500"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layouts", default=DEFAULTS["layouts"], help=f"only these: {DEFAULTS['layouts']}")
    parser.add_argument(
        "--sizes", default=DEFAULTS["sizes"], help=f"messages x devices, with commas (default: {DEFAULTS['sizes']})"
    )
    parser.add_argument("--payload", type=int, default=DEFAULTS["payload"], help="bytes of a payload (default: 64)")
    parser.add_argument("--disk", type=Path, help="measure on the disk of this folder (default: that of /tmp)")


def main(wanted: argparse.Namespace) -> int:
    names = check_layouts(wanted.layouts)
    sizes = [Size.parse(text) for text in (_QUICK_SIZES if wanted.quick else wanted.sizes).split(",")]
    rounds = 1 if wanted.quick else wanted.rounds
    load_before = os.getloadavg()[0]
    specs = [Spec(name, size.messages, size.devices, wanted.payload, "") for size in sizes for name in names]
    turns = [measure_layouts(specs, wanted.disk, arrow_scan.measure) for _ in range(rounds)]
    results: Results = {size: {} for size in sizes}
    for place, spec in enumerate(specs):
        samples = [turn[place] for turn in turns]
        results[Size(spec.messages, spec.devices)][spec.layout] = {
            key: statistics.median([figures[key] for figures in samples]) for key in samples[0]
        }
    for size, by_layout in results.items():
        print_table(size.title, list(by_layout), list(by_layout.values()), arrow_scan.ROWS)
    notes = [f"Payloads of {wanted.payload} bytes.", *conditions.describe(rounds, load_before)]
    picture = plot.draw(results)
    write_reports(wanted.reports, "layouts", {"sizes": _by_size(results)}, notes, picture)
    if wanted.docs:
        document.renew(ROOT, "layouts", table.markdown(results, notes), picture)
    return 0


def _by_size(results: Results) -> list[dict[str, object]]:
    return [
        {"messages": size.messages, "devices": size.devices, "layouts": by_layout}
        for size, by_layout in results.items()
    ]
