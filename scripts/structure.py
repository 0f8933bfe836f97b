"""Measure how the sources are cut into folders, modules, classes and functions.

    python scripts/structure.py                     the table of the working folder
    python scripts/structure.py v0.9                the table of a revision
    python scripts/structure.py --before v0.9       a revision and the working folder side by side
    python scripts/structure.py --list same-names   the places behind one row

Nothing is checked out and nothing is imported: a revision is read by `git archive`, sources by their syntax trees.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
if not __package__:
    sys.path.insert(0, str(ROOT))

from scripts.source_tree import Module, SourceTree, read_folder, read_revision  # noqa: E402

FOLDER_MODULES = 20
SMALL_LINES = 60
PARAMETERS = 8
METHODS = 20
NOUNS_IN_ING = frozenset({"ring", "string"})
# The package that picks implementations of contracts; it alone may ask which one it has.
ASSEMBLY = "holdfast.node"

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Found = list[str]
_Node = TypeVar("_Node", bound=ast.AST)


def lines(tree: SourceTree) -> dict[str, int]:
    """Lines of each module, with blank lines, comments and docstrings."""
    return {module.path: module.lines for module in tree.modules.values()}


def code_lines(tree: SourceTree) -> dict[str, int]:
    """Lines of each module that hold code: no blank lines, comments or docstrings."""
    return {module.path: _code_lines(module) for module in tree.modules.values()}


def folder_sizes(tree: SourceTree) -> dict[str, int]:
    """Modules that lie directly in each folder, without `__init__`."""
    sizes: dict[str, int] = defaultdict(int)
    for module in tree.modules.values():
        sizes[module.path.rpartition("/")[0]] += not module.is_package
    return dict(sizes)


def modules(tree: SourceTree) -> _Found:
    """Every module, packages included."""
    return [module.path for module in tree.modules.values()]


def flat_folders(tree: SourceTree) -> _Found:
    """Folders with more than 20 modules."""
    return [f"{folder}: {size} modules" for folder, size in _descending(folder_sizes(tree)) if size > FOLDER_MODULES]


def small_modules(tree: SourceTree) -> _Found:
    """Modules below 60 lines that a single module imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    for found in tree.imports:
        importers[found.imported].add(found.importer)
    small = [module for module in tree.modules.values() if module.lines < SMALL_LINES and not module.is_package]
    return [
        f"{module.path}: {module.lines} lines, imported by {', '.join(importers[module.name])}"
        for module in small
        if len(importers[module.name]) == 1
    ]


def same_names(tree: SourceTree) -> _Found:
    """Names that several public classes have."""
    places: dict[str, _Found] = defaultdict(list)
    for module in tree.modules.values():
        for node in module.syntax.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.path}:{node.lineno}")
    return [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def long_signatures(tree: SourceTree) -> _Found:
    """Functions with more than 8 parameters, not counting `self` and `cls`."""
    found = []
    functions: list[tuple[Module, _Function]] = [*_nodes(tree, ast.FunctionDef), *_nodes(tree, ast.AsyncFunctionDef)]
    for module, node in functions:
        given = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        count = len(given) - (given[:1] in (["self"], ["cls"]))
        if count > PARAMETERS:
            found.append(f"{module.path}:{node.lineno} {node.name}: {count} parameters")
    return sorted(found)


def large_classes(tree: SourceTree) -> _Found:
    """Classes with more than 20 methods."""
    found = []
    for module, node in _nodes(tree, ast.ClassDef):
        methods = sum(isinstance(member, _Function) for member in node.body)
        if methods > METHODS:
            found.append(f"{module.path}:{node.lineno} {node.name}: {methods} methods")
    return found


def contract_checks(tree: SourceTree) -> _Found:
    """Places outside of assembly that ask which implementation of a contract they have."""
    implementations = _implementations(tree)
    found = []
    questions: list[tuple[Module, ast.Call | ast.MatchClass]] = [*_nodes(tree, ast.Call), *_nodes(tree, ast.MatchClass)]
    for module, node in questions:
        if not f"{module.name}.".startswith(f"{ASSEMBLY}."):
            asked = implementations.intersection(_asked_classes(node))
            found += [f"{module.path}:{node.lineno} {name}" for name in asked]
    return sorted(found)


def back_imports(tree: SourceTree) -> _Found:
    """Imports under TYPE_CHECKING that close a circle within a package such as `holdfast.exchange`."""
    imported: dict[str, set[str]] = defaultdict(set)
    for found in tree.imports:
        imported[found.importer].add(found.imported)
    places = []
    for found in tree.imports:
        package = _top_package(found.importer)
        if found.type_only and package == _top_package(found.imported):
            inside = {name for name in tree.modules if _top_package(name) == package}
            if _reaches(found.imported, found.importer, imported, inside):
                places.append(f"{tree.modules[found.importer].path}:{found.line} {found.imported}")
    return places


def gerunds(tree: SourceTree) -> _Found:
    """Modules and packages whose name ends in -ing and is no noun for a thing."""
    return [
        module.path
        for name, module in tree.modules.items()
        if name.endswith("ing") and name.rpartition(".")[2] not in NOUNS_IN_ING
    ]


def tested_modules(tree: SourceTree) -> _Found:
    """Modules with a unit test at the same path: `test_MODULE.py` or `test_MODULE_ASPECT.py`."""
    return [path for path, test in _expected_tests(tree).items() if _is_tested(tree, test)]


def untested_modules(tree: SourceTree) -> _Found:
    """Modules without a unit test at the same path."""
    return [f"{path}: no {test}" for path, test in _expected_tests(tree).items() if not _is_tested(tree, test)]


def stray_tests(tree: SourceTree) -> _Found:
    """Unit tests whose path names no module."""
    expected = [path.removesuffix(".py") for path in _expected_tests(tree).values()]
    tests = [path.removesuffix(".py") for path in tree.tests if path.startswith("tests/unit/")]
    stray = [path for path in tests if not any(path == test or path.startswith(f"{test}_") for test in expected)]
    return [f"{path}.py" for path in stray if path.rpartition("/")[2].startswith("test_")]


@dataclass(frozen=True)
class Row:
    """One line of the table: a sum, the largest of several numbers, or how many places were found."""

    name: str
    title: str
    measure: Callable[[SourceTree], dict[str, int] | _Found]
    total: Callable[[dict[str, int] | _Found], int] = len

    def value(self, tree: SourceTree) -> int:
        """The number for the table."""
        return self.total(self.measure(tree))

    def places(self, tree: SourceTree) -> _Found:
        """What the number consists of."""
        found = self.measure(tree)
        if isinstance(found, dict):
            return [f"{place}: {number}" for place, number in _descending(found)]
        return found


def _sum(found: dict[str, int] | _Found) -> int:
    assert isinstance(found, dict)
    return sum(found.values())


def _largest(found: dict[str, int] | _Found) -> int:
    assert isinstance(found, dict)
    return max(found.values(), default=0)


ROWS = (
    Row("lines", "lines in src", lines, _sum),
    Row("code", "lines of code in src, without blank lines, comments and docstrings", code_lines, _sum),
    Row("modules", "modules", modules),
    Row("folders", "modules in the largest folder", folder_sizes, _largest),
    Row("flat-folders", f"folders with more than {FOLDER_MODULES} modules", flat_folders),
    Row("small-modules", f"modules below {SMALL_LINES} lines with a single importer", small_modules),
    Row("same-names", "names that several public classes have", same_names),
    Row("parameters", f"functions with more than {PARAMETERS} parameters", long_signatures),
    Row("methods", f"classes with more than {METHODS} methods", large_classes),
    Row("isinstance", "isinstance checks on implementations of contracts, outside of assembly", contract_checks),
    Row("back-imports", "back-imports under TYPE_CHECKING within a package", back_imports),
    Row("gerunds", "modules whose name ends in -ing", gerunds),
    Row("tested", "modules with a unit test at the same path", tested_modules),
    Row("untested", "modules without a unit test at the same path", untested_modules),
    Row("stray-tests", "unit tests whose path names no module", stray_tests),
)


def _code_lines(module: Module) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[int] = set()
    for node in ast.walk(module.syntax):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docstrings)


def _nodes(tree: SourceTree, kind: type[_Node]) -> Iterator[tuple[Module, _Node]]:
    for module in tree.modules.values():
        for node in ast.walk(module.syntax):
            if isinstance(node, kind):
                yield module, node


def _implementations(tree: SourceTree) -> set[str]:
    """Names of classes that inherit from a Protocol or an abstract class of the tree."""
    bases = {node.name: set(map(_last_name, node.bases)) for _, node in _nodes(tree, ast.ClassDef)}
    contracts = {name for name, parents in bases.items() if parents & {"Protocol", "ABC"}}
    found: set[str] = set()
    while True:
        more = {name for name, parents in bases.items() if parents & (contracts | found)} - found
        if not more:
            return found
        found |= more


def _asked_classes(node: ast.Call | ast.MatchClass) -> set[str]:
    if isinstance(node, ast.MatchClass):
        return {_last_name(node.cls)}
    if _last_name(node.func) != "isinstance" or len(node.args) != 2:
        return set()
    return {_last_name(part) for part in ast.walk(node.args[1]) if isinstance(part, ast.Name | ast.Attribute)}


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _top_package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _reaches(start: str, goal: str, imported: dict[str, set[str]], inside: set[str]) -> bool:
    seen, ahead = {start}, [start]
    while ahead:
        following = (imported[ahead.pop()] & inside) - seen
        seen |= following
        ahead += following
    return goal in seen


def _expected_tests(tree: SourceTree) -> dict[str, str]:
    """The path of each module, and of the unit test that mirrors it."""
    expected = {}
    for module in tree.modules.values():
        if not module.is_package:
            folder, _, name = module.path.removeprefix("src/holdfast/").rpartition("/")
            expected[module.path] = "/".join(filter(None, ("tests/unit", folder, f"test_{name}")))
    return expected


def _is_tested(tree: SourceTree, test: str) -> bool:
    stem = test.removesuffix(".py")
    return test in tree.tests or any(path.startswith(f"{stem}_") for path in tree.tests)


def _descending(numbers: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def table(columns: dict[str, SourceTree]) -> str:
    """All rows, one column for each tree, aligned."""
    head = ["row", "", *columns]
    body = [[row.name, row.title, *(f"{row.value(tree):,}" for tree in columns.values())] for row in ROWS]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(cells))
        for cells in ([(cell, width) for cell, width in zip(line, widths, strict=True)] for line in (head, *body))
    )


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Print the table, or the places behind one row; the result is the exit status."""
    parser = argparse.ArgumentParser(description="Measure how the sources are cut.")
    parser.add_argument("revision", nargs="?", help="a commit, branch or tag; without one, the working folder")
    parser.add_argument("--before", metavar="REVISION", help="a revision to put beside it")
    parser.add_argument("--list", metavar="ROW", choices=[row.name for row in ROWS], help="list the places of a row")
    chosen = parser.parse_args(arguments)
    now = read_revision(chosen.revision, root) if chosen.revision else read_folder(root)
    columns = {"before": read_revision(chosen.before, root), "now": now} if chosen.before else {"now": now}
    if chosen.list is None:
        print(table(columns))
        return 0
    row = next(row for row in ROWS if row.name == chosen.list)
    print("\n".join(row.places(now)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
