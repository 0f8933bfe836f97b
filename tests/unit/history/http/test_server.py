"""History by HTTP: what was asked for, as a stream; what is wrong, as a status with words."""

import csv
import http.client
import io
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from holdfast.files.token_file import add_token
from holdfast.history.http.server import LOST_HEADER, HistoryHttp
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.settings import History
from holdfast.history.tokens import Tokens
from holdfast.model.clock import ManualClock
from holdfast.model.errors import PermanentError, TransientError
from tests.unit.storage.rocks.log_node import Node

START_US = 1_700_000_000_000_000


class Served:
    """A log of two generations, the first of 600 messages in 30 ms and the second of 40, an hour later."""

    def __init__(
        self,
        folder: Path,
        tokens: Path | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        requests: int = 64,
        per_address: int = 64,
        **more: Any,
    ) -> None:
        self.node = Node(folder / "data", ManualClock(wall_us=START_US))
        self.node.fill()
        self.node.clock.advance(3_600_000_000)
        self.node.maintenance.rotate(self.node.zone)
        self.node.fill(2)
        self.pool = ReaderPool(folder / "data", 4, wait_s=0.0)
        settings = History(http_port=0, max_requests=requests, max_requests_per_address=per_address)
        self.server = HistoryHttp(self.pool, Tokens(tokens), settings, tls, **more)
        self.address = ("127.0.0.1", self.server.server_address[1])
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        return self.ask("GET", path, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        source: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """`source` is the address that the client has."""
        client = http.client.HTTPConnection(*self.address, timeout=60, source_address=(source, 0) if source else None)
        try:
            client.request(method, path, body, headers=headers or {})
            response = client.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            client.close()

    def send(self, data: bytes) -> socket.socket:
        """A connection on which that was sent."""
        connection = socket.create_connection(self.address, timeout=60)
        connection.sendall(data)
        return connection

    def rows(self, query: str) -> list[dict[str, Any]]:
        status, headers, body = self.get(f"/history?{query}")
        assert (status, headers["Content-Type"]) == (200, "application/x-ndjson")
        return [json.loads(line) for line in body.splitlines()]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.pool.close()
        self.node.log.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("http"))
    yield served
    served.close()


def test_a_filter_gives_what_matches(served: Served) -> None:
    everything = served.rows("")
    assert 0 < len(everything) == 640 - len(served.rows("filter=$events/%23"))  # which `#` does not match
    temperatures = served.rows("filter=plant/%2B/temp")
    assert temperatures == [row for row in everything if row["topic"].endswith("/temp")]
    assert served.rows("filter=nowhere") == []
    assert list(served.rows("columns=topic,qos&limit=3")[0]) == ["topic", "qos"]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_a_limit_is_kept(served: Served, limit: int) -> None:
    assert len(served.rows(f"limit={limit}")) == limit


def test_times_in_the_words_of_a_replay(served: Served) -> None:
    early = served.rows("until=2023-11-14T23:00:00Z")
    late = served.rows("since=2023-11-14T23:00:00Z")
    assert len(early) + len(late) == len(served.rows("since=earliest"))
    assert len(late) < 41
    assert served.rows(f"since={START_US + 3_600_000_000}") == late
    assert served.rows("since=-1s") == []


def test_files_of_other_formats(served: Served) -> None:
    columns = "columns=topic,offset&filter=plant/%23"
    expected = [(row["topic"], row["offset"]) for row in served.rows(columns)]
    table = pq.read_table(io.BytesIO(served.get(f"/history?format=parquet&{columns}")[2]))
    assert list(zip(*table.to_pydict().values(), strict=True)) == expected
    lines = list(csv.DictReader(io.StringIO(served.get(f"/history?format=csv&{columns}")[2].decode())))
    assert [(line["topic"], int(line["offset"])) for line in lines] == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("filter=a/%23/b", "'#' must be the whole last level"),
        ("filter=a&filter=b", "filter is given 2 times"),
        ("since=yesterday", "since: "),
        ("since=5&until=4", "since (5) is not before until (4)"),
        ("format=xml", "there is no format 'xml'; there are ndjson, csv and parquet"),
        ("columns=topic,colour", "the column 'colour' does not exist"),
        ("limit=0", "limit is '0'"),
        ("zone=nowhere", "there is no zone 'nowhere'; there are default"),
        ("topic=a", "there is no parameter 'topic'; there are filter, "),
    ],
)
def test_what_is_wrong_is_told(served: Served, query: str, message: str) -> None:
    status, _headers, body = served.get(f"/history?{query}")
    assert (status, message in json.loads(body)["error"]) == (400, True)


def test_other_paths_and_health(served: Served) -> None:
    assert served.get("/healthz")[0] == 200
    status, _headers, body = served.get("/")
    assert status == 404
    assert "there are /history and /healthz" in json.loads(body)["error"]


def test_what_retention_took_is_told(tmp_path: Path) -> None:
    """L12"""
    served = Served(tmp_path)
    try:
        served.node.maintenance.drop_oldest(served.node.zone)
        served.node.settle()
        status, headers, body = served.get(f"/history?since={START_US}")
        assert (status, headers[LOST_HEADER]) == (200, "600")
        assert body.count(b"\n") < 41
        assert LOST_HEADER not in served.get("/history")[1]
    finally:
        served.close()


def test_without_the_token_there_is_nothing_and_a_wrong_one_is_told_from_none(tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens", "dashboard")
    served = Served(tmp_path, tmp_path / "tokens")
    try:
        assert served.get("/history?limit=1", Authorization=f"Bearer {token}")[0] == 200
        for missing in ({}, {"Authorization": f"Basic {token}"}, {"Authorization": token}):
            status, headers, body = served.get("/history?limit=1", **missing)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert json.loads(body)["error"].startswith("a token is needed; `holdfast token add`")
        status, headers, body = served.get("/history?limit=1", Authorization="Bearer x")
        assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
        assert json.loads(body)["error"].startswith("the token is not known; `holdfast token add`")
        assert served.get(f"/history?limit=1&token={token}")[0] == 401
        assert served.get("/healthz")[0] == 200
    finally:
        served.close()


def test_a_response_that_fails_half_way_does_not_look_whole(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = served.pool.scan

    def failing(part: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        yield from scan(part, *arguments, **options)
        raise PermanentError("a block is damaged")

    monkeypatch.setattr(served.pool, "scan", failing)
    with pytest.raises(http.client.IncompleteRead):
        served.get("/history")


@pytest.mark.parametrize(("error", "status"), [(TransientError("busy"), 503), (PermanentError("damaged"), 500)])
def test_what_fails_at_once_has_a_status(
    served: Served, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def failing(*_arguments: Any, **_options: Any) -> Iterator[Any]:
        raise error
        yield

    monkeypatch.setattr(served.pool, "scan", failing)
    assert served.get("/history")[0] == status


def test_a_client_that_leaves_gives_its_reader_back(served: Served) -> None:
    with socket.create_connection(served.address) as connection:
        connection.sendall(b"GET /history HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert served.get("/history?limit=1")[0] == 200
    while served.pool.busy():
        pass


def test_an_old_client_gets_it_too(served: Served) -> None:
    with socket.create_connection(served.address) as connection:
        connection.sendall(b"GET /history?limit=2 HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as file:
            head, _blank, body = file.read().partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert len([json.loads(line) for line in body.splitlines()]) == 2
