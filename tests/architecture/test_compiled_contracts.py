"""What fails only where it is compiled: inheriting from a compiled class, exceptions of two types by one name."""

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


def open_classes() -> set[tuple[str, str]]:
    """Compiled classes that say that classes which are not compiled inherit from them."""
    return {
        (f"holdfast.{module}", node.name)
        for module, tree in sources()
        if is_compiled(module)
        for node in classes(tree)
        if any("allow_interpreted_subclasses=True" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


def test_a_compiled_class_that_an_interpreted_one_inherits_from_says_so() -> None:
    """Compiled code compares types by identity otherwise: a full disk was no `TransientError` to it."""
    compiled = {
        (f"holdfast.{module}", node.name)
        for module, tree in sources()
        if is_compiled(module)
        for node in classes(tree)
        if not any(base_name(base) == "Protocol" for base in node.bases)
    }
    said = open_classes()
    assert ("holdfast.model.errors", "TransientError") in said
    found = [
        f"{module}.{name}"
        for module, tree in sources()
        if not is_compiled(module)
        for name in inherited(tree, compiled - said)
    ]
    assert found == []


def handlers(function: ast.AST) -> Iterator[ast.ExceptHandler]:
    """The except clauses of a function, in their order, without those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from handlers(node)


def confused(tree: ast.Module) -> Iterator[str]:
    """Functions that catch exceptions of several types by one name. A variable has the type of the last one then, and
    any other exception becomes a TypeError; all are of the type `Exception`."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            types: dict[str, list[str]] = {}
            for handler in handlers(function):
                assert handler.name is not None
                types.setdefault(handler.name, []).append(ast.unparse(handler.type) if handler.type else "")
            if any(len(set(found)) > 1 and found[-1] != "Exception" for found in types.values()):
                yield function.name


def test_no_compiled_function_catches_exceptions_of_two_types_by_one_name() -> None:
    assert [f"{module}.{name}" for module, tree in sources() if is_compiled(module) for name in confused(tree)] == []


def test_a_function_that_does_is_found() -> None:
    body = "    try: ...\n    except {}: ...\n    except {}: ...\n"
    planted = [("A as e", "B as e"), ("A as e", "B as f"), ("A as e", "Exception as e"), ("Exception as e", "A as e")]
    trees = [ast.parse("def f():\n" + body.format(*pair)) for pair in planted]
    assert [list(confused(tree)) for tree in trees] == [["f"], [], [], ["f"]]
