"""The table of clients."""

from typing import Any

import pytest

from holdfast.console.live.client_table import ClientQuery, ClientTable
from holdfast.console.problems import ProblemError
from holdfast.control.words import ClientRow


def row(name: str, **values: Any) -> ClientRow:
    usual: dict[str, Any] = {
        "session_id": name,
        "client_id": name,
        "user": "",
        "address": "10.0.0.1",
        "port": 5000,
        "listener": "default",
        "transport": "tcp",
        "version": 5,
        "since_us": 1,
        "keep_alive_s": 60,
        "expiry_s": 0,
        "subscriptions": 0,
        "inflight": 0,
        "behind": False,
        "owed": 0,
    }
    return ClientRow(**{**usual, **values})


def table(*rows: ClientRow) -> ClientTable:
    made = ClientTable()
    made.begin()
    made.add(rows)
    made.end()
    return made


def names(made: ClientTable, **query: Any) -> list[str]:
    return [shown["session_id"] for shown in made.page(ClientQuery(**query)).rows]


def test_search_finds_parts_of_id_user_and_address_in_any_case() -> None:
    made = table(row("Press-7"), row("b", user="express"), row("c", address="10.9.9.9"), row("d"))
    assert names(made, text="PRESS") == ["Press-7", "b"]
    assert names(made, text="9.9") == ["c"]
    assert names(made, text="%") == []


def test_states_filter() -> None:
    made = table(row("a", behind=True), row("b"))
    made.begin_offline()
    made.add_offline(
        [{"session_id": "c", "connected": False, "owed_at_most": 9}, {"session_id": "b", "connected": True}]
    )
    made.end_offline()
    assert names(made, state="connected") == ["a", "b"]
    assert names(made, state="behind") == ["a"]
    assert names(made, state="offline") == ["c"]
    assert names(made, sort="-owed") == ["c", "b", "a"]


def test_pages_go_on_behind_the_last_row_whatever_came_meanwhile() -> None:
    made = table(*(row(f"c{number:03}", owed=number % 3) for number in range(50)))
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = made.page(ClientQuery(sort="-owed", limit=7, cursor=cursor))
        seen += [shown["session_id"] for shown in page.rows]
        cursor = page.next_cursor
        made.add([row(f"new-{len(seen)}", owed=5)])
    assert len(seen) == 50
    assert sorted(seen) == sorted(set(seen))


def test_a_new_snapshot_replaces_the_old_one_only_when_it_is_complete() -> None:
    made = table(row("old"))
    made.begin()
    made.add([row("new")])
    assert names(made) == ["new", "old"]
    made.end()
    assert names(made) == ["new"]


def test_an_offline_session_that_connects_stands_there_once() -> None:
    made = table()
    made.begin_offline()
    made.add_offline([{"session_id": "a", "owed_at_most": 5}])
    made.end_offline()
    made.add([row("a")])
    made.begin_offline()
    made.add_offline([{"session_id": "a", "owed_at_most": 5}])
    made.end_offline()
    assert [(shown["session_id"], shown["connected"]) for shown in made.page(ClientQuery()).rows] == [("a", True)]
    made.remove(["a"])
    assert names(made) == []


def test_names_of_any_characters_are_found_and_shown_as_they_are() -> None:
    hostile = ["'; DROP TABLE client; --", "<script>", "\u202etxt", "a\0b", "x" * 65535, "%_", "ﬀ"]
    made = table(*(row(name) for name in hostile))
    for name in hostile:
        assert name in names(made, text=name)


@pytest.mark.parametrize("cursor", ["x", "AAAA", "bnVsbA", "W10", "W3t9LHt9XQ"])
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(ProblemError) as refused:
        table().page(ClientQuery(cursor=cursor))
    assert (refused.value.status, refused.value.parameter) == (400, "cursor")


def test_totals_count_all_and_those_that_match() -> None:
    page = table(row("a1"), row("a2"), row("b")).page(ClientQuery(text="a", limit=1))
    # Every test row has an address without an "a".
    assert (page.total, page.matched, len(page.rows)) == (3, 2, 1)
