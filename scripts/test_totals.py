"""Sum up the JUnit reports of several pytest runs in one closing line.

python scripts/test_totals.py .reports
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def count(report: Path) -> Counter[str]:
    """The results of one run, by outcome."""
    totals: Counter[str] = Counter()
    for suite in ElementTree.parse(report).iter("testsuite"):
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        totals["failed"] += failed
        totals["skipped"] += skipped
        totals["passed"] += int(suite.get("tests", 0)) - failed - skipped
    return totals


def main(folder: Path) -> int:
    """Print the sum over all reports."""
    totals: Counter[str] = Counter()
    for report in sorted(folder.glob("*.xml")):
        totals += count(report)
    print(", ".join(f"{totals[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped")))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
