"""Changes to several clients: counted first, refused if the count has changed, audited once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.control.words import (
    CLIENTS,
    FAILED,
    ClientRows,
    Kicked,
    KickRequest,
    Nothing,
    SessionRequest,
)
from tests.unit.console.fake_broker import NO_SUCH_CLIENT
from tests.unit.console.live.test_client_table import row
from tests.unit.console.visitor import Answer, Place, console_place


def run(work: Callable[[Place], Awaitable[None]], folder: Path) -> None:
    async def inside() -> None:
        async with console_place(folder) as place:
            place.broker.answers |= {"kick": Kicked("10.0.0.1"), "end_session": Nothing()}
            listing = asyncio.create_task(place.as_("viewer").get("/api/v1/clients"))
            await place.broker.until(lambda: place.broker.watched.clients)
            place.broker.push(CLIENTS, ClientRows((row("a"), row("b"), row("c")), last=True))
            assert (await listing).json()["total"] == 3
            await work(place)

    asyncio.run(inside())


async def change(place: Place, path: str, expect: object, *ids: str, **more: Any) -> Answer:
    return await place.as_("operator").ask("POST", f"/api/v1/{path}?expect={expect}", {"ids": list(ids), **more})


def test_those_that_were_chosen_are_met_and_audited_once(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        answer = await change(place, "clients/kick", 2, "a", "c", "a", reason="maintenance")
        assert (answer.status, answer.json()) == (200, {"changed": 2, "missing": []})
        kicks = [body for word, body in place.broker.requests if word == "kick"]
        assert kicks == [KickRequest("a", "maintenance"), KickRequest("c", "maintenance")]
        answer = await change(place, "sessions/end", 1, "b")
        assert (answer.status, answer.json()["changed"]) == (200, 1)
        assert ("end_session", SessionRequest("b")) in place.broker.requests
        audit = (await place.as_("admin").get("/api/v1/audit")).json()["items"]
        assert [(one["what"], one["target"], one["detail"]["ids"], one["outcome"]) for one in audit[::-1]] == [
            ("kick clients", "2 clients", ["a", "c"], "done"),
            ("end sessions", "1 clients", ["b"], "done"),
        ]

    run(work, tmp_path)


@pytest.mark.parametrize("path", ["clients/kick", "sessions/end"])
def test_another_number_than_expected_changes_nothing(tmp_path: Path, path: str) -> None:
    async def work(place: Place) -> None:
        for expect, ids in ((3, ("a", "b", "gone")), (1, ("a", "b"))):
            answer = await change(place, path, expect, *ids)
            assert (answer.status, answer.json()["found"], answer.json()["parameter"]) == (409, 2, "expect")
        assert not [word for word, _body in place.broker.requests if word in ("kick", "end_session")]
        assert (await place.as_("admin").get("/api/v1/audit")).json()["items"] == []

    run(work, tmp_path)


def test_a_client_that_goes_meanwhile_is_missing_and_no_failure(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.broker.refusals["kick"] = NO_SUCH_CLIENT
        answer = await change(place, "clients/kick", 2, "a", "b")
        assert (answer.status, answer.json()) == (200, {"changed": 0, "missing": ["a", "b"]})

    run(work, tmp_path)


def test_a_failure_says_how_many_were_met_before(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.broker.refusals["kick"] = (FAILED, "it did not work")
        answer = await change(place, "clients/kick", 2, "a", "b")
        assert answer.status >= 500
        assert answer.json()["detail"].startswith("0 of 2 clients were met before: ")

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("expect", "ids", "parameter"),
    [
        ("", ["a"], "expect"),
        (0, ["a"], "expect"),
        (1001, ["a"], "expect"),
        (1, [], "ids"),
        (1, [str(n) for n in range(1001)], "ids"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, expect: object, ids: list[str], parameter: str) -> None:
    async def work(place: Place) -> None:
        answer = await change(place, "clients/kick", expect, *ids)
        assert (answer.status, answer.json()["parameter"]) == (400, parameter)

    run(work, tmp_path)
