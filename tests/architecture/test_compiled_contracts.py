"""What fails only where it is compiled: inheriting from a compiled class, exceptions of two types by one name."""

import ast
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"
BUILD: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["holdfast"]


class ClassFound(NamedTuple):
    name: str
    bases: list[str]
    decorators: list[str]


class ModuleFound(NamedTuple):
    """What is asked about a module; its tree is not kept."""

    name: str
    classes: list[ClassFound]
    #: Module and name there, by the name here.
    imported: dict[str, tuple[str, str]]
    confused: list[str]


def module_found(name: str, tree: ast.Module) -> ModuleFound:
    imported = {
        one.asname or one.name: (node.module or "", one.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    classes = [
        ClassFound(node.name, list(map(base_name, node.bases)), list(map(ast.unparse, node.decorator_list)))
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    return ModuleFound(name, classes, imported, list(confused(tree)))


@cache
def modules() -> list[ModuleFound]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        found.append(module_found(name, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def is_compiled(module: str) -> bool:
    return module in BUILD["compiled-modules"] or module.split(".")[0] in BUILD["pure-packages"]


def base_name(base: ast.expr) -> str:
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)


def compiled_classes(wanted: Callable[[ClassFound], bool]) -> set[tuple[str, str]]:
    return {
        (f"holdfast.{module.name}", one.name)
        for module in modules()
        if is_compiled(module.name)
        for one in module.classes
        if wanted(one)
    }


def compiled_contracts() -> set[tuple[str, str]]:
    return compiled_classes(lambda one: "Protocol" in one.bases)


def inherited(module: ModuleFound, contracts: set[tuple[str, str]]) -> Iterator[str]:
    for one in module.classes:
        if one.bases and module.imported.get(one.bases[0]) in contracts:
            yield one.name


def interpreted_heirs(contracts: set[tuple[str, str]]) -> list[str]:
    """Interpreted classes whose first base is one of these."""
    return [
        f"{module.name}.{name}"
        for module in modules()
        if not is_compiled(module.name)
        for name in inherited(module, contracts)
    ]


def test_no_interpreted_class_begins_with_a_compiled_contract() -> None:
    contracts = compiled_contracts()
    assert ("holdfast.exchange.client", "Link") in contracts
    assert interpreted_heirs(contracts) == []


def test_a_class_that_does_is_found() -> None:
    planted = "from holdfast.durable.log import Replay\nclass Wrong(Replay[bytes]): ...\nclass Right: ...\n"
    assert list(inherited(module_found("planted", ast.parse(planted)), compiled_contracts())) == ["Wrong"]


def open_classes() -> set[tuple[str, str]]:
    """Compiled classes that say that classes which are not compiled inherit from them."""
    return compiled_classes(lambda one: any("allow_interpreted_subclasses=True" in text for text in one.decorators))


def test_a_compiled_class_that_an_interpreted_one_inherits_from_says_so() -> None:
    """Compiled code compares types by identity otherwise: a full disk was no `TransientError` to it."""
    compiled = compiled_classes(lambda one: "Protocol" not in one.bases)
    said = open_classes()
    assert ("holdfast.model.errors", "TransientError") in said
    assert interpreted_heirs(compiled - said) == []


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
    assert [f"{one.name}.{name}" for one in modules() if is_compiled(one.name) for name in one.confused] == []


def test_a_function_that_does_is_found() -> None:
    body = "    try: ...\n    except {}: ...\n    except {}: ...\n"
    planted = [("A as e", "B as e"), ("A as e", "B as f"), ("A as e", "Exception as e"), ("Exception as e", "A as e")]
    trees = [ast.parse("def f():\n" + body.format(*pair)) for pair in planted]
    assert [list(confused(tree)) for tree in trees] == [["f"], [], [], ["f"]]
