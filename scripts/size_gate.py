"""Keep files small and named after what they do.

A file above 500 lines holds more than one idea and fails the gate; one above 300 deserves a second look. A
module called `utils` says nothing about its content, so it attracts everything.

Splitting has a price too. Flat folders with more than 20 modules, modules below 60 lines with a single importer, and
names that several public classes have are reported and do not fail the gate; `scripts/structure.py` measures more.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.source_tree import read_folder
from scripts.structure import flat_folders, same_names, small_modules

FOLDERS = ("src", "tests", "bench", "scripts")
LIMIT_LINES = 500
WARNING_LINES = 300
EMPTY_NAMES = frozenset({"utils", "util", "helpers", "helper", "manager", "base"})


def python_files(root: Path) -> list[Path]:
    """Every Python file that people edit."""
    return sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py"))


def line_count(path: Path) -> int:
    """Lines of a file, blank ones and comments included: they are read as well."""
    return len(path.read_text(encoding="utf-8").splitlines())


def names_nothing(path: Path) -> bool:
    """Whether a module or its folder has a name that fits any content."""
    return not EMPTY_NAMES.isdisjoint(part.removesuffix(".py").strip("_") for part in path.parts)


def remarks(root: Path) -> list[str]:
    """What a reader would trip over, though no file is too long."""
    tree = read_folder(root)
    found = [f"{place}, make sub-folders" for place in flat_folders(tree)]
    found += [f"{place}, merge them?" for place in small_modules(tree)]
    return found + [f"several public classes are called {place}" for place in same_names(tree)]


def main(root: Path = Path()) -> int:
    """Report on all files; the result is the exit status."""
    sizes = {path: line_count(path) for path in python_files(root)}
    problems = [f"{path}: {lines} lines, split it" for path, lines in sizes.items() if lines > LIMIT_LINES]
    problems += [f"{path}: name it after what it does" for path in sizes if names_nothing(path.relative_to(root))]
    for path, lines in sizes.items():
        if WARNING_LINES < lines <= LIMIT_LINES:
            print(f"warning: {path}: {lines} lines, look again")
    for remark in remarks(root):
        print(f"warning: {remark}")
    for problem in problems:
        print(f"error: {problem}")
    print(f"size gate: {len(sizes)} files, median {statistics.median(sizes.values() or [0]):g} lines")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
