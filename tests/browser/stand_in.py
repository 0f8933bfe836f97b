"""A console that is none: speaks the console's HTTP API from a fixed data set, so that the page can be tested alone.

    python -m tests.browser.stand_in [PORT]     prints a link to look at the page by hand

Rules:
1. Answers have the shapes, names and units of the console's API. What the page sends is recorded in `requests`.
2. The clock stands still until `tick` is called, by a test or by the ticker, a second each.
3. Every answer has the Content-Security-Policy of the console.
"""

from __future__ import annotations

import json
import mimetypes
import queue
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from holdfast.control.words import ClusterInfo
from tests.browser.stand_in_cluster import show_cluster, show_takeovers
from tests.browser.stand_in_data import SECOND_US, Broker, Client, make_alarms, make_audit, make_clients, make_events
from tests.browser.stand_in_events import list_events
from tests.browser.stand_in_history import BadParameterError, History, Params
from tests.browser.stand_in_jobs import Jobs

STATIC: Final = Path(__file__).parents[2] / "src" / "holdfast" / "console" / "static"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
USERS: Final = {
    "eva": ("correct horse", "admin"),
    "olga": ("battery", "operator"),
    "rita": ("clip", "reader"),
    "vic": ("staple", "viewer"),
}
_PAGES: Final = ("clients", "subscriptions", "time", "events", "health", "login", "cluster")
_SORTS: Final = {"client": "session_id", "since": "since_us", "owed": "owed", "inflight": "inflight"}
_ROLES: Final = ("viewer", "reader", "operator", "admin")


class ProblemError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, detail: str, parameter: str | None = None) -> None:
        super().__init__(detail)
        self.status: Final = status
        self.body: Final = {
            "type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail,
            **({} if parameter is None else {"parameter": parameter}),
        }  # fmt: skip


class StandIn:
    """What the stand-in knows, and its answers. One lock guards everything."""

    def __init__(self) -> None:
        self.lock: Final = threading.RLock()
        self.broker: Final = Broker()
        self.clients: Final = {client.session_id: client for client in make_clients()}
        self.events: Final = make_events()
        self.alarms: Final = make_alarms()
        self.audit: Final = make_audit()
        self.history: Final = History()
        self.jobs: Final = Jobs()
        self.cluster: ClusterInfo | None = None
        self.links: Final = {secrets.token_urlsafe(12)}
        self.logins: Final[dict[str, str]] = {}
        #: Method, path with query, and body of each call.
        self.requests: Final[list[tuple[str, str, str]]] = []
        #: A part that does not answer: "history" gives 503.
        self.away: Final[set[str]] = set()
        self._lists: Final[dict[tuple[str, ...], list[Client]]] = {}
        self._streams: Final[list[queue.SimpleQueue[bytes | None]]] = []

    # ---- driven by tests

    def log_in(self, name: str = "eva") -> str:
        """The cookie of a login."""
        cookie = secrets.token_urlsafe(16)
        self.logins[cookie] = name
        return cookie

    def tick(self, seconds: int = 1) -> None:
        """Time passes, and everybody who listens gets a frame."""
        with self.lock:
            self.broker.advance(seconds)
            self.history.now_us = self.broker.now_us
            news = b"".join(
                f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
                for name, data in (
                    ("stats", self.broker.stats()), ("node", self.node()), ("alarms", {"items": self.alarms}),
                    ("jobs", self.jobs.shown()),
                )
            )  # fmt: skip
            for stream in self._streams:
                stream.put(news)

    def drop_streams(self) -> None:
        with self.lock:
            for stream in self._streams:
                stream.put(None)

    def asked(self, method: str, start: str) -> list[tuple[str, str, str]]:
        with self.lock:
            return [one for one in self.requests if one[0] == method and one[1].startswith(start)]

    # ---- answers

    def node(self) -> dict[str, Any]:
        broker = self.broker
        connected = broker.stats()["labelled"]["connections"]
        ports = {"default": ("tcp", 1883), "tls": ("tls", 8883), "ws": ("ws", 8083)}
        age_s = (broker.now_us - broker.frame_us) / SECOND_US
        return {
            "version": "0.3.1", "compiled": True, "started_us": broker.started_us, "now_us": broker.now_us,
            "state": "taking", "detail": "", "frame_age_s": age_s, "durability": "fsync",
            "data_folder": "/var/lib/holdfast", "pid": 4711, "has_past": True,
            "cluster": {"cluster/node": str(self.cluster.node)} if self.cluster else None,
            "listeners": [
                {"name": name, "kind": kind, "host": "0.0.0.0", "port": port, "connections": int(connected[name])}
                for name, (kind, port) in ports.items()
            ],
            "console": {"version": "0.3.1", "started_us": broker.started_us},
        }  # fmt: skip

    def list_clients(self, params: Params) -> dict[str, Any]:
        def one(name: str, default: str = "") -> str:
            return params.get(name, [default])[0]

        sort, limit = one("sort", "client"), int(one("limit", "100"))
        field = _SORTS.get(sort.lstrip("-"))
        if field is None:
            raise ProblemError(400, f"{sort!r} is no column to sort by", "sort")
        if limit > 1000:
            raise ProblemError(400, "limit is at most 1000", "limit")
        key = (one("q"), one("state"), one("user"), one("listener"), sort)
        if key not in self._lists:
            text = key[0].casefold()
            found = [
                client
                for client in self.clients.values()
                if (not text or text in f"{client.session_id}\n{client.user}\n{client.address}".casefold())
                and (key[1] != "connected" or client.connected)
                and (key[1] != "offline" or not client.connected)
                and (key[1] != "behind" or client.behind)
                and (not key[2] or key[2] == client.user)
                and (not key[3] or key[3] == client.listener)
            ]
            found.sort(key=lambda client: (getattr(client, field), client.session_id), reverse=sort.startswith("-"))
            self._lists[key] = found
        found, start = self._lists[key], int(one("cursor", "0"))
        return {
            "as_of_us": self.broker.frame_us, "total": len(self.clients), "matched": len(found),
            "items": [client._asdict() for client in found[start : start + limit]],
            "next_cursor": str(start + limit) if start + limit < len(found) else None,
        }  # fmt: skip

    def client(self, session_id: str) -> Client:
        if session_id not in self.clients:
            raise ProblemError(404, f"no session has the name {session_id[:80]!r}")
        return self.clients[session_id]

    def show_client(self, session_id: str) -> dict[str, Any]:
        client = self.client(session_id)
        filters = ("plant/#", "plant/+/temp", "$share/workers/jobs/#", "office/+/door", "fleet/1/engine")
        inflight = [
            {"packet_id": 100 + n, "qos": 1, "waits_for": "puback", "topic": f"plant/{n % 8}/temp"}
            for n in range(client.inflight)
        ]
        return {
            "session_id": session_id, "connection": client._asdict() if client.connected else None, "user": client.user,
            "expiry_s": client.expiry_s, "disconnected_us": client.disconnected_us or 0,
            "subscriptions": [
                {"filter": name, "qos": n % 3, "no_local": n == 1, "retain_as_published": False, "retain_handling": 0}
                for n, name in enumerate(filters[: client.subscriptions])
            ],
            "subscription_count": client.subscriptions, "inflight": inflight, "inflight_count": len(inflight),
            "owed": client.owed, "has_will": client.version == 5,
        }  # fmt: skip

    def show_cluster(self) -> Any:
        if self.cluster is None:
            raise ProblemError(404, "this broker is a single node")
        return show_cluster(self.cluster)

    def subscriptions(self, params: Params) -> dict[str, Any]:
        topic, under = params.get("topic", [""])[0], params.get("under", [""])[0]
        if bool(topic) == bool(under):
            raise ProblemError(400, "give either topic or under", "topic")
        if topic and ("+" in topic or "#" in topic):
            raise ProblemError(400, f"{topic!r} is a filter: a topic has no + and no #", "topic")
        items: list[dict[str, Any]] = [
            {"filter": "plant/#", "client": f"press-{n * 4:05d}", "qos": n % 3, "since_us": self.broker.frame_us - n}
            for n in range(40)
        ]
        items[2]["since_us"] = 1
        items.insert(0, {"filter": HOSTILE_FILTER, "client": "<img src=x onerror=alert(1)>", "qos": 1})
        items.append({"filter": "$share/workers/plant/+/temp", "group": "workers", "qos": 1, "members": 3})
        return {"items": items, "next_cursor": None}

    def kick(self, session_id: str) -> dict[str, Any]:
        client = self.client(session_id)
        if not client.connected:
            raise ProblemError(404, "it is not connected")
        self._change(client._replace(connected=False, disconnected_us=self.broker.now_us, address="", behind=False))
        return {"kicked": True, "address": f"{client.address}:{client.port}"}

    def end_session(self, session_id: str) -> dict[str, Any]:
        self.client(session_id)
        del self.clients[session_id]
        self._lists.clear()
        return {"ended": True}

    def change_selection(self, ids: list[str], expect: int, *, end: bool) -> dict[str, Any]:
        met = [name for name in ids if name in self.clients and (end or self.clients[name].connected)]
        if len(met) != expect:
            raise ProblemError(409, f"{len(met)} of these clients are there now, and not {expect}", "expect")
        for name in met:
            self.end_session(name) if end else self.kick(name)
        return {"changed": len(met), "missing": []}

    def purge(self, session_id: str) -> dict[str, Any]:
        client = self.client(session_id)
        self._change(client._replace(owed=0, behind=False))
        return {"purged": client.owed}

    def _change(self, client: Client) -> None:
        self.clients[client.session_id] = client
        self._lists.clear()

    def mute(self, name: str, seconds: int) -> dict[str, Any]:
        for alarm in self.alarms:
            if alarm["alarm"] == name and alarm["until_us"] is None:
                alarm["muted_until_us"] = self.broker.now_us + seconds * SECOND_US
                return {}
        raise ProblemError(404, f"{name!r} is not active")

    def stream(self) -> Iterator[bytes]:
        own: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self.lock:
            self._streams.append(own)
        try:
            yield b": hello\n\n"
            while (news := own.get()) is not None:
                yield news
        finally:
            with self.lock:
                self._streams.remove(own)


HOSTILE_FILTER: Final = "<script>alert(2)</script>/\u202e#"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand_in: StandIn

    def log_message(self, *_args: object) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if not url.path.startswith("/api/v1/"):
            self._file(url.path)
            return
        self.stand_in.requests.append((method, self.path, body))
        try:
            name = url.path.removeprefix("/api/v1/")
            if name == "login":
                self._log_in(json.loads(body))
                return
            user = self._user()
            if method != "GET":
                self._check_change()
            segments = [unquote(part) for part in name.split("/")]
            params = parse_qs(url.query)
            if segments == ["stream"]:
                self._send_parts("text/event-stream", self.stand_in.stream())
            elif segments == ["history", "density"]:
                self._past(user)
                found = list(self.stand_in.history.density(params))
                self._send_parts("application/x-ndjson", (json.dumps(line).encode() + b"\n" for line in found))
            else:
                with self.stand_in.lock:
                    answer = self._call(method, segments, params, body, user)
                self._send(200, json.dumps(answer).encode(), "application/json")
        except ProblemError as problem:
            self._problem(problem)
        except BadParameterError as problem:
            self._problem(ProblemError(400, problem.detail, problem.parameter))

    def _user(self) -> str:
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("holdfast")
        name = self.stand_in.logins.get(cookie.value) if cookie else None
        if name is None:
            raise ProblemError(401, "log in first")
        return name

    def _role(self, user: str, least: str) -> None:
        if _ROLES.index(USERS[user][1]) < _ROLES.index(least):
            raise ProblemError(403, f"the role {least} is needed")

    def _past(self, user: str) -> None:
        self._role(user, "reader")
        if "history" in self.stand_in.away:
            raise ProblemError(503, "the history process does not answer")

    def _check_change(self) -> None:
        if self.headers.get("X-Holdfast") != "1" or self.headers.get("Sec-Fetch-Site") != "same-origin":
            raise ProblemError(403, "a change needs the header X-Holdfast and comes from this page")

    def _log_in(self, given: dict[str, str]) -> None:
        stand_in = self.stand_in
        if given.get("link") in stand_in.links:
            stand_in.links.remove(given["link"])
            name = "eva"
        elif given.get("name") in USERS and USERS[given["name"]][0] == given.get("password"):
            name = given["name"]
        else:
            raise ProblemError(401, "the name or the password is wrong")
        answer = json.dumps({"name": name, "role": USERS[name][1], "expires_us": stand_in.broker.now_us}).encode()
        cookie = f"holdfast={stand_in.log_in(name)}; HttpOnly; SameSite=Strict; Path=/"
        self._send(200, answer, "application/json", {"Set-Cookie": cookie})

    def _call(self, method: str, path: list[str], params: Params, body: str, user: str) -> Any:
        s = self.stand_in
        plain: dict[tuple[str, str], Callable[[], Any]] = {
            ("GET", "me"): lambda: {"name": user, "role": USERS[user][1], "expires_us": 0, "kind": "user"},
            ("GET", "node"): s.node,
            ("GET", "stats"): s.broker.stats,
            ("GET", "clients"): lambda: s.list_clients(params),
            ("GET", "subscriptions"): lambda: s.subscriptions(params),
            ("GET", "events"): lambda: list_events(s.events, s.history, params, s.broker.now_us),
            ("GET", "alarms"): lambda: {"items": s.alarms, "as_of_us": s.broker.now_us},
            ("GET", "audit"): lambda: {"items": s.audit, "next_cursor": None, "as_of_us": s.broker.now_us},
            ("GET", "series"): lambda: s.broker.series(
                params["names"][0].split(","), int(params["from_us"][0]), int(params["to_us"][0])
            ),
            ("GET", "jobs"): s.jobs.shown,
            ("GET", "cluster"): s.show_cluster,
            ("POST", "logout"): self._log_out,
        }
        if len(path) == 1 and (method, path[0]) in plain:
            if path == ["audit"]:
                self._role(user, "admin")
            return plain[method, path[0]]()
        match (method, *path):
            case ("GET", "clients", name):
                return s.show_client(name)
            case ("POST", "clients", name, "kick"):
                self._role(user, "operator")
                return s.kick(name)
            case ("POST", "clients", "kick") | ("POST", "sessions", "end"):
                self._role(user, "operator")
                ids, expect = json.loads(body)["ids"], int(params["expect"][0])
                return s.change_selection(ids, expect, end=path[0] == "sessions")
            case ("DELETE", "sessions", name):
                self._role(user, "operator")
                return s.end_session(name)
            case ("DELETE", "sessions", name, "queue"):
                self._role(user, "operator")
                return s.purge(name)
            case ("GET", "sessions", name, "queue"):
                self._past(user)
                return s.history.queue(name, s.client(name).owed, params)
            case ("GET", "sessions", name, "explain"):
                self._past(user)
                return s.history.explain(name, params)
            case ("POST", "alarms", name, "mute"):
                self._role(user, "operator")
                return s.mute(name, int(json.loads(body)["seconds"]))
            case ("POST", "jobs"):
                self._role(user, "operator")
                return s.jobs.start(json.loads(body), user, s.broker.now_us)
            case ("GET", "cluster", "takeovers"):
                return show_takeovers(params.get("client", [""])[0])
            case ("GET", "history", question):
                self._past(user)
                return self._question(question, params)
        raise ProblemError(404, f"there is no {'/'.join(path)[:80]!r}")

    def _question(self, name: str, params: Params) -> Any:
        history = self.stand_in.history
        questions: dict[str, Callable[[Params], Any]] = {
            "messages": history.list_messages, "state": history.state, "compare": history.compare, "plot": history.plot,
            "topics": history.topics, "zones": history.zones, "retained": history.retained,
            "patterns": lambda _params: {"zones": []}, "leases": lambda _params: {"leases": []},
        }  # fmt: skip
        if name not in questions:
            raise ProblemError(404, f"there is no question {name!r}")
        return questions[name](params)

    def _log_out(self) -> dict[str, Any]:
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("holdfast")
        self.stand_in.logins.pop(cookie.value if cookie else "", None)
        return {}

    def _file(self, path: str) -> None:
        if path.startswith("/static/"):
            found = (STATIC / path.removeprefix("/static/")).resolve()
            known = found.is_file() and found.is_relative_to(STATIC)
        else:
            first = path.strip("/").split("/")[0]
            found, known = STATIC / "index.html", path == "/" or first in _PAGES
        if not known:
            self._problem(ProblemError(404, "there is no such file"))
            return
        self._send(200, found.read_bytes(), mimetypes.guess_type(found.name)[0] or "application/octet-stream")

    def _problem(self, problem: ProblemError) -> None:
        self._send(problem.status, json.dumps(problem.body).encode(), "application/problem+json")

    def _headers(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        text = kind.startswith("text/") or kind == "image/svg+xml"
        headers = {
            "Content-Type": f"{kind}; charset=utf-8" if text else kind, "Cache-Control": "no-cache",
            "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        }  # fmt: skip
        for name, value in (headers | more).items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, status: int, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._headers(status, kind, {"Content-Length": str(len(body))} | (more or {}))
        self.wfile.write(body)

    def _send_parts(self, kind: str, parts: Iterator[bytes]) -> None:
        self._headers(200, kind, {"Transfer-Encoding": "chunked"})
        try:
            for part in parts:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        finally:
            parts.close()  # type: ignore[attr-defined]


class StandInServer:
    """The stand-in on a port of the loopback device, with a ticker if it is wanted."""

    def __init__(self, port: int = 0, *, tick_s: float | None = None) -> None:
        self.stand_in: Final = StandIn()
        handler = type("Handler", (_Handler,), {"stand_in": self.stand_in})
        self._server: Final = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._ended: Final = threading.Event()
        self._threads: Final = [threading.Thread(target=self._server.serve_forever, daemon=True)]
        if tick_s is not None:
            self._threads.append(threading.Thread(target=self._tick, args=(tick_s,), daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _tick(self, tick_s: float) -> None:
        while not self._ended.wait(tick_s):
            self.stand_in.tick()

    def close(self) -> None:
        self._ended.set()
        self.stand_in.drop_streams()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()


if __name__ == "__main__":
    server = StandInServer(int(sys.argv[1]) if len(sys.argv) > 1 else 18083, tick_s=1.0)
    print(f"{server.address}/login#token={next(iter(server.stand_in.links))}", flush=True)
    threading.Event().wait()
