"""`bench codec`: measures, prints the table, and writes `.reports/bench.json` and `.reports/bench.svg`.

The parent only collects: everything that is timed runs in child processes (see `child`), because one process
cannot hold the interpreted and the compiled form of the same module.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

from rich.console import Console

from bench import document
from bench.checkout import ROOT
from bench.codec import plot, rows, table
from bench.codec.collect import Results, collect
from bench.codec.variants import Offer, available
from bench.progress import progress_bar

DEFAULTS = {"no_group": False}

#: Wide enough for the table when stdout is no terminal and so has no width.
_FILE_WIDTH = 130


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-group", action="store_true", help="leave out the loops compiled with the modules")


def main(wanted: argparse.Namespace) -> int:
    with progress_bar() as progress:
        building = progress.add_task("preparing the variants", total=None)
        offer = available(with_group=not wanted.no_group)
        progress.remove_task(building)
        rounds = 1 if wanted.quick else wanted.rounds
        results = collect(offer.variants, rounds, quick=wanted.quick, progress=progress)
    found = rows.all_rows(rows.QUICK_SIZES if wanted.quick else rows.SIZES)
    notes = [*offer.missing, table.aim_note(results)]
    console = Console()
    table.print_table(results, found, notes, console if console.is_terminal else Console(width=_FILE_WIDTH))
    write_reports(wanted.reports, offer, results, rounds, quick=wanted.quick)
    if wanted.docs:
        document.renew(ROOT, "codec", table.markdown(results, found, notes), plot.draw(results))
    return 0


def write_reports(folder: Path, offer: Offer, results: Results, rounds: int, *, quick: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = rows.all_rows(rows.QUICK_SIZES if quick else rows.SIZES)
    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rounds": rounds,
        "quick": quick,
        "missing": list(offer.missing),
        "rows": [
            {"key": row.key, "section": row.section, "label": row.label, "unit": row.unit}
            | {form: values.get(row.key) for form, values in results.items()}
            for row in found
        ],
    }
    (folder / "bench.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "bench.svg").write_text(plot.draw(results), encoding="utf-8")
