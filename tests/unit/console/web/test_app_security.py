"""Who gets in, and what every answer carries."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.console.access.credential_files import remove_user, set_user
from holdfast.console.access.one_time_links import make_link
from holdfast.console.api import ENDPOINTS
from holdfast.console.web.endpoints import ANYBODY, Endpoint
from holdfast.console.web.openapi import make_document
from holdfast.control.words import (
    Blocked,
    BlockInfo,
    ClientDetail,
    Kicked,
    Nothing,
    Purged,
    Reloaded,
    Subscriptions,
    Unblocked,
)
from holdfast.files.token_file import add_token
from holdfast.model.errors import MisuseError
from holdfast.model.roles import ROLES, includes
from tests.unit.console.fake_broker import FakeBroker
from tests.unit.console.stats_frames import frame
from tests.unit.console.visitor import PASSWORD, Place, Visitor, console_place


def run(work: Callable[[Place], Awaitable[None]], folder: Path, **options: Any) -> None:
    async def inside() -> None:
        async with console_place(folder, **options) as place:
            await work(place)

    asyncio.run(inside())


def answer_everything(broker: FakeBroker) -> None:
    broker.answers |= {
        "client": ClientDetail("a", None, "", 0, 0, (), 0, (), 0, 0, False),
        "subscriptions": Subscriptions((), False),
        "kick": Kicked("10.0.0.1"),
        "end_session": Nothing(),
        "purge_queue": Purged(3),
        "block": Blocked((BlockInfo("client", "a"),), 0),
        "unblock": Unblocked((BlockInfo("client", "a"),)),
        "reload": Reloaded((), (), {}),
        "log_level": Nothing(),
    }


def calls() -> list[tuple[str, str, str]]:
    """Method, target and role of each call, from the OpenAPI document."""
    document = make_document(ENDPOINTS, "1")
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            needed = [entry for entry in operation["parameters"] if entry["in"] == "query" and entry["required"]]
            query = "&".join(f"{entry['name']}=1" for entry in needed)
            target = path.replace("{id}", "a").replace("{name}", "disk_low")
            target = target.replace("{kind}", "client").replace("{value}", "a")
            found.append((method.upper(), f"{target}?{query}" if query else target, operation["x-role"]))
    return found


def test_the_document_has_a_role_for_each_call() -> None:
    roles = {role for _method, _target, role in calls()}
    assert roles <= {*ROLES, ANYBODY}
    assert [target for _method, target, role in calls() if role == ANYBODY] == ["/api/v1/login"]
    assert len(calls()) == len(ENDPOINTS)


def test_an_endpoint_without_a_role_cannot_exist() -> None:
    async def nothing(_call: object) -> dict[str, Any]:
        return {}

    with pytest.raises(MisuseError):
        Endpoint("GET", "x", "", nothing, "")


def test_each_call_is_for_those_whose_role_suffices_and_for_nobody_else(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        answer_everything(place.broker)
        for method, target, needed in calls():
            if needed == ANYBODY or target.endswith("/stream"):
                continue
            assert (await place.visitor.ask(method, target)).status == 401, target
            for role in ROLES:
                answer = await place.as_(role).ask(method, target, {} if method != "GET" else None)
                if includes(role, needed):
                    # Something else may be missing: the past, a field of the body, the alarm.
                    assert answer.status in (200, 400, 404, 503), (target, role, answer.body)
                else:
                    assert answer.status == 403, (target, role)
                    assert needed in answer.json()["detail"]

    run(work, tmp_path)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-holdfast": "-"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "-"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"origin": "http://127.0.0.1:18083"}, 200),
        ({}, 200),
    ],
)
def test_a_change_with_a_cookie_comes_from_our_own_page(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async def work(place: Place) -> None:
        answer_everything(place.broker)
        browser = await place.visitor.with_link()
        asked = {"reason": "x"}
        assert (await browser.ask("POST", "/api/v1/clients/a/kick", asked, headers)).status == status
        assert [word for word, _body in place.broker.requests].count("kick") == (status == 200)

    run(work, tmp_path)


def test_a_foreign_page_reads_nothing(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        browser = await place.visitor.with_link()
        assert (await browser.get("/api/v1/stats")).status == 200
        assert (await browser.get("/api/v1/stats", sec_fetch_site="cross-site")).status == 403

    run(work, tmp_path)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:18083", "127.0.0.1.evil.example", "", "a b", "[::1", "@"]
)
def test_a_name_that_is_not_allowed_reaches_nothing(tmp_path: Path, host: str) -> None:
    async def work(place: Place) -> None:
        for target in ("/", "/healthz", "/metrics", "/api/v1/stats", "/api/v1/openapi.json", "/static/index.html"):
            assert (await place.as_("admin").ask("GET", target, headers={"host": host})).status == 403, target

    run(work, tmp_path)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:18083", "10.0.0.7", "Console.Example"]
)
def test_addresses_and_allowed_names_are_served(tmp_path: Path, host: str) -> None:
    async def work(place: Place) -> None:
        assert (await place.as_("viewer").ask("GET", "/api/v1/me", headers={"host": host})).status == 200

    run(work, tmp_path, allowed_hosts=("console.example",))


def test_every_answer_has_the_headers_that_keep_browsers_careful(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        for target in ("/", "/nothing", "/healthz", "/api/v1/me", "/api/v1/openapi.json", "/metrics", "/static/../x"):
            headers = (await place.visitor.get(target)).headers
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "script-src 'self'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] in ("no-store", "no-cache")
        refused = await place.visitor.ask("GET", "/", headers={"host": "evil.example"})
        assert refused.headers["x-frame-options"] == "DENY"

    run(work, tmp_path)


def test_cookies_are_for_our_own_pages_only(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        link = make_link(place.visitor.console.options.state_folder)
        answer = await place.visitor.ask("POST", "/api/v1/login", {"link": link})
        cookie = answer.headers["set-cookie"].lower()
        for part in ("httponly", "samesite=strict", "path=/", "max-age=43200"):
            assert part in cookie
        assert "domain" not in cookie

    run(work, tmp_path)


def test_cookies_are_for_https_only_behind_a_proxy(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        answer = await place.visitor.ask("POST", "/api/v1/login", {"name": "eva", "password": PASSWORD})
        assert answer.headers["set-cookie"].startswith("__Host-")
        assert "secure" in answer.headers["set-cookie"].lower()
        assert "strict-transport-security" in answer.headers

    run(work, tmp_path, behind_proxy=True)


def test_a_link_logs_in_once(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        link = make_link(place.visitor.console.options.state_folder)
        me = await (await place.visitor.log_in(link=link)).get("/api/v1/me")
        assert (me.json()["role"], me.json()["kind"]) == ("admin", "link")
        again = await place.visitor.ask("POST", "/api/v1/login", {"link": link})
        assert again.status == 401
        assert "holdfast console open" in again.json()["detail"]

    run(work, tmp_path)


@pytest.mark.parametrize("headers", [{"x-forwarded-for": "127.0.0.1"}, {"forwarded": "for=1.2.3.4"}])
def test_a_link_is_good_on_this_machine_only(tmp_path: Path, headers: dict[str, str]) -> None:
    async def work(place: Place) -> None:
        link = make_link(place.visitor.console.options.state_folder)
        away = Visitor(place.visitor.app, place.visitor.console, address="10.0.0.9")
        assert (await away.ask("POST", "/api/v1/login", {"link": link})).status == 403
        assert (await place.visitor.ask("POST", "/api/v1/login", {"link": link}, headers)).status == 403
        # It was not used up.
        await place.visitor.log_in(link=link)

    run(work, tmp_path)


def test_a_cookie_that_a_browser_brings_along_is_never_taken_over(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        name = (await place.visitor.with_link()).cookie.partition("=")[0]
        planted = Visitor(place.visitor.app, place.visitor.console, cookie=f"{name}=planted")
        logged_in = await planted.with_link()
        assert logged_in.cookie != planted.cookie
        assert (await planted.get("/api/v1/me")).status == 401
        assert (await logged_in.get("/api/v1/me")).status == 200

    run(work, tmp_path)


def test_a_changed_cookie_is_refused(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        browser = await place.visitor.with_link()
        name, _sign, value = browser.cookie.partition("=")
        content, _dot, signature = value.partition(".")
        for wrong in (
            content,
            f"{content}.",
            f".{signature}",
            f"x{content}.{signature}",
            f"{content}.{signature[::-1]}",
        ):
            visitor = Visitor(browser.app, browser.console, cookie=f"{name}={wrong}")
            assert (await visitor.get("/api/v1/me")).status == 401, wrong

    run(work, tmp_path)


def test_logging_out_ends_the_cookie(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        browser = await place.visitor.with_link()
        answer = await browser.ask("POST", "/api/v1/logout", {})
        assert "max-age=0" in answer.headers["set-cookie"].lower()
        assert (await browser.get("/api/v1/me")).status == 401

    run(work, tmp_path)


def test_a_user_is_logged_out_when_removed_or_changed(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        browser = await place.visitor.log_in(name="eva", password=PASSWORD)
        assert (await browser.get("/api/v1/me")).json() == {
            "name": "eva",
            "role": "operator",
            "kind": "user",
            "expires_us": (await browser.get("/api/v1/me")).json()["expires_us"],
        }
        set_user(place.folder / "users", "eva", "viewer", PASSWORD)
        assert (await browser.get("/api/v1/me")).status == 401
        browser = await place.visitor.log_in(name="eva", password=PASSWORD)
        remove_user(place.folder / "users", "eva")
        assert (await browser.get("/api/v1/me")).status == 401

    run(work, tmp_path)


def test_a_wrong_user_file_changes_nothing_and_is_an_alarm(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        browser = await place.visitor.log_in(name="eva", password=PASSWORD)
        with (place.folder / "users").open("a") as file:
            file.write("not a line\n")
        assert (await browser.get("/api/v1/me")).status == 200
        console = place.visitor.console
        console._judge()
        assert "credentials_wrong" in console.alarms.active_names
        shown = (await browser.get("/api/v1/alarms")).json()["items"]
        assert "users:2" in next(item["detail"] for item in shown if item["alarm"] == "credentials_wrong")

    run(work, tmp_path)


def test_five_logins_a_minute_are_checked_and_no_more(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        statuses = []
        for _try in range(7):
            answer = await place.visitor.ask("POST", "/api/v1/login", {"link": "wrong"})
            statuses.append(answer.status)
        assert statuses == [401] * 5 + [429] * 2
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        # Another address is not held up by it.
        other = Visitor(place.visitor.app, place.visitor.console, address="10.0.0.9")
        assert (await other.ask("POST", "/api/v1/login", {"name": "eva", "password": "wrong"})).status == 401

    run(work, tmp_path)


def test_a_restricted_token_reads_its_topics_only(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        # As an admin, so that no role is missing.
        token = add_token(place.folder / "tokens", "plant", role="admin", filters=["plant/#"])
        visitor = Visitor(place.visitor.app, place.visitor.console, token=token)
        for target in (
            "history/messages",
            "history/messages?filter=%23",
            "history/state?filter=other/x",
            "history/plot?topic=other/x",
            "history/plot?topic=plant/a&topic=other/x",
            "history/topics",
            "history/patterns",
            "history/zones",
            "sessions/a/queue",
            "sessions/a/explain",
            "clients/a",
            "clients?state=refused",
            "events",
            "events?topic=%23",
            "events?topic=other/x",
            "subscriptions?topic=other/x",
            "subscriptions?under=%23",
            "subscriptions?under=other/%23",
            "audit",
        ):
            assert (await visitor.get(f"/api/v1/{target}")).status == 403, target
        answer_everything(place.broker)
        for target in ("subscriptions?topic=plant/1/temp", "subscriptions?under=plant/1/%23", "clients", "stats"):
            assert (await visitor.get(f"/api/v1/{target}")).status == 200, target
        assert (await visitor.get("/api/v1/events?topic=plant/1/temp")).status == 404
        # There is no past here: it is asked for.
        assert (await visitor.get("/api/v1/history/messages?filter=plant/1/%2B")).status == 404

    run(work, tmp_path)


def test_an_expired_token_is_refused(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        token = add_token(place.folder / "tokens", "old", expires_s=1)
        visitor = Visitor(place.visitor.app, place.visitor.console, token=token)
        answer = await visitor.get("/api/v1/me")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"

    run(work, tmp_path)


def test_metrics_need_a_secret_unless_they_are_open(tmp_path: Path) -> None:
    async def closed(place: Place) -> None:
        assert (await place.visitor.get("/metrics")).status == 401
        assert (await place.as_("viewer").get("/metrics")).status == 200

    async def opened(place: Place) -> None:
        assert (await place.visitor.get("/metrics")).status == 200

    run(closed, tmp_path)
    run(opened, tmp_path, open_metrics=True)


@pytest.mark.parametrize(
    "path",
    ["/static/../console/app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/", "/static/..%2fapp.py"],
)
def test_no_path_leads_out_of_the_static_folder(tmp_path: Path, path: str) -> None:
    async def work(place: Place) -> None:
        assert (await place.visitor.get(path)).status == 404

    run(work, tmp_path)


HOSTILE = [
    "a\r\nSet-Cookie: x=1",
    "<script>alert(1)</script>",
    "\u202egpj.exe",
    "a\0b",
    "../../etc",
    "a/b/queue",
    "ü" * 3000,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_any_characters_reach_the_broker_and_no_header(tmp_path: Path, name: str) -> None:
    async def work(place: Place) -> None:
        answer_everything(place.broker)
        answer = await place.as_("operator").ask(
            "POST", f"/api/v1/clients/{quote(name, safe='')}/kick", {"reason": name[:100]}
        )
        assert answer.status == 200
        kicked = next(body for word, body in place.broker.requests if word == "kick")
        assert getattr(kicked, "session_id") == name  # noqa: B009
        assert all("\n" not in value and "\r" not in value for value in answer.headers.values())
        assert "set-cookie" not in answer.headers
        lines = [line for path in (place.folder / "console/audit").iterdir() for line in path.read_bytes().splitlines()]
        assert len(lines) == 2
        shown = (await place.as_("admin").get("/api/v1/audit")).json()["items"][0]
        assert (shown["target"], shown["what"], shown["outcome"]) == (name, "kick", "done")

    run(work, tmp_path)


def test_no_secret_is_in_logs_audit_or_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def work(place: Place) -> None:
        answer_everything(place.broker)
        console = place.visitor.console
        link = make_link(console.options.state_folder)
        browser = await place.visitor.log_in(link=link)
        secrets = [link, PASSWORD, browser.cookie.partition("=")[2], "planted-secret", *place.tokens.values()]
        answers = [
            await place.visitor.ask("POST", "/api/v1/login", {"name": "eva", "password": "planted-secret"}),
            await place.visitor.ask("POST", "/api/v1/login", {"name": "eva", "password": "planted-secret", "x": 1}),
            await place.visitor.ask("POST", "/api/v1/login", {"name": "eva", "password": ["planted-secret"]}),
            await place.visitor.ask("POST", "/api/v1/login", raw=b'{"password": "planted-secret'),
            await place.visitor.get("/api/v1/me", authorization="Bearer planted-secret"),
            await browser.ask("POST", "/api/v1/clients/a/kick", {}),
            await browser.get("/api/v1/audit"),
            await browser.get("/metrics"),
        ]
        shown = [answer.body.decode() for answer in answers]
        shown += [
            path.read_bytes().decode("latin-1") for path in (place.folder / "console").rglob("*") if path.is_file()
        ]
        shown += [path.name for path in (place.folder / "console").rglob("*")]
        out, err = capfd.readouterr()
        for secret in secrets:
            assert not [text for text in [*shown, out, err] if secret in text]

    run(work, tmp_path)


def test_the_stream_ends_when_the_console_stops(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        stream = asyncio.create_task(place.as_("viewer").get("/api/v1/stream"))
        await asyncio.sleep(0)
        place.visitor.console.ticker.close()
        assert (await stream).status == 200

    run(work, tmp_path)


def test_a_change_that_cannot_be_audited_is_not_made(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        answer_everything(place.broker)
        (place.folder / "console/audit").write_text("a file in the way")
        answer = await place.as_("operator").ask("POST", "/api/v1/clients/a/kick", {})
        assert answer.status == 503
        assert "kick" not in [word for word, _body in place.broker.requests]

    run(work, tmp_path)


def test_the_stream_ends_with_its_login(tmp_path: Path) -> None:
    async def work(place: Place) -> None:
        browser = await place.visitor.log_in(name="eva", password=PASSWORD)
        stream = asyncio.create_task(browser.get("/api/v1/stream"))
        place.broker.push_stats(frame(1))
        await asyncio.sleep(0)
        remove_user(place.folder / "users", "eva")
        place.visitor.console.ticker.tick()
        answer = await stream
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert b"event: stats\ndata: {" in answer.body
        assert b"event: node\n" in answer.body

    run(work, tmp_path)
