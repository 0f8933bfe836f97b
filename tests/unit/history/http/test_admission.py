"""What one client of history by HTTP does, others do not notice: half requests, many requests, slow readers."""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.files.token_file import add_token
from holdfast.history.http.admission import HEAD_S, KEEP_ALIVE_S, SPARE_PLACES, HttpAdmission, SlotDecision, network_of
from holdfast.history.http.server import HEAD_BYTES
from holdfast.model.errors import PermanentError
from tests.unit.history.http.test_server import Served
from tests.unit.server.certificates import Authority

HALF = b"GET /history HTTP/1.1\r\nHost: x\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


class Time:
    """A clock that stands still unless it is told."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@contextmanager
def serving(folder: Path, *arguments: Any, **options: Any) -> Iterator[Served]:
    served = Served(folder, *arguments, **options)
    try:
        yield served
    finally:
        served.close()


def read_all(connection: socket.socket) -> bytes:
    """Up to the end; a connection that was cut has one, too."""
    found = b""
    with connection, suppress(ConnectionResetError, ssl.SSLError):
        while data := connection.recv(65536):
            found += data
    return found


def ask(client: http.client.HTTPConnection) -> int:
    """On a connection that stays."""
    client.request("GET", "/healthz")
    response = client.getresponse()
    response.read()
    return response.status


# ---- half requests


@pytest.mark.parametrize("begun", [b"", HALF], ids=["silent", "half a head"])
def test_others_are_answered_while_half_requests_hold_every_place(tmp_path: Path, begun: bytes) -> None:
    token = add_token(tmp_path / "tokens", "dashboard")
    with serving(tmp_path, tmp_path / "tokens", now_s=Time()) as served, ExitStack() as held:
        for _index in range(3 * (64 + SPARE_PLACES)):
            held.enter_context(served.send(begun))
        authorization = {"Authorization": f"Bearer {token}"}

        assert served.get("/healthz")[0] == 200
        for source in ("127.0.0.1", "127.0.0.2"):
            assert served.ask("GET", "/history?limit=1", source=source, headers=authorization)[0] == 200


def test_a_head_has_a_deadline_that_no_byte_extends(tmp_path: Path) -> None:
    time = Time()
    with serving(tmp_path, now_s=time) as served:
        slow = served.send(HALF)
        quick = http.client.HTTPConnection(*served.address, timeout=60)
        quick.connect()
        assert served.get("/healthz")[0] == 200  # so both are accepted
        time.now_s += HEAD_S - 1
        slow.sendall(b"X-Slow: 1\r\n")
        assert ask(quick) == 200
        time.now_s += 1

        head, _blank, body = read_all(slow).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert b"Connection: close" in head
        assert "not complete in time" in json.loads(body)["error"]
        # Who was answered may ask again for a while.
        assert ask(quick) == 200
        time.now_s += KEEP_ALIVE_S
        assert quick.sock.recv(100) == b""
        quick.close()


def test_a_tls_handshake_has_the_same_deadline(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.server_files("history")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["certificate"], files["key"])
    time = Time()
    with serving(tmp_path, None, context, now_s=time) as served:
        silent = served.send(b"")
        begun = served.send(b"\x16\x03\x01")
        trusting = authority.client()
        client = http.client.HTTPSConnection("localhost", served.address[1], context=trusting, timeout=60)
        assert ask(client) == 200
        half = trusting.wrap_socket(socket.create_connection(served.address), server_hostname="localhost")
        half.sendall(HALF)
        time.now_s += KEEP_ALIVE_S

        client.close()
        for connection in (silent, begun, half):
            assert b"HTTP" not in read_all(connection)  # an alert at most, and the end


# ---- many requests


class Blocked:
    """Scans that wait until they are let go."""

    def __init__(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go = threading.Event()
        self._served = served
        scan = served.pool.scan

        def waiting(*arguments: Any, **options: Any) -> Iterator[Any]:
            assert self.let_go.wait(60)
            yield from scan(*arguments, **options)

        monkeypatch.setattr(served.pool, "scan", waiting)

    def ask(self, count: int) -> list[socket.socket]:
        """So many requests, each of which has its slot."""
        before = self._served.server.admission.answering()
        asked = [self._served.send(b"GET /history?limit=1 HTTP/1.0\r\n\r\n") for _index in range(count)]
        while self._served.server.admission.answering() < before + count:
            pass
        return asked


def test_health_is_answered_beside_the_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, requests=2) as served:
        blocked = Blocked(served, monkeypatch)
        asked = blocked.ask(2)

        assert served.get("/healthz")[0] == 200
        status, headers, body = served.get("/history")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "2 requests are being answered already" in json.loads(body)["error"]
        blocked.let_go.set()
        assert [read_all(connection)[:15] for connection in asked] == [b"HTTP/1.1 200 OK"] * 2
        while served.server.admission.answering():
            pass
        assert served.get("/history")[0] == 200


def test_an_address_has_not_all_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, requests=4, per_address=2) as served:
        blocked = Blocked(served, monkeypatch)
        asked = blocked.ask(2)

        status, headers, body = served.get("/history")
        assert (status, headers["Retry-After"]) == (429, "5")
        assert "2 requests of this address" in json.loads(body)["error"]
        blocked.let_go.set()
        assert served.ask("GET", "/history", source="127.0.0.2")[0] == 200
        assert all(read_all(connection) for connection in asked)


def test_health_is_looked_at_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    with serving(tmp_path, now_s=time) as served:
        assert served.get("/healthz")[0] == 200

        def failing() -> None:
            raise PermanentError("the disk is gone")

        monkeypatch.setattr(served.pool, "view", failing)
        assert served.get("/healthz")[0] == 200
        time.now_s += 1
        status, _headers, body = served.get("/healthz")
        assert (status, json.loads(body)["error"]) == (503, "the disk is gone")


def test_a_response_that_is_not_taken_gives_its_slot_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path, step_s=0.01) as served:
        scan = served.pool.scan

        def endless(*arguments: Any, **options: Any) -> Iterator[Any]:
            while True:
                yield from scan(*arguments, **options)

        monkeypatch.setattr(served.pool, "scan", endless)
        with served.send(HALF + b"\r\n") as slow:
            while not served.server.admission.answering():
                pass
            while served.server.admission.answering():
                pass
            assert not read_all(slow).endswith(b"0\r\n\r\n")


# ---- what is no request for history


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http")) as running:
        yield running


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
@pytest.mark.parametrize("body", [None, b"x" * 3_000_000], ids=["no body", "a large body"])
def test_other_methods_are_told_which_there_are(served: Served, method: str, body: bytes | None) -> None:
    status, headers, answer = served.ask(method, "/history", body)

    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(answer)["error"] == f"{method} is not answered here; GET and HEAD are"


@pytest.mark.parametrize("path", ["/healthz", "/history?limit=3", "/history?limit=0", "/nowhere"])
def test_head_is_get_without_a_body(served: Served, path: str) -> None:
    got, asked = served.get(path), served.ask("HEAD", path)

    own = {"Date"}
    assert asked[0] == got[0]
    assert {k: v for k, v in asked[1].items() if k not in own} == {k: v for k, v in got[1].items() if k not in own}
    assert asked[2] == b""
    while served.pool.busy():
        pass


def test_a_connection_serves_one_request_after_the_other(served: Served) -> None:
    """Sent at once, a HEAD among them, which has no body."""
    head = b"HEAD /history?limit=2 HTTP/1.1\r\nHost: x\r\n\r\n"
    last = WHOLE.replace(b"Host", b"Connection: close\r\nHost")
    answer = read_all(served.send(b"\r\n" + WHOLE + head + last))

    assert answer.count(b"HTTP/1.1 200 OK") == 3
    assert answer.count(b'{"status": "ok"}') == 2


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (HALF + b"X: " + b"x" * HEAD_BYTES + b"\r\n\r\n", 431),
        (HALF + b"X: y\r\n" * 4_000, 431),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", 431),
        (HALF + b"Content-Length: 5\r\n\r\nhello", 413),
        (HALF + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        (HALF + b"Content-Length: many\r\n\r\n", 413),
        (b"GET http://[ HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
    ],
)
def test_what_is_too_large_or_no_request_is_refused(served: Served, request_: bytes, status: int) -> None:
    connection = served.send(request_)
    connection.shutdown(socket.SHUT_WR)
    head, _blank, body = read_all(connection).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Connection: close" in head
    assert json.loads(body)["error"]


def test_a_client_that_asks_before_it_sends_a_body_need_not_send_it(served: Served) -> None:
    with served.send(b"POST /history HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 405 ")


# ---- the rules


def test_the_address_with_the_most_connections_displaces_its_own(tmp_path: Path) -> None:
    admission: HttpAdmission[str] = HttpAdmission(2, 2, Time())
    displaced = [admission.enter(f"quiet-{number}", "192.0.2.1") for number in range(3)]
    flood = [f"flood-{number}" for number in range(200)]
    displaced += [admission.enter(name, "192.0.2.2") for name in flood]

    room = 2 + SPARE_PLACES - 3
    assert [name for name in displaced if name is not None] == flood[: 200 - room]


def test_a_connection_that_answers_is_never_displaced_nor_overdue(tmp_path: Path) -> None:
    time = Time()
    admission: HttpAdmission[int] = HttpAdmission(2, 1, time)
    admission.enter(0, "192.0.2.1")
    assert admission.begin(0) is SlotDecision.GRANTED
    displaced = [admission.enter(number, "192.0.2.1") for number in range(1, 1 + 3 * SPARE_PLACES)]
    time.now_s += HEAD_S

    assert 0 not in displaced
    assert 0 not in admission.overdue()
    assert len(admission.overdue()) == 0  # each once
    assert admission.begin(3 * SPARE_PLACES) is SlotDecision.ADDRESS_FULL
    admission.end(0)
    assert admission.begin(3 * SPARE_PLACES) is SlotDecision.GRANTED


def test_an_ipv6_network_is_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("fe80::1%eth0") == "fe80::"
