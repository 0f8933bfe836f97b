"""The table of what the registry promises: each row names a test file that says so itself."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture" / "cluster.md"
PROMISES = 18


def test_every_promise_of_the_registry_is_shown_where_the_table_says() -> None:
    rows = re.findall(r"^\| (R\d+) \|.*\| `(tests/[^`]+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _path in rows] == [f"R{number}" for number in range(1, PROMISES + 1)]
    missing = [
        (name, path) for name, path in rows if not re.search(rf"\b{name}\b", (ROOT / path).read_text(encoding="utf-8"))
    ]
    assert missing == []
