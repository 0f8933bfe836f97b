"""A store of objects for tests: moto's server, which speaks S3 over HTTP, behind a proxy that fails and delays.

    lake ──▶ proxy ──▶ moto_server
             by a seed: 503 before the request, no answer behind it, an answer that takes a while

What the proxy does not answer has happened all the same: that is the case a writer has to be right in. The proxy is a
process, `python -m tests.spark.s3_proxy`: `deltalake` holds Python's lock in some requests, and would wait for itself.
"""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.services import need

BUCKET = "lakes"
KEY, SECRET = "AKIAPLANTEDKEY", "planted/Secret+of=the-lake"
#: Where the proxy takes its faults from, and says how far it is.
FAULTS = "/-/faults"
_ROOT = Path(__file__).resolve().parents[2]
_DEADLINE_S = 60.0
#: Enough for the server to know whom and which service is meant; it checks no signatures.
_SCOPE = f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


@dataclass
class Faults:
    """What the proxy does to requests, by chance; nothing, as it is."""

    seed: int = 1
    #: Shares of requests.
    refused: float = 0.0
    unanswered: float = 0.0
    delayed: float = 0.0
    #: The store knows no conditions: it puts whatever it is sent.
    unconditional: bool = False
    #: Transactions of Delta that happen, and are not answered; the next ones are.
    lost_commits: int = 0
    #: The only key that is let in, if any is named.
    key: str = ""
    #: Requests so far.
    count: int = 0


class S3:
    """The proxy, and the store behind it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    @property
    def faults(self) -> Faults:
        """As they are by now."""
        return Faults(**json.loads(ask(self._port, "GET", FAULTS)[1]))

    @faults.setter
    def faults(self, faults: Faults) -> None:
        ask(self._port, "PUT", FAULTS, json.dumps(asdict(faults)).encode())


def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
    try:
        asked.request(method, path, body, {"Authorization": _SCOPE})
        answer = asked.getresponse()
        return answer.status, answer.read()
    finally:
        asked.close()


@contextmanager
def s3_server(folder: Path) -> Iterator[S3]:
    """Runs, with an empty bucket."""
    program = need("moto_server", "'moto[s3]' flask flask-cors", "pip install")
    port = _free_port()
    with (folder / "moto.log").open("wb") as log:
        moto = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
        proxy = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.s3_proxy", str(port)], cwd=_ROOT, stdout=subprocess.PIPE, stderr=log
        )
        try:
            _make_bucket(moto, port)
            assert proxy.stdout is not None
            yield S3(int(proxy.stdout.readline()))
        finally:
            for process in (proxy, moto):
                process.kill()
                process.communicate()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _make_bucket(process: "subprocess.Popen[bytes]", port: int) -> None:
    while True:
        assert process.poll() is None, "moto_server has ended"
        try:
            status, said = ask(port, "PUT", f"/{BUCKET}")
        except OSError:
            threading.Event().wait(0.05)
        else:
            assert status == 200, said
            return
