"""Blocks by the API: for whom, by whom, until when, audited, and seen in the list of clients."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.console.api.blocks import MAX_BLOCK_S
from holdfast.control.words import (
    CLIENTS,
    FAILED,
    NOT_FOUND,
    Blocked,
    BlockInfo,
    BlockRequest,
    BlockRows,
    BlocksRequest,
    ClientRows,
    Unblocked,
    UnblockRequest,
)
from holdfast.files.block_file import MAX_NAME_BYTES, MAX_REASON
from holdfast.model.clock import ManualClock
from tests.unit.console.live.test_client_table import row
from tests.unit.console.visitor import Place, console_place

NOW_US = 1_800_000_000_000_000
GUEST = BlockInfo("user", "guest", 0, "left", "eva", NOW_US)


def run(work: Callable[[Place], Awaitable[None]], folder: Path) -> None:
    async def inside() -> None:
        clock = ManualClock(wall_us=NOW_US)
        async with console_place(folder, clock=clock) as place:
            place.broker.answers |= {"block": Blocked((GUEST,), 2), "unblock": Unblocked((GUEST,))}
            await work(place)

    asyncio.run(inside())


def said(place: Place, word: str) -> list[object]:
    return [body for asked, body in place.broker.requests if asked == word]


def test_a_block_goes_to_the_broker_with_its_end_and_who_made_it(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        operator = place.as_("operator")
        body = {"seconds": 3600, "reason": "floods"}
        answer = await operator.ask("PUT", "/api/v1/blocks/client/press%2F9", body)
        assert (answer.status, answer.json()["disconnected"]) == (200, 2)
        assert answer.json()["block"]["value"] == "guest"
        until_us = NOW_US + 3_600_000_000
        assert said(place, "block") == [BlockRequest((("client", "press/9"),), until_us, "floods", "operator")]
        answer = await operator.ask("PUT", "/api/v1/blocks/address/2001%3ADB8%3A%3A%2F48", {})
        assert answer.status == 200
        assert said(place, "block")[1] == BlockRequest((("address", "2001:db8::/48"),), 0, "", "operator")
        answer = await operator.ask("DELETE", "/api/v1/blocks/user/guest", {})
        assert (answer.status, answer.json()["reason"]) == (200, "left")
        assert said(place, "unblock") == [UnblockRequest((("user", "guest"),))]
        audit = (await place.as_("admin").get("/api/v1/audit")).json()["items"]
        assert {(one["what"], one["target"]): (one["outcome"], one["detail"]) for one in audit} == {
            ("block", "client press/9"): ("done", body),
            ("block", "address 2001:db8::/48"): ("done", {"seconds": 0, "reason": ""}),
            ("unblock", "user guest"): ("done", {}),
        }

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("topic/a", {}, 404, "client, user, address"),
        ("address/nowhere", {}, 400, "'nowhere' is no address"),
        ("address/10.0.0.7%2F24", {}, 400, "write 10.0.0.0/24"),
        ("client/", {}, 400, "is empty"),
        (f"client/{'x' * (MAX_NAME_BYTES + 1)}", {}, 400, f"at most {MAX_NAME_BYTES}"),
        ("client/a", {"seconds": -1}, 400, "seconds is -1"),
        ("client/a", {"seconds": MAX_BLOCK_S + 1}, 400, str(MAX_BLOCK_S)),
        ("client/a", {"reason": "x" * (MAX_REASON + 1)}, 400, f"at most {MAX_REASON}"),
        ("client/a", {"until": 3}, 400, "until"),
    ],
)
def test_what_is_wrong_is_named_and_not_asked_of_the_broker(
    tmp_path: Path, path: str, body: object, status: int, named: str
) -> None:
    async def work(place: Place) -> None:
        answer = await place.as_("operator").ask("PUT", f"/api/v1/blocks/{path}", body)
        assert (answer.status, named in answer.json()["detail"]) == (status, True), answer.body
        assert said(place, "block") == []
        assert (await place.as_("admin").get("/api/v1/audit")).json()["items"] == []

    run(work, tmp_path)


def test_a_list_comes_in_pages_with_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    items = tuple(BlockInfo("client", f"c{number}", since_us=NOW_US - number // 2) for number in range(5))

    async def work(place: Place) -> None:
        place.broker.answers["blocks"] = BlockRows(items, False, "blocks.jsonl:2: no block", kept=False)
        viewer = place.as_("viewer")
        found: list[str] = []
        cursor = ""
        while True:
            answer = (await viewer.get(f"/api/v1/blocks?limit=2{cursor}")).json()
            assert (answer["total"], answer["problem"], answer["kept"]) == (5, "blocks.jsonl:2: no block", False)
            found += [one["value"] for one in answer["items"]]
            if answer["next_cursor"] is None:
                break
            cursor = f"&cursor={answer['next_cursor']}"
        assert found == [one.value for one in items]
        assert len(said(place, "blocks")) == 1  # of the same second
        assert (await viewer.get("/api/v1/blocks?cursor=x")).status == 400

    run(work, tmp_path)


def test_all_parts_of_a_long_list_are_asked_for(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.broker.answers["blocks"] = BlockRows((GUEST,), True)
        asked = asyncio.create_task(place.as_("viewer").get("/api/v1/blocks"))
        await place.broker.until(lambda: len(said(place, "blocks")) >= 2)
        place.broker.answers["blocks"] = BlockRows((), False)
        assert (await asked).status == 200
        assert said(place, "blocks")[:2] == [BlocksRequest(), BlocksRequest(GUEST)]

    run(work, tmp_path)


async def clients_listed(place: Place) -> dict[str, object]:
    listing = asyncio.create_task(place.as_("viewer").get("/api/v1/clients"))
    await place.broker.until(lambda: place.broker.watched.clients)
    place.broker.push(CLIENTS, ClientRows((row("a"), row("b"), row("c")), last=True))
    return {one["session_id"]: one["blocked"] for one in (await listing).json()["items"]}


def test_blocked_clients_are_marked_in_the_list_and_a_change_is_seen_at_once(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        assert await clients_listed(place) == {"a": False, "b": False, "c": False}
        place.broker.answers["blocks"] = BlockRows((BlockInfo("client", "b"),), False)
        assert (await place.as_("operator").ask("PUT", "/api/v1/blocks/client/b", {})).status == 200
        assert await clients_listed(place) == {"a": False, "b": True, "c": False}

    run(work, tmp_path)


def test_what_an_older_broker_does_not_tell_is_not_known(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.broker.refusals["blocks"] = (FAILED, "no")
        assert await clients_listed(place) == {"a": None, "b": None, "c": None}

    run(work, tmp_path)


def test_a_selection_is_blocked_in_one_request_and_counted_first(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await clients_listed(place)
        operator = place.as_("operator")
        body = {"ids": ["a", "c", "gone"], "reason": "x"}
        wrong = await operator.ask("POST", "/api/v1/clients/block?expect=3", body)
        assert (wrong.status, wrong.json()["found"]) == (409, 2)
        assert said(place, "block") == []
        done = await operator.ask("POST", "/api/v1/clients/block?expect=2", body)
        assert (done.status, done.json()) == (200, {"changed": 2, "missing": []})
        assert said(place, "block") == [BlockRequest((("client", "a"), ("client", "c")), 0, "x", "operator")]
        (entry,) = (await place.as_("admin").get("/api/v1/audit")).json()["items"]
        assert (entry["what"], entry["target"], entry["detail"]["ids"]) == ("block clients", "2 clients", ["a", "c"])
        place.broker.refusals["block"] = ("not_possible", "blocks.jsonl:3: no block")
        refused = await operator.ask("POST", "/api/v1/clients/block?expect=2", body)
        assert (refused.status, refused.json()["detail"]) == (409, "blocks.jsonl:3: no block")

    run(work, tmp_path)


def test_a_block_that_is_not_there_is_404(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.broker.refusals["unblock"] = (NOT_FOUND, "there is no block of user 'x'")
        answer = await place.as_("operator").ask("DELETE", "/api/v1/blocks/user/x", {})
        assert (answer.status, answer.json()["detail"]) == (404, "there is no block of user 'x'")

    run(work, tmp_path)
