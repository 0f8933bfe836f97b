"""The event stream: jobs move on it without being asked for."""

import asyncio
import json
from pathlib import Path
from typing import Any

from holdfast.console.access.identity import TOKEN, Identity
from holdfast.console.jobs.replay_request import ReplayRequest
from holdfast.console.web.endpoints import Call
from holdfast.console.web.event_stream import stream_events
from tests.unit.console.fake_job import FakeJob
from tests.unit.console.visitor import Place, console_place


def events_of(data: bytes) -> dict[str, Any]:
    found = {}
    for part in data.decode().split("\n\n"):
        name, sign, text = part.partition("\ndata: ")
        if sign:
            found[name.removeprefix("event: ")] = json.loads(text)
    return found


def jobs_of(data: bytes) -> list[tuple[str, str, int]] | None:
    """Filter, state and messages of the jobs of an event; None without one."""
    told = events_of(data).get("jobs")
    return None if told is None else [(job["replay"]["filter"], job["state"], job["messages"]) for job in told["items"]]


def call_of(place: Place) -> Call:
    return Call(place.visitor.console, None, None, "", {}, {}, [])  # type: ignore[arg-type]


def request(topic_filter: str) -> ReplayRequest:
    return ReplayRequest(filter=topic_filter, from_us=1, until_us=9, speed="max", prefix="replayed/")


def test_all_jobs_come_first_and_then_those_that_changed(tmp_path: Path) -> None:
    async def work() -> None:
        fake = FakeJob()
        async with console_place(tmp_path, run_job=fake.run) as place:
            console = place.visitor.console
            console.jobs.start(request("a"), [], "eva", "")
            await fake.began.wait()
            stream = stream_events(call_of(place))
            await anext(stream)  # how soon to come again
            assert jobs_of(await anext(stream)) == [("a", "running", 0)]

            async def next_tick() -> bytes:
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                console.ticker.tick()
                return await waiting

            assert jobs_of(await next_tick()) is None
            second = console.jobs.start(request("b"), [], "eva", "")
            assert jobs_of(await next_tick()) == [("b", "running", 0)]
            task = console.jobs._running[second.id].task
            assert task is not None
            fake.finish()
            await asyncio.wait([task])
            assert jobs_of(await next_tick()) == [("b", "done", 0)]
            other = stream_events(call_of(place))
            await anext(other)
            everything = jobs_of(await anext(other))
            assert everything is not None
            assert [name for name, _state, _messages in everything] == ["b", "a"]

    asyncio.run(work())


def test_a_restricted_token_is_told_of_jobs_of_its_topics_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with console_place(tmp_path, run_job=FakeJob().run) as place:
            for name in ("hr/salaries", "plant/1"):
                place.visitor.console.jobs.start(request(name), [], "eva", "")
            call = call_of(place)
            call.caller = Identity("plant", "viewer", TOKEN, filters=("plant/#",))
            call.identify = lambda: call.caller
            stream = stream_events(call)
            await anext(stream)
            assert jobs_of(await anext(stream)) == [("plant/1", "running", 0)]

            async def next_tick() -> bytes:
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                place.visitor.console.ticker.tick()
                return await waiting

            place.visitor.console.jobs.start(request("hr/+"), [], "eva", "")
            assert b"hr/" not in await next_tick()

    asyncio.run(work())
