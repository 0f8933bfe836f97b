"""Which files of tests a stage of CI reads: those that may hold a test for its `-m`, by what their text says.

Each process of each stage would read all 700 files and what they import, for the few that it needs. Rules:

1. A test has a mark of `STAGE_MARKS` only if `mark.NAME` stands in its file, in a conftest.py above it, or in a module
   of `tests` that one of them names. It has every such mark that `pytestmark` of its file gives to all tests.
2. A file is left out only if no choice of marks that the first rule allows fits the expression of `-m`.
3. Every test that is collected is held against the first rule, and a breach ends the run. A mark that is given in
   another way is found by the stage for tests without it, so that no test is missed by all stages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from _pytest.mark.expression import Expression

#: The marks by which the Makefile divides tests into stages.
STAGE_MARKS: Final = frozenset({"slow", "spark", "browser", "seeds", "compiled"})
ROOT: Final = Path(__file__).resolve().parent.parent

_MARK: Final = re.compile(r"\bmark\.([a-z_]+)")
_OF_ALL_TESTS: Final = re.compile(r"^pytestmark = (?:\[\n.*?^\]|[^\n]*)", re.MULTILINE | re.DOTALL)
_MODULE: Final = re.compile(r"\btests(?:\.\w+)+")
_CALL: Final = re.compile(r"\w\(")


class Marks(NamedTuple):
    """Of a file: those that all of its tests have, and those that any of them may have."""

    certain: frozenset[str]
    possible: frozenset[str]

    def may_fit(self, expression: str) -> bool:
        """Whether a test of the file may be wanted; True for an expression that is about anything else."""
        try:
            wanted = Expression.compile(expression)
        except SyntaxError:
            return True
        if not wanted.idents() <= STAGE_MARKS or _CALL.search(expression):
            return True
        unsure = sorted(self.possible - self.certain)
        choices = (self.certain.union(some) for count in range(len(unsure) + 1) for some in combinations(unsure, count))
        return any(_evaluate(wanted, marks) for marks in choices)

    def breach(self, found: Iterable[str]) -> str | None:
        """How the marks of a test break the first rule."""
        marks = STAGE_MARKS.intersection(found)
        if unnamed := marks - self.possible:
            return f"has the mark {', '.join(sorted(unnamed))}, which its file does not name"
        if missing := self.certain - marks:
            return f"lacks the mark {', '.join(sorted(missing))}, which its file gives to all tests"
        return None


def _evaluate(wanted: Expression, marks: frozenset[str]) -> bool:
    def has(name: str, /, **_given: str | int | bool | None) -> bool:
        return name in marks

    return wanted.evaluate(has)


def marks_of(file: Path) -> Marks:
    """What the text of a file of tests says."""
    file = file.resolve()
    text = file.read_text(encoding="utf-8")
    certain = {name for found in _OF_ALL_TESTS.findall(text) for name in _MARK.findall(found)}
    above = [folder / "conftest.py" for folder in file.parents if folder.is_relative_to(ROOT / "tests")]
    modules = {file, *(conftest for conftest in above if conftest.exists())}
    waiting = list(modules)
    while waiting:
        new = _named_modules(waiting.pop()) - modules
        modules |= new
        waiting += new
    possible = certain.union(*map(_named_marks, modules))
    return Marks(STAGE_MARKS & certain, STAGE_MARKS & possible)


@cache
def _named_marks(file: Path) -> frozenset[str]:
    return frozenset(_MARK.findall(file.read_text(encoding="utf-8")))


@cache
def _named_modules(file: Path) -> frozenset[Path]:
    """The modules of `tests` that a file imports, or may import."""
    names = _MODULE.findall(file.read_text(encoding="utf-8"))
    return frozenset(path for name in names if (path := ROOT.joinpath(*name.split(".")).with_suffix(".py")).exists())


class StageFiles:
    """The plugin that does it."""

    def __init__(self) -> None:
        self._marks: Final[dict[Path, Marks]] = {}

    def _of(self, file: Path) -> Marks:
        if file not in self._marks:
            self._marks[file] = marks_of(file)
        return self._marks[file]

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """True for a file without a test that is wanted; None leaves it to others."""
        expression = config.option.markexpr
        if not expression or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
            return None
        return None if self._of(collection_path).may_fit(expression) else True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Before tests are deselected, and after the conftest.py of a folder has marked them."""
        for item in items:
            problem = self._of(item.path).breach(mark.name for mark in item.iter_markers())
            if problem is not None:
                raise pytest.UsageError(f"{item.nodeid} {problem}; see tests/stages.py")
