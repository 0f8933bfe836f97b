"""The Python sources of one tree, parsed: of the working folder, or of a revision of git without a checkout.

A module is named as Python imports it (`holdfast.wire.codec`). Imports are resolved to modules of the same tree;
imports of the standard library and of other packages are left out.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("src", "tests")


@dataclass(frozen=True)
class Module:
    """One file below src."""

    name: str
    path: str
    text: str
    syntax: ast.Module

    @property
    def is_package(self) -> bool:
        """Whether this is the `__init__` of a package."""
        return self.path.endswith("/__init__.py")

    @property
    def lines(self) -> int:
        """Lines of the file, with blank lines and comments."""
        return len(self.text.splitlines())


@dataclass(frozen=True)
class Import:
    """One import of one module by another; `type_only` if it stands under TYPE_CHECKING."""

    importer: str
    imported: str
    line: int
    type_only: bool


class SourceTree:
    """Modules of src by name, paths of the tests, and who imports whom."""

    def __init__(self, files: dict[str, str]) -> None:
        self.modules: dict[str, Module] = {}
        for path, text in sorted(files.items()):
            if path.startswith("src/"):
                name = path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                self.modules[name] = Module(name, path, text, ast.parse(text, path))
        self.tests = sorted(path for path in files if path.startswith("tests/"))
        self.imports = [found for module in self.modules.values() for found in self._imports(module)]

    def _imports(self, module: Module) -> Iterator[Import]:
        for node, type_only in _import_statements(module.syntax.body, type_only=False):
            for name in self._imported(node):
                yield Import(module.name, name, node.lineno, type_only)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.modules)
            return
        package = node.module or ""
        inner = [f"{package}.{alias.name}" for alias in node.names]
        yield from (name for name in inner if name in self.modules)
        if package in self.modules and any(name not in self.modules for name in inner):
            yield package


def read_folder(root: Path) -> SourceTree:
    """The tree as it lies in the working folder."""
    paths = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]
    return SourceTree({path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths})


def read_revision(revision: str, root: Path) -> SourceTree:
    """The tree of a commit, branch or tag."""
    command = ["git", "archive", "--format=tar", revision, *FOLDERS]
    archive = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    files = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            content = tar.extractfile(member) if member.name.endswith(".py") else None
            if content is not None:
                files[member.name] = content.read().decode("utf-8")
    return SourceTree(files)


def _import_statements(body: list[ast.stmt], *, type_only: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All import statements, also those inside of functions."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, type_only
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _import_statements(node.body, type_only=True)
            yield from _import_statements(node.orelse, type_only=type_only)
        else:
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _import_statements(getattr(node, field, []), type_only=type_only)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
