"""Print requirements from pyproject.toml, one a line, for `pip install -r`.

    python scripts/requirements.py runtime build

`runtime` stands for the dependencies of the package itself, any other word for a dependency group. Older
releases of pip cannot read dependency groups, and a list kept twice drifts apart, hence this script.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def expand(groups: dict[str, list[Any]], name: str) -> Iterator[str]:
    """The requirements of one group, with the groups it includes."""
    for entry in groups[name]:
        if isinstance(entry, str):
            yield entry
        else:
            yield from expand(groups, entry["include-group"])


def main(names: list[str]) -> int:
    """Print the union of the named groups."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    groups: dict[str, list[Any]] = project["dependency-groups"]
    groups["runtime"] = project["project"]["dependencies"]
    print("\n".join(sorted({line for name in names for line in expand(groups, name)})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
