"""Which slow tests are begun first, and which are handed out one by one."""

from __future__ import annotations

from pathlib import Path

from tests.schedule import LONG, SPREAD, portion

TESTS = Path(__file__).resolve().parents[1]


def test_each_long_file_is_there_and_is_named_once() -> None:
    files = {path.name for path in TESTS.rglob("test_*.py")}

    assert [name for name in LONG if name not in files] == []
    assert len(set(LONG)) == len(LONG)


def test_tests_that_share_a_server_stay_together_and_others_do_not() -> None:
    assert portion("tests/servers/test_redis.py::test_a[b/c]") == "tests/servers/test_redis.py"
    alone = "tests/simulation/test_simulation.py::test_a[wills::1]"
    assert portion(alone) == alone


def test_tests_that_are_handed_out_one_by_one_share_no_server() -> None:
    shared = ('scope="session"', 'scope="package"', "servers.conftest", "cluster.conftest")
    files = [path for folder in SPREAD for path in (TESTS.parent / folder).rglob("*.py")]

    assert len(files) > 40
    assert [path.name for path in files if any(sign in path.read_text(encoding="utf-8") for sign in shared)] == []
