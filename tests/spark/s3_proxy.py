"""The proxy in front of a store of objects, as a process: it prints its port, and fails and delays what it passes on.

python -m tests.spark.s3_proxy PORT_OF_THE_STORE
"""

import http.client
import json
import random
import socket
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.spark.s3_server import FAULTS, Faults

_DEADLINE_S = 60.0
_DELAY_S = 0.05
_LENGTHS = ("content-length", "transfer-encoding", "connection")


class Proxy(ThreadingHTTPServer):
    daemon_threads = True
    #: Writers and their tasks ask at once.
    request_queue_size = 64

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = port
        self.lock = threading.Lock()
        self.set_faults(Faults())

    def set_faults(self, faults: Faults) -> None:
        with self.lock:
            self.faults = faults
            self.dice = random.Random(faults.seed)

    def draw(self, method: str, path: str) -> str:
        """What happens to a request."""
        faults = self.faults
        with self.lock:
            faults.count += 1
            if faults.lost_commits and method == "PUT" and "_delta_log/" in path:
                faults.lost_commits -= 1
                return "unanswered"
            chance = self.dice.random()
        for name in ("refused", "unanswered", "delayed"):
            chance -= getattr(faults, name)
            if chance < 0:
                return name
        return ""

    def handle_error(self, *_args: object) -> None:
        """A client that was killed hangs up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: Answers are written in two pieces.
    disable_nagle_algorithm = True
    server: Proxy

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == FAULTS:
            if body:
                self.server.set_faults(Faults(**json.loads(body)))
            self._answer(200, [], json.dumps(asdict(self.server.faults)).encode())
            return
        faults = self.server.faults
        if faults.key and f"Credential={faults.key}/" not in (self.headers.get("Authorization") or ""):
            self._answer(403, [], _refusal("InvalidAccessKeyId"))
            return
        fate = self.server.draw(self.command, self.path)
        if fate == "refused":
            self._answer(503, [], _refusal("SlowDown"))
            return
        if fate == "delayed":
            threading.Event().wait(_DELAY_S)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
        if faults.unconditional:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        asked = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=_DEADLINE_S)
        asked.request(self.command, self.path, body, headers)
        answer = asked.getresponse()
        content = answer.read()
        asked.close()
        if fate == "unanswered":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(answer.status, answer.getheaders(), content)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        is_head = self.command == "HEAD"
        self.send_response_only(status)
        for name, value in headers:
            if is_head or name.lower() not in _LENGTHS:
                self.send_header(name, value)
        if not is_head:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not is_head:
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815 names of http.server

    def log_message(self, *_args: object) -> None:
        """Nobody reads it."""


def _refusal(code: str) -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


def main(port: str) -> None:
    proxy = Proxy(int(port))
    print(proxy.server_address[1], flush=True)
    proxy.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
