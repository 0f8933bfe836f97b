"""The folder `.compiled`: the compiled wheel unpacked, or a note that says why there is none.

    python scripts/compiled_tree.py unpack   fill .compiled from the wheel in .build
    python scripts/compiled_tree.py judge    is the absence of compiled modules acceptable here?

A missing compiler is a fact of life on a laptop. In CI (the variable CI is set) it would quietly switch off
half of the tests, so there it is an error, unless it was asked for: by HOLDFAST_BUILD=pure, or by naming
a compiler in CC. A compiler that works and a build that fails is an error everywhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

WHEELS = Path(".build/wheel")
LOG = Path(".build/wheel.log")
OUTCOME = Path("build/outcome")
TREE = Path(".compiled")
NOTE = TREE / "NOT_COMPILED"


def unpack() -> int:
    """Replace .compiled by what the last build produced."""
    outcome = OUTCOME.read_text(encoding="utf-8").strip()
    shutil.rmtree(TREE, ignore_errors=True)
    TREE.mkdir()
    if outcome == "compiled":
        (wheel,) = WHEELS.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(TREE)
    else:
        NOTE.write_text(outcome + "\n", encoding="utf-8")
    return 0


def acceptable(kind: str, environment: Mapping[str, str]) -> bool:
    """Whether a build that ended in plain Python for this kind of reason may pass."""
    if kind == "requested":
        return True
    if kind == "no-compiler":
        return "CI" not in environment or "CC" in environment
    return False


def judge() -> int:
    """Report plain Python, and fail where it must not happen."""
    if not NOTE.exists():
        return 0
    kind, _, reason = NOTE.read_text(encoding="utf-8").strip().partition(": ")
    if acceptable(kind, os.environ):
        print(f"compiled suites not run: {reason}")
        return 0
    print(f"the pure packages must compile here, but: {reason} (details: {LOG})", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit({"unpack": unpack, "judge": judge}[sys.argv[1]]())
