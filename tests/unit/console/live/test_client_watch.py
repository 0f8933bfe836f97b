"""The list of clients while somebody looks at it."""

import asyncio
from pathlib import Path
from typing import Any

from holdfast.console.live.client_table import ClientQuery
from holdfast.console.live.client_watch import ClientWatch
from holdfast.console.past.history_link import HistoryLink
from holdfast.control.words import ClientChanges, ClientRows
from holdfast.model.clock import ManualClock
from holdfast.model.time import SECOND_US
from tests.unit.console.fake_history import fake_history
from tests.unit.console.live.test_client_table import row


def test_the_broker_is_asked_from_the_first_look_until_a_minute_after_the_last() -> None:
    async def work() -> None:
        clock = ManualClock()
        wanted: list[bool] = []
        watch = ClientWatch(wanted.append, HistoryLink(None), clock)
        await watch.page(ClientQuery(), is_connected=False)
        for _second in range(60):
            clock.advance(SECOND_US)
            watch.tick(is_fresh=True)
        assert wanted == [True]
        clock.advance(SECOND_US)
        watch.tick(is_fresh=True)
        assert wanted == [True, False]
        await watch.close()

    asyncio.run(work())


def test_without_a_broker_the_last_list_is_shown_with_its_time() -> None:
    async def work() -> None:
        clock = ManualClock()
        watch = ClientWatch(lambda _wanted: None, HistoryLink(None), clock)
        watch.begin()
        watch.take_rows(ClientRows((row("a"), row("b")), last=True))
        watch.take_changes(ClientChanges((row("c"),), ("a",)))
        seen_us = clock.wall_us()
        clock.advance(30 * SECOND_US)
        watch.tick(is_fresh=False)
        page = await watch.page(ClientQuery(), is_connected=False)
        assert [shown["session_id"] for shown in page["items"]] == ["b", "c"]
        assert page["as_of_us"] == seen_us
        await watch.close()

    asyncio.run(work())


def test_a_list_that_is_not_complete_says_so() -> None:
    async def work() -> None:
        watch = ClientWatch(lambda _wanted: None, HistoryLink(None), ManualClock())
        page = await watch.page(ClientQuery(), is_connected=False)
        assert (page["complete"], page["as_of_us"]) == (False, None)
        await watch.close()

    asyncio.run(work())


def test_offline_sessions_are_read_again_after_ten_seconds(tmp_path: Path) -> None:
    async def work() -> None:
        async with fake_history(tmp_path) as history:
            clock = ManualClock()
            watch = ClientWatch(lambda _wanted: None, HistoryLink(history.find), clock)
            history.answers["/sessions"] = {"sessions": [{"session_id": "a"}], "next_cursor": None}

            async def names() -> list[Any]:
                page = await watch.page(ClientQuery(state="offline"), is_connected=False)
                return [shown["session_id"] for shown in page["items"]]

            assert await names() == ["a"]
            history.answers["/sessions"] = {"sessions": [], "next_cursor": None}
            assert await names() == ["a"]
            clock.advance(11 * SECOND_US)
            await names()
            assert watch._refreshing is not None
            await watch._refreshing
            assert await names() == []
            await watch.close()

    asyncio.run(work())
