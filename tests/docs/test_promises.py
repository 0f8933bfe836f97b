"""The tables of what is promised: each row names test files that say so themselves, and that run over a cluster."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture" / "cluster.md"
DEFECTS = ROOT / "tests" / "simulation" / "defects.py"
#: How many promises there are: of the registry, under attack, of the log, and of delivery.
REGISTRY, ATTACKS, LOG, DELIVERY = 18, 26, 22, 10
#: Attacks on vnodes that not every node holds, which there are none of.
WITHOUT_TEST = {"A22", "A23"}
#: Folders whose tests are of a cluster, or of what only a cluster has.
OF_A_CLUSTER = re.compile(r"/(cluster|state_machine|vnodes|simulation)/")
#: What a test has that runs over both.
OVER_BOTH = re.compile(r"\b(open_world|slow_world|cluster_too|ThreeNodes)\b")


def rows(letters: str) -> list[list[str]]:
    """The cells of promises whose ids begin with one of these letters."""
    text = PAGE.read_text(encoding="utf-8")
    return [line.strip("| ").split(" | ") for line in re.findall(rf"^\| [{letters}]\d+ \|.*\|$", text, re.MULTILINE)]


def ids(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(1, count + 1)]


def paths_of(cell: str) -> list[Path]:
    return [ROOT / path for path in re.findall(r"`(tests/[^`]+)`", cell)]


def names(text: str, promise: str) -> bool:
    return re.search(rf"\b{promise}\b", text) is not None


def naming(path: Path, promise: str) -> list[str]:
    """The sources of the tests in a file that name a promise, their decorators included."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            begins = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
            text = "\n".join(lines[begins - 1 : node.end_lineno])
            if names(text, promise):
                found.append(text)
    return found


def runs_over_a_cluster(path: Path, promise: str) -> bool:
    tests, place = naming(path, promise), str(path.relative_to(ROOT))
    return bool(OF_A_CLUSTER.search(place) and tests) or any(OVER_BOTH.search(test) for test in tests)


def test_every_promise_of_the_registry_is_shown_in_a_cluster() -> None:
    table = rows("R")
    assert [cells[0] for cells in table] == ids("R", REGISTRY)
    for promise, _text, shown in table:
        (path,) = paths_of(shown)
        assert runs_over_a_cluster(path, promise), promise


def test_every_attack_is_named_by_a_test_and_by_its_defect() -> None:
    table = rows("A")
    assert [cells[0] for cells in table] == ids("A", ATTACKS)
    planted = DEFECTS.read_text(encoding="utf-8")
    for attack, _text, shown, is_planted in table:
        assert [runs_over_a_cluster(path, attack) for path in paths_of(shown)] == [True] * (
            attack not in WITHOUT_TEST
        ), attack
        assert names(planted, attack) == (is_planted == "yes"), attack


def test_every_promise_of_the_log_and_of_delivery_is_shown_on_one_node_and_in_a_cluster() -> None:
    table = rows("LQ")
    assert [cells[0] for cells in table] == ids("L", LOG) + ids("Q", DELIVERY)
    for promise, _text, on_one_node, in_a_cluster in table:
        assert [path for path in paths_of(on_one_node) if not names(path.read_text(encoding="utf-8"), promise)] == []
        assert paths_of(on_one_node) or on_one_node == "none", promise
        (path,) = paths_of(in_a_cluster)
        assert runs_over_a_cluster(path, promise), promise
