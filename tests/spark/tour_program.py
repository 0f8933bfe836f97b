"""Runs the code cells of examples/tour.ipynb in order, as plain Python; prints what came of them as a line of JSON.

python tour_program.py NOTEBOOK
"""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

#: Variables of the notebook.
FOUND = ("acknowledged", "streamed", "cold", "in_log", "as_one", "status")


def run_cell(cell: dict[str, Any], variables: dict[str, Any]) -> str:
    """What it printed. A command that fails in it ends the program with what the command complained of."""
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            exec(compile("".join(cell["source"]), cell["id"], "exec"), variables)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"{cell['id']}: {failed}\n{(failed.stderr or b'').decode()}")
    return out.getvalue()


def drawn_panels() -> list[dict[str, Any]]:
    """Titles, labels and points of everything that was drawn."""
    return [
        {
            "title": panel.get_title(),
            "x": panel.get_xlabel(),
            "y": panel.get_ylabel(),
            "points": [np.size(line.get_xdata()) for line in panel.lines],
        }
        for number in plt.get_fignums()
        for panel in plt.figure(number).axes
    ]


def main(notebook: str) -> None:
    cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
    variables: dict[str, Any] = {"__name__": "__main__"}
    printed = {cell["id"]: run_cell(cell, variables) for cell in cells if cell["cell_type"] == "code"}
    folder = variables["data"].parent
    report = {
        "printed": printed,
        "found": {name: variables[name] for name in FOUND},
        "panels": drawn_panels(),
        "folder": str(folder),
        # Before this process ends: then it would end a broker that the last cell forgot.
        "left": ["broker"] * (variables["broker"].poll() is None) + ["folder"] * folder.exists(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
