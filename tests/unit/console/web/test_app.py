"""What calls answer: with a broker, without one, with one that hangs, and with history beside it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.console.problems import ProblemError
from holdfast.control.words import (
    BAD_REQUEST,
    CLIENTS,
    ClientDetail,
    ClientRows,
    Hello,
    Kicked,
    LogLevelRequest,
    Nothing,
    Reloaded,
    ReloadedSetting,
    SubscriptionInfo,
    Subscriptions,
    SubscriptionsRequest,
)
from holdfast.model.clock import ManualClock
from holdfast.model.time import SECOND_US
from tests.unit.console.fake_broker import NO_SUCH_CLIENT
from tests.unit.console.fake_history import FakeHistory, fake_history
from tests.unit.console.live.test_client_table import row
from tests.unit.console.stats_frames import BEGIN_S, frame
from tests.unit.console.visitor import Place, Visitor, console_place


def run(work: Callable[[Place], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def inside() -> None:
        async with console_place(folder, **options) as place:
            await work(place)

    asyncio.run(inside())


def run_with_history(work: Callable[[Place, FakeHistory], Awaitable[None]], folder: Path) -> None:
    async def inside() -> None:
        async with fake_history(folder) as history, console_place(folder, history.find) as place:
            await work(place, history)

    asyncio.run(inside())


async def told(place: Place, second: float = 1, **numbers: float) -> None:
    """The console has got a frame."""
    waiting = asyncio.create_task(place.visitor.console.ticker.wait(10))
    await asyncio.sleep(0)
    stats = frame(second)
    place.broker.push_stats(msgspec.structs.replace(stats, numbers={**stats.numbers, **numbers}))
    assert await waiting


def test_stats_and_node_tell_what_the_broker_said_and_how_old_it_is(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await told(place, retained_messages=7)
        viewer = place.as_("viewer")
        stats = (await viewer.get("/api/v1/stats")).json()
        assert stats["numbers"]["retained_messages"] == 7
        assert stats["age_s"] < 5
        node = (await viewer.get("/api/v1/node")).json()
        assert (node["state"], node["version"], node["has_past"]) == ("taking", "1.2.3", False)
        assert (await viewer.get("/healthz")).status == 200
        assert (await viewer.get("/readyz")).status == 200

    run(work, tmp_path)


def test_a_broker_that_hangs_is_shown_as_old_and_not_as_empty(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(place: Place) -> None:
        await told(place, retained_messages=7)
        del place.broker.answers["node"]
        clock.advance(60 * SECOND_US)
        viewer = place.as_("viewer")
        stats = (await viewer.get("/api/v1/stats")).json()
        assert (stats["numbers"]["retained_messages"], stats["age_s"]) == (7, 60.0)
        assert (await viewer.get("/api/v1/node")).json()["state"] == "away"
        for target in ("/healthz", "/readyz"):
            assert (await viewer.get(target)).status == 503
        metrics = (await viewer.get("/metrics")).body.decode()
        assert "\nholdfast_retained_messages 7\n" in metrics
        assert "\nholdfast_frame_age_seconds 60\n" in metrics
        assert "\nholdfast_up 0\n" in metrics

    run(work, tmp_path, clock=clock)


def test_changes_fail_with_503_while_the_broker_is_away(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        place.broker.hello = Hello(99, 99, "newer")
        place.broker.cut()
        await place.broker.until(lambda: place.broker.connections == 2)
        answer = await place.as_("admin").ask("POST", "/api/v1/reload", {})
        assert answer.status == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["retry-after"] == "1"
        audited = (await place.as_("admin").get("/api/v1/audit")).json()["items"][0]
        assert audited["outcome"].startswith("failed: the broker is away")

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("target", "parameter"),
    [
        ("stats?x=1", "x"),
        ("clients?limit=0", "limit"),
        ("clients?limit=1001", "limit"),
        ("clients?limit=ten", "limit"),
        ("clients?limit=%D9%A1", "limit"),
        ("clients?limit=1&limit=2", "limit"),
        ("clients?state=asleep", "state"),
        ("clients?sort=colour", "sort"),
        ("clients?cursor=xyz", "cursor"),
        ("subscriptions", "topic"),
        ("subscriptions?topic=a&under=b", "topic"),
        ("subscriptions?topic=a/%2B", "topic"),
        ("subscriptions?under=a/%23/b", "under"),
        ("subscriptions?under=%24share/g/a", "under"),
        ("series?names=nonsense", "names"),
        ("series?names=connections&from_us=2&to_us=1", "from_us"),
        ("history/messages?filter=%24replay/-1h/a", "filter"),
        ("history/messages?filter=a/%23/b", "filter"),
        ("history/messages?full=yes", "full"),
        ("history/density?buckets=601", "buckets"),
        ("history/compare?a=1", "b"),
        ("history/plot?" + "&".join(["topic=a"] * 9), "topic"),
        ("history/export?format=xls", "format"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_said_with_its_name(tmp_path: Path, target: str, parameter: str) -> None:
    async def work(place: Place) -> None:
        answer = await place.as_("admin").get(f"/api/v1/{target}")
        assert (answer.status, answer.json().get("parameter")) == (400, parameter), answer.body
        assert answer.json()["title"] == "Bad Request"

    run(work, tmp_path)


@pytest.mark.parametrize("query", ["%ff=1", "limit=%ff", "a", "&".join(["q=a"] * 100)])
def test_a_query_that_cannot_be_read_is_refused(tmp_path: Path, query: str) -> None:
    async def work(place: Place) -> None:
        assert (await place.as_("viewer").get(f"/api/v1/clients?{query}")).status == 400

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("body", "status", "parameter"),
    [
        (b'{"reason": 5}', 400, "reason"),
        (b'{"other": 5}', 400, "other"),
        (b"[]", 400, ""),
        (b"{", 400, ""),
        (b"\xff", 400, ""),
        (b"[" * 100_000, 400, ""),
        (b'"' + b"x" * (1 << 20) + b'"', 413, ""),
        (b'{"reason": "' + b"x" * 1001 + b'"}', 400, "reason"),
        (b"", 200, ""),
        (b"{}", 200, ""),
    ],
)
def test_what_is_wrong_with_a_body_is_said(tmp_path: Path, body: bytes, status: int, parameter: str) -> None:
    async def work(place: Place) -> None:
        place.broker.answers["kick"] = Kicked("10.0.0.1")
        answer = await place.as_("operator").ask("POST", "/api/v1/clients/a/kick", raw=body)
        assert (answer.status, answer.json().get("parameter", "")) == (status, parameter), answer.body

    run(work, tmp_path)


def test_unknown_calls_and_methods_are_refused(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        admin = place.as_("admin")
        assert (await admin.get("/api/v1/nothing")).status == 404
        assert (await admin.get("/api/v1/clients/%ff")).status == 404
        answer = await admin.ask("POST", "/api/v1/stats", {})
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
        assert (await admin.ask("POST", "/metrics")).status == 405

    run(work, tmp_path)


def test_headers_that_are_too_long_get_431(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        assert (await place.visitor.get("/healthz", x="a" * 17_000)).status == 431

    run(work, tmp_path)


def test_clients_are_listed_from_the_snapshot_and_found_by_search(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        asked = asyncio.create_task(place.as_("viewer").get("/api/v1/clients?q=press&sort=-owed"))
        await place.broker.until(lambda: place.broker.watched.clients)
        rows = (row("press-1", owed=1), row("press-2", owed=2), row("other"))
        place.broker.push(CLIENTS, ClientRows(rows, last=True))
        answer = (await asked).json()
        assert [item["session_id"] for item in answer["items"]] == ["press-2", "press-1"]
        assert (answer["total"], answer["matched"], answer["complete"]) == (3, 2, True)
        assert answer["as_of_us"] is not None

    run(work, tmp_path)


def test_offline_sessions_and_refused_clients_come_from_history(tmp_path: Path) -> None:
    async def work(place: Place, history: FakeHistory) -> None:
        pages = {"": (["a"], "more"), "more": (["b"], None)}

        def sessions(parameters: dict[str, str]) -> Any:
            names, cursor = pages[parameters.get("cursor", "")]
            return {"sessions": [{"session_id": name, "connected": False} for name in names], "next_cursor": cursor}

        history.answers["/sessions"] = sessions
        history.answers["/events"] = {
            "events": [{"at_us": 5, "client": "bad", "count": 3, "detail": "banned"}],
            "next_cursor": "behind",
            "matched": 41,
        }
        place.visitor.console.clients.take_rows(ClientRows((), last=True))
        viewer = place.as_("viewer")
        answer = (await viewer.get("/api/v1/clients?state=offline")).json()
        assert [item["session_id"] for item in answer["items"]] == ["a", "b"]
        refused = (await viewer.get("/api/v1/clients?state=refused&limit=1")).json()
        assert [(item["client_id"], item["refused"]) for item in refused["items"]] == [("bad", 3)]
        assert (refused["total"], refused["matched"], refused["next_cursor"]) == (41, 41, "behind")
        for parameter in ("q=bad", "user=eva", "listener=tls", "sort=-owed"):
            wrong = await viewer.get(f"/api/v1/clients?state=refused&{parameter}")
            assert (wrong.status, wrong.json()["parameter"]) == (400, parameter.partition("=")[0])
            assert "reason=connect_refused&client=ID" in wrong.json()["detail"]

    run_with_history(work, tmp_path)


def test_a_client_is_found_in_memory_or_in_history(tmp_path: Path) -> None:
    async def work(place: Place, history: FakeHistory) -> None:
        history.answers["/session"] = {"session_id": "a", "subscriptions": []}
        place.broker.answers["client"] = ClientDetail("a", row("a"), "u", 0, 0, (), 0, (), 0, 0, False)
        viewer = place.as_("viewer")
        assert (await viewer.get("/api/v1/clients/a")).json()["connection"]["client_id"] == "a"
        place.broker.refusals["client"] = NO_SUCH_CLIENT
        offline = (await viewer.get("/api/v1/clients/a")).json()
        assert (offline["connection"], offline["session"]["session_id"]) == (None, "a")
        history.answers["/session"] = (404, {"error": {"code": "not_found", "detail": "no"}})
        assert (await viewer.get("/api/v1/clients/a")).status == 404

    run_with_history(work, tmp_path)


def test_commands_reach_the_broker_and_its_refusals_come_back(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        admin = place.as_("admin")
        place.broker.answers |= {
            "reload": Reloaded((ReloadedSetting("a.b", "1", "2"),), (), {"access": "line 3"}),
            "log_level": Nothing(),
            "subscriptions": Subscriptions((SubscriptionInfo("a/#", 1, session_id="c"),), True),
        }
        reloaded = (await admin.ask("POST", "/api/v1/reload", {})).json()
        assert (reloaded["changed"][0]["now"], reloaded["errors"]) == ("2", {"access": "line 3"})
        assert (await admin.ask("POST", "/api/v1/log-level", {"level": "debug"})).json() == {}
        assert ("log_level", LogLevelRequest("debug")) in place.broker.requests
        assert (await admin.ask("POST", "/api/v1/log-level", {"level": "loud"})).status == 400
        found = (await admin.get("/api/v1/subscriptions?topic=a/b&limit=5")).json()
        assert (found["items"][0]["client"], found["items"][0]["group"], found["more"]) == ("c", None, True)
        assert ("subscriptions", SubscriptionsRequest("a/b", "", 5)) in place.broker.requests
        # A broker that does not know `after` gave the first page, and would give it again.
        assert found["next_cursor"] is None
        ordered = Subscriptions((SubscriptionInfo("a/é", 1, session_id="c"),), True, in_order=True)
        place.broker.answers["subscriptions"] = ordered
        cursor = (await admin.get("/api/v1/subscriptions?topic=a/b")).json()["next_cursor"]
        await admin.get(f"/api/v1/subscriptions?topic=a/b&cursor={cursor}")
        assert place.broker.requests[-1] == ("subscriptions", SubscriptionsRequest("a/b", "", 100, ("c", "a/é")))
        assert (await admin.get("/api/v1/clients?cursor=" + cursor)).status == 200
        assert (await admin.get("/api/v1/audit?cursor=" + cursor)).status == 400
        place.broker.refusals["end_session"] = (BAD_REQUEST, "no")
        assert (await admin.ask("DELETE", "/api/v1/sessions/a", {})).status == 400

    run(work, tmp_path)


def test_questions_about_the_past_are_passed_on(tmp_path: Path) -> None:
    async def work(place: Place, history: FakeHistory) -> None:
        reader = place.as_("reader")
        history.answers["/density"] = [{"done": False}, {"done": True}]
        answer = await reader.get("/api/v1/history/density?filter=a/%2B&from=-1h", x_ask="tab-1")
        assert answer.body == b'{"done":false}\n{"done":true}\n'
        assert history.asked == [("/density", [("filter", "a/+"), ("from", "-1h")])]
        assert "X-Ask: tab-1\r\n" in history.headers[0]
        history.answers["/messages"] = (400, {"error": {"code": "bad", "detail": "at is odd", "parameter": "at"}})
        refused = await reader.get("/api/v1/history/messages?at=odd")
        assert (refused.status, refused.json()["parameter"], refused.json()["detail"]) == (400, "at", "at is odd")
        history.answers["/state"] = (410, {"error": {"code": "gone", "detail": "taken"}, "border_us": 9})
        gone = await reader.get("/api/v1/history/state")
        assert (gone.status, gone.json()["border_us"]) == (410, 9)
        history.answers["/zones"] = (503, {"error": {"code": "busy", "detail": "busy"}})
        busy = await place.as_("viewer").get("/api/v1/history/zones")
        assert (busy.status, busy.headers["retry-after"]) == (503, "7")
        history.answers["/plot"] = (500, b"<html>")
        assert (await reader.get("/api/v1/history/plot?topic=a")).status == 502

    run_with_history(work, tmp_path)


def test_history_that_does_not_answer_gives_503_and_the_rest_works(tmp_path: Path) -> None:
    async def nowhere() -> Path:
        return tmp_path / "nothing"

    async def work(place: Place) -> None:
        answer = await place.as_("reader").get("/api/v1/history/messages")
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        assert (await place.as_("reader").get("/api/v1/stats")).status == 200

    run(work, tmp_path, find_history=nowhere)


def test_an_export_is_passed_on_as_the_history_process_makes_it(tmp_path: Path) -> None:
    async def work(place: Place, history: FakeHistory) -> None:
        history.answers["/export"] = [{"at_us": 1}, {"at_us": 2}]
        reader = place.as_("reader")
        lines = await reader.get("/api/v1/history/export?filter=a/%23&from=5")
        assert lines.body == b'{"at_us":1}\n{"at_us":2}\n'
        assert 'filename="holdfast-export.jsonl"' in lines.headers["content-disposition"]
        assert history.asked[0] == ("/export", [("filter", "a/#"), ("from", "5")])
        table = await reader.get("/api/v1/history/export?format=parquet")
        assert 'filename="holdfast-export.parquet"' in table.headers["content-disposition"]
        assert history.asked[1] == ("/export", [("format", "parquet")])

    run_with_history(work, tmp_path)


def test_each_answer_is_counted_and_calls_of_the_api_are_timed(tmp_path: Path) -> None:
    async def work(place: Place, history: FakeHistory) -> None:
        reader = place.as_("reader")
        for path in ("/", "/static/app.js", "/nothing", "/healthz", "/api/v1/stats", "/metrics"):
            await reader.get(path)
        history.answers["/export"] = [{"at_us": 1}, ...]
        with pytest.raises(ProblemError):
            await reader.get("/api/v1/history/export")
        text = (await reader.get("/metrics")).body.decode()
        counted = re.findall(r'requests_total\{route="(.+)",code="(.+)"\} (\d+)', text)
        assert ("history", "200", "1") in counted, "it was cut off"
        assert {route for route, _code, _count in counted} >= {"page", "static", "unknown", "health", "stats"}
        assert set(re.findall(r'request_seconds_count\{route="(.+)"\}', text)) == {"stats", "metrics"}

    run_with_history(work, tmp_path)


def test_a_form_that_the_history_process_cannot_write_is_refused_by_its_words(tmp_path: Path) -> None:
    async def work(place: Place, history: FakeHistory) -> None:
        error = {"code": "not_installed", "detail": "format: parquet needs Arrow", "parameter": "format"}
        history.answers["/export"] = (501, {"error": error})
        answer = await place.as_("reader").get("/api/v1/history/export?format=parquet")
        assert (answer.status, answer.json()["parameter"]) == (501, "format")
        assert answer.json()["detail"] == "format: parquet needs Arrow"

    run_with_history(work, tmp_path)


def test_series_show_what_was_kept_and_list_their_names(tmp_path: Path) -> None:
    clock = ManualClock(wall_us=(BEGIN_S + 3) * SECOND_US)

    async def work(place: Place) -> None:
        viewer = place.as_("viewer")
        await told(place, 1, clients_behind=4)
        begin_us = BEGIN_S * SECOND_US
        answer = (await viewer.get(f"/api/v1/series?names=clients_behind&from_us={begin_us}")).json()
        assert (answer["step_s"], answer["values"][0]) == (1, [None, 4.0, None, None])
        assert "commit_seconds_p99" in (await viewer.get("/api/v1/series")).json()["names"]

    run(work, tmp_path, clock=clock)


def test_alarms_are_listed_and_muted(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        await told(place, disk_refusing=1)
        console = place.visitor.console
        console._judge()
        item = (await place.as_("viewer").get("/api/v1/alarms")).json()["items"][0]
        assert (item["alarm"], item["runbook"]) == ("disk_full", "docs/runbook.md#the-disk-is-full")
        operator = place.as_("operator")
        muted = (await operator.ask("POST", "/api/v1/alarms/disk_full/mute", {"seconds": 60})).json()
        assert muted["muted_until_us"] > item["since_us"]
        assert (await operator.ask("POST", "/api/v1/alarms/disk_low/mute", {"seconds": 60})).status == 404
        assert (await operator.ask("POST", "/api/v1/alarms/disk_full/mute", {"seconds": -1})).status == 400
        assert 'holdfast_alarm_active{alarm="disk_full"} 1' in (await operator.get("/metrics")).body.decode()

    run(work, tmp_path)


def test_the_page_is_served_at_its_paths_with_a_strong_tag(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        visitor: Visitor = place.visitor
        names = list(visitor.app._static._files)
        if "index.html" not in names:
            pytest.skip("the page is not there yet")
        for path in ("/", "/clients", "/clients/press-7", "/time", "/login"):
            answer = await visitor.get(path)
            assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8"), path
        again = await visitor.get("/", if_none_match=answer.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        assert answer.headers["cache-control"] == "no-cache"

    run(work, tmp_path)
