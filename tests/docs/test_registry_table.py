"""The tables of what is promised: each row names test files that say so themselves."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture" / "cluster.md"
#: Promises of the registry, of the log, and of delivery.
REGISTRY, LOG, DELIVERY = 18, 22, 10
#: What a test of a cluster has in its text, or in its path.
IN_A_CLUSTER = re.compile(r"open_world|slow_world|cluster_too|ThreeNodes|state_machine|vnodes")


def rows(columns: int) -> list[list[str]]:
    """The rows of promises with so many cells."""
    text = PAGE.read_text(encoding="utf-8")
    found = [line.strip("| ").split(" | ") for line in re.findall(r"^\| [LQR]\d+ \|.*\|$", text, re.MULTILINE)]
    return [cells for cells in found if len(cells) == columns]


def paths_of(cell: str) -> list[Path]:
    return [ROOT / path for path in re.findall(r"`(tests/[^`]+)`", cell)]


def names(path: Path, promise: str) -> bool:
    return re.search(rf"\b{promise}\b", path.read_text(encoding="utf-8")) is not None


def test_every_promise_of_the_registry_is_shown_where_the_table_says() -> None:
    table = rows(3)
    assert [cells[0] for cells in table] == [f"R{number}" for number in range(1, REGISTRY + 1)]
    assert [cells[0] for cells in table if not all(names(path, cells[0]) for path in paths_of(cells[2]))] == []
    assert all(len(paths_of(cells[2])) == 1 for cells in table)


def test_every_promise_of_the_log_and_of_delivery_is_shown_where_the_table_says() -> None:
    table = rows(4)
    wanted = [f"L{number}" for number in range(1, LOG + 1)] + [f"Q{number}" for number in range(1, DELIVERY + 1)]
    assert [cells[0] for cells in table] == wanted
    for promise, _text, on_one_node, in_a_cluster in table:
        shown = [*paths_of(on_one_node), *paths_of(in_a_cluster)]
        assert [path for path in shown if not names(path, promise)] == [], promise
        assert paths_of(on_one_node) or on_one_node == "none", promise


def test_what_is_shown_in_a_cluster_runs_over_one() -> None:
    for promise, _text, _on_one_node, in_a_cluster in rows(4):
        (path,) = paths_of(in_a_cluster)
        assert IN_A_CLUSTER.search(f"{path} {path.read_text(encoding='utf-8')}"), promise
