"""The newest messages of a day as CSV: through the console, and by `holdfast export`, one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

from bench.console import rows
from bench.console.children import environment
from bench.console.nodes import PROGRAM, Node
from bench.console.past_data import PastDay

_FILTER = "plant/#"


def exports(node: Node, day: PastDay, wanted: int) -> Iterator[tuple[str, float]]:
    """Messages per second of both, of about `wanted` messages.

    The command counts from when its modules are loaded, so that its rate is that of a long export.
    """
    share = min(1.0, wanted / day.messages)
    from_us = day.to_us - int((day.to_us - day.from_us) * share)
    began_s = time.perf_counter()
    with node.api() as api:
        blocks = api.blocks("/api/v1/history/export", filter=_FILTER, from_=from_us, to=day.to_us, format="csv")
        # No payload of the day has a line end.
        count = sum(block.count(b"\n") for block in blocks)
    through_s = time.perf_counter() - began_s
    target = node.data.parent / "export.csv"
    words = ["export", _FILTER, "--since", str(from_us), "--until", str(day.to_us), "--data", str(node.data)]
    command = [sys.executable, "-c", PROGRAM, *words, "--format", "csv", "-o", str(target), "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"holdfast export failed: {done.stderr.strip()[-500:]}")
    target.unlink()
    said = json.loads(done.stdout)
    # The first line has the names of the columns.
    if count - 1 != said["messages"] or not said["messages"]:
        raise SystemExit(f"the console exported {count - 1} messages, the command {said['messages']}")
    values = {
        "export/console_rate": said["messages"] / through_s,
        "export/command_rate": said["messages"] / said["seconds"],
    }
    yield from values.items()
    yield from rows.ratios(values, (rows.EXPORT,)).items()
