"""The private socket: who is answered, how wrong questions are, and that nobody works for a client that has left."""

import http.client
import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.history.past import server
from holdfast.history.past.endpoints import ANSWERS, Endpoint
from holdfast.history.past.server import ASK_HEADER, NUMBERS, PastServer
from holdfast.history.past.time_scan import ClientGoneError
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.errors import PermanentError, TransientError
from tests.unit.storage.rocks.log.store import Store

#: Longer than anything here takes.
PATIENCE_S = 30.0


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(self._path))


class Served:
    """A server with endpoints of its own beside those there are."""

    def __init__(self, folder: Path) -> None:
        self.pool = ReaderPool(folder, 1)
        self.answers: dict[str, Endpoint] = dict(ANSWERS)
        self.streams: dict[str, Endpoint] = {}
        self.path = folder / "history.sock"
        self.server = PastServer(self.path, self.pool, self.answers, self.streams)
        threading.Thread(target=lambda: self.server.serve_forever(0.01), daemon=True).start()

    def get(self, url: str, **headers: str) -> tuple[int, Any]:
        with closing(UnixConnection(self.path)) as connection:
            connection.request("GET", url, headers=headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.pool.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    store = Store(tmp_path)
    store.publish("a/b", "a/c")
    served = Served(tmp_path)
    yield served
    served.close()
    store.close()


def test_a_question_is_answered_with_json(served: Served) -> None:
    assert served.get("/healthz") == (200, {"ok": True})
    status, answer = served.get("/messages?filter=a/%2B&limit=1")
    assert (status, [one["topic"] for one in answer["messages"]]) == (200, [{"text": "a/c"}])


def test_many_questions_share_a_connection(served: Served) -> None:
    connection = UnixConnection(served.path)
    for _question in range(3):
        connection.request("GET", "/state?filter=a/b&look_back_s=3000000000")
        answer = connection.getresponse()
        assert len(json.loads(answer.read())["topics"]) == 1
    connection.close()


@pytest.mark.parametrize(
    ("url", "status", "code"),
    [
        ("/nothing", 404, "not_found"),
        ("/messages?nonsense=1", 400, "unknown_parameter"),
        ("/messages?limit=0", 400, "bad_value"),
        ("/messages?filter=%FF", 400, "bad_request"),
        ("/messages?" + "&".join(f"a{number}=1" for number in range(60)), 400, "bad_request"),
        ("/messages?zone=x", 404, "not_found"),
        ("/session?id=x", 404, "not_found"),
        ("/messages?filter=a%00b", 400, "bad_value"),
        ("/healthz?x=1", 400, "unknown_parameter"),
    ],
)
def test_a_wrong_question_is_refused_with_its_reason(served: Served, url: str, status: int, code: str) -> None:
    found, answer = served.get(url)
    assert (found, answer["error"]["code"]) == (status, code)
    assert answer["error"]["detail"]


def test_other_methods_bodies_and_garbage_are_refused(served: Served) -> None:
    for method, headers, status in (("POST", {}, 501), ("GET", {"Content-Length": "1"}, 413)):
        connection = UnixConnection(served.path)
        connection.request(method, "/messages", headers=headers)
        assert connection.getresponse().status == status
        connection.close()
    for garbage in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"):
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        raw.settimeout(PATIENCE_S)
        raw.connect(str(served.path))
        raw.sendall(garbage)
        while raw.recv(65_536):
            pass  # until it is closed
        raw.close()
    assert served.get("/healthz")[0] == 200


def test_only_its_owner_may_connect(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
    monkeypatch.setattr(server, "peer_uid", lambda _connection: os.getuid() + 1)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        served.get("/healthz")


def test_readers_that_are_busy_are_told_with_when_to_come_back(served: Served) -> None:
    def busy(_pool: ReaderPool, _params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> Iterator[object]:
        raise TransientError("all 4 readers are busy")
        yield

    served.answers["/busy"] = busy
    connection = UnixConnection(served.path)
    connection.request("GET", "/busy")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert json.loads(answer.read())["error"]["code"] == "busy"
    connection.close()


def test_its_numbers_are_told_beside_the_questions_and_are_none(tmp_path: Path) -> None:
    now_s = [0.0]
    store = Store(tmp_path)
    store.publish("a")
    pool = ReaderPool(tmp_path, 2)
    past = PastServer(tmp_path / "history.sock", pool, clock=lambda: now_s[0])
    threading.Thread(target=lambda: past.serve_forever(0.01), daemon=True).start()

    def numbers() -> Any:
        with closing(UnixConnection(past.path)) as connection:
            connection.request("GET", NUMBERS)
            return json.loads(connection.getresponse().read())

    try:
        assert numbers()["busy"] == 0
        with pool.reading():
            assert numbers()["busy"] == 1
        assert numbers()["process"]["process_cpu_seconds_total"] > 0
        now_s[0] = 600.0
        numbers()
        assert past.idle_s() == 600.0
    finally:
        past.shutdown()
        past.server_close()
        pool.close()
        store.close()


def test_a_failure_is_an_error_and_the_next_question_is_answered(served: Served) -> None:
    def failing(_pool: ReaderPool, _params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> Iterator[object]:
        raise PermanentError("a page is damaged; run: holdfast verify")
        yield

    served.answers["/failing"] = failing
    status, answer = served.get("/failing")
    assert (status, answer["error"]["detail"]) == (500, "a page is damaged; run: holdfast verify")
    assert served.get("/healthz")[0] == 200


def test_a_stream_that_ends_because_its_question_was_replaced_is_not_complete(served: Served) -> None:
    seen = threading.Semaphore(0)

    def quiet(_pool: ReaderPool, _params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[object]:
        yield {"line": 1}
        seen.release()
        pause = threading.Event()
        while not gone():
            pause.wait(0.01)

    served.streams["/quiet"] = quiet
    first = UnixConnection(served.path)
    first.request("GET", "/quiet", headers={ASK_HEADER: "tab-1"})
    answer = first.getresponse()
    assert seen.acquire(timeout=PATIENCE_S)
    second = UnixConnection(served.path)
    second.request("GET", "/quiet", headers={ASK_HEADER: "tab-1"})
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    first.close()
    second.close()


class Endless:
    """A stream that goes on until its client has left."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def __call__(
        self, pool: ReaderPool, _params: Mapping[str, list[str]], gone: Callable[[], bool]
    ) -> Iterator[object]:
        pause = threading.Event()
        with pool.reading(PATIENCE_S):
            try:
                yield {"line": 1}
                self.began.release()
                while not gone():
                    pause.wait(0.01)
                raise ClientGoneError
            finally:
                self.ended.release()


def test_a_stream_is_sent_line_by_line(served: Served) -> None:
    def three(_pool: ReaderPool, _params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> Iterator[object]:
        yield from ({"line": number} for number in range(3))

    served.streams["/three"] = three
    connection = UnixConnection(served.path)
    connection.request("GET", "/three")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line) for line in answer.read().splitlines()] == [{"line": 0}, {"line": 1}, {"line": 2}]
    connection.close()


def test_a_client_that_leaves_ends_its_scan_and_gives_back_its_reader(served: Served) -> None:
    endless = served.streams["/endless"] = Endless()
    connection = UnixConnection(served.path)
    connection.request("GET", "/endless")
    assert connection.getresponse().readline() == b'{"line":1}\n'
    assert endless.began.acquire(timeout=PATIENCE_S)
    connection.close()
    assert endless.ended.acquire(timeout=PATIENCE_S)
    assert served.get("/messages")[0] == 200, "the only reader is free again"


def test_a_newer_question_ends_the_older_one_of_the_same_asker(served: Served) -> None:
    endless = served.streams["/endless"] = Endless()
    first = UnixConnection(served.path)
    first.request("GET", "/endless", headers={ASK_HEADER: "tab-1"})
    answer = first.getresponse()
    assert answer.readline() == b'{"line":1}\n'
    assert endless.began.acquire(timeout=PATIENCE_S)
    second = UnixConnection(served.path)
    second.request("GET", "/endless", headers={ASK_HEADER: "tab-1"})
    assert endless.ended.acquire(timeout=PATIENCE_S)
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    assert second.getresponse().readline() == b'{"line":1}\n'
    first.close()
    second.close()
    served.server.is_stopping = True
    assert endless.ended.acquire(timeout=PATIENCE_S)


def test_it_says_how_long_nothing_was_asked(tmp_path: Path) -> None:
    store = Store(tmp_path / "data")
    now = [100.0]
    pool = ReaderPool(tmp_path / "data", 1)
    served = PastServer(tmp_path / "h.sock", pool, clock=lambda: now[0])
    now[0] = 130.0
    assert served.idle_s() == 30.0
    superseded = served.begin(("/x", ""))
    assert served.idle_s() == 0.0
    now[0] = 150.0
    served.end(("/x", ""), superseded)
    assert served.idle_s() == 0.0
    now[0] = 151.0
    assert served.idle_s() == 1.0
    other = PastServer(tmp_path / "h.sock", pool)
    served.server_close()
    assert (tmp_path / "h.sock").exists(), "it is that of the other server now"
    other.server_close()
    assert not (tmp_path / "h.sock").exists()
    pool.close()
    store.close()
