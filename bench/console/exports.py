"""Messages of a day as CSV: through the console, and by `holdfast export`, alternating."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from bench.console.nodes import PROGRAM, Node, environment
from bench.console.past_data import PastDay

#: All measures of the devices, or of them one.
_FILTER = "plant/#"


def exports(node: Node, day: PastDay) -> Iterator[tuple[str, float]]:
    """Messages per second of both, in one run each. What a command needs to start counts."""
    began_s = time.perf_counter()
    with node.api() as api:
        data = api.get("/api/v1/history/export", filter=_FILTER, from_=day.from_us, to=day.to_us, format="csv")
    through_s = time.perf_counter() - began_s
    count = data.count(b"\n") - 1
    target = node.data.parent / "export.csv"
    words = ["export", _FILTER, "--since", str(day.from_us), "--until", str(day.to_us), "--data", str(node.data)]
    command = [sys.executable, "-c", PROGRAM, *words, "--format", "csv", "-o", str(target)]
    began_s = time.perf_counter()
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    alone_s = time.perf_counter() - began_s
    if done.returncode:
        raise SystemExit(f"holdfast export failed: {done.stderr.strip()[-500:]}")
    lines = target.read_bytes().count(b"\n") - 1
    target.unlink()
    if not count or count != lines:
        raise SystemExit(f"the console exported {count} messages, the command {lines}")
    yield "export/console_rate", count / through_s
    yield "export/command_rate", count / alone_s
