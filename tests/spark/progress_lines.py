"""The lines of JSON in which jobs tell their progress."""

import json
from typing import Any

KEYS = {"event", "job", "step", "share", "rows", "bytes", "rows_per_s", "seconds", "seconds_left"}


FIRST = "starting, with Spark 4.3.0"


def check_progress(stderr: str, job: str) -> dict[str, dict[str, Any]]:
    """The last line of each step; all have the same shape, and the job never goes back."""
    told = [json.loads(line) for line in stderr.splitlines() if line.startswith("{")]
    assert told, stderr
    assert {(line["event"], line["job"]) for line in told} == {("progress", job)}
    assert all(line.keys() == KEYS for line in told)
    shares = [line["share"] for line in told if line["share"] is not None]
    assert shares == sorted(shares)
    assert all(0 <= share <= 1 for share in shares)
    assert told[0]["step"] == FIRST
    assert told[-1]["share"] == 1.0
    return {line["step"]: line for line in told}
