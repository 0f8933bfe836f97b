"""A program that asks the console by HTTP, over one connection that is kept."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

_TIMEOUT_S = 120.0
_BLOCK_BYTES = 1 << 18


class Api:
    """Calls with a token."""

    def __init__(self, url: str, token: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        self._connection = http.client.HTTPConnection(address.hostname, address.port, timeout=_TIMEOUT_S)
        self._headers = {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def get(self, path: str, /, **parameters: object) -> bytes:
        """The body of an answer. SystemExit if it is refused."""
        return self._begin("GET", path, parameters).read()

    def value(self, path: str, /, **parameters: object) -> Any:
        return json.loads(self.get(path, **parameters))

    def post(self, path: str) -> bytes:
        return self._begin("POST", path, {}, b"{}").read()

    def lines(self, path: str, /, **parameters: object) -> Iterator[bytes]:
        """Line by line, as they come."""
        response = self._begin("GET", path, parameters)
        while line := response.readline():
            yield line

    def blocks(self, path: str, /, **parameters: object) -> Iterator[bytes]:
        """As they come, without a look at what is in them: who reads a file must not be slower than who makes it."""
        response = self._begin("GET", path, parameters)
        while block := response.read1(_BLOCK_BYTES):
            yield block

    def timed_ms(self, path: str, /, **parameters: object) -> float:
        """How long a whole answer took."""
        began_s = time.perf_counter()
        self.get(path, **parameters)
        return (time.perf_counter() - began_s) * 1e3

    def _begin(
        self, method: str, path: str, parameters: dict[str, object], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        # `from` is no name for an argument in Python.
        given = {name.rstrip("_"): value for name, value in parameters.items()}
        target = f"{path}?{urlencode(given)}" if given else path
        headers = self._headers
        if body is not None:
            headers = {**headers, "Content-Type": "application/json", "X-Holdfast": "1"}
        self._connection.request(method, target, body, headers)
        response = self._connection.getresponse()
        if response.status != http.client.OK:
            raise SystemExit(f"{method} {target}: {response.status} {response.read().decode(errors='replace')[:500]}")
        return response
