"""The vendored scripts of the console are the ones that their table names."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).parents[3] / "src" / "holdfast" / "console" / "static" / "vendor"
ROW = re.compile(r"^\| `(?P<file>[^`]+)` \| .* \| `(?P<sum>[0-9a-f]{64})` \|$", re.MULTILINE)


def listed() -> dict[str, str]:
    return {row["file"]: row["sum"] for row in ROW.finditer((VENDOR / "README.md").read_text("utf-8"))}


def test_each_vendored_file_has_the_listed_sum() -> None:
    sums = {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in listed()}
    assert sums == listed()


def test_no_vendored_file_is_missing_from_the_table() -> None:
    served = {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    assert served == set(listed())
    assert served, "the table was not read"


def test_vendored_modules_import_nothing_but_their_neighbours() -> None:
    imports = [
        (path.name, target)
        for path in VENDOR.glob("*.js")
        for target in re.findall(r"""(?:from|import)\s*\(?["']([^"']+)["']""", path.read_text("utf-8"))
    ]
    assert imports, "no import was found"
    assert [pair for pair in imports if not (VENDOR / pair[1]).is_file()] == []
