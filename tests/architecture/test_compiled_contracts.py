"""Interpreted classes match compiled contracts by shape: inheriting from one fails, but only where it is compiled."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"
BUILD: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["holdfast"]


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def is_compiled(module: str) -> bool:
    return module in BUILD["compiled-modules"] or module.split(".")[0] in BUILD["pure-packages"]


def base_name(base: ast.expr) -> str:
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def compiled_contracts() -> set[tuple[str, str]]:
    return {
        (f"holdfast.{module}", node.name)
        for module, tree in sources()
        if is_compiled(module)
        for node in classes(tree)
        if any(base_name(base) == "Protocol" for base in node.bases)
    }


def inherited(tree: ast.Module, contracts: set[tuple[str, str]]) -> Iterator[str]:
    imported = {
        name.asname or name.name: (node.module or "", name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    for node in classes(tree):
        if node.bases and imported.get(base_name(node.bases[0])) in contracts:
            yield node.name


def test_no_interpreted_class_begins_with_a_compiled_contract() -> None:
    contracts = compiled_contracts()
    assert ("holdfast.exchange.client", "Link") in contracts
    found = [
        f"{module}.{name}"
        for module, tree in sources()
        if not is_compiled(module)
        for name in inherited(tree, contracts)
    ]
    assert found == []


def test_a_class_that_does_is_found() -> None:
    planted = "from holdfast.durable.log import Replay\nclass Wrong(Replay[bytes]): ...\nclass Right: ...\n"
    assert list(inherited(ast.parse(planted), compiled_contracts())) == ["Wrong"]
