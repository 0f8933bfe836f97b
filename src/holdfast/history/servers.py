"""The servers of history in one process, on the same readers: two ports for programs, a private socket for the console.

    Arrow Flight, HTTP     ports; a token is needed to read          need Arrow
    past/server.py         a Unix socket; for the console alone      needs nothing

Without its ports the process needs no Arrow, and can end when nothing was asked for a while.
"""

import shutil
import socket as sockets
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from holdfast.history.past.endpoints import FILES, FileEndpoint
from holdfast.history.past.server import PastServer
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.history.settings import History
from holdfast.history.tokens import Tokens
from holdfast.model.errors import SettingsError

_log = structlog.get_logger()

#: Seconds between two checks for idle readers.
_TEND_S: Final = 5.0
#: Seconds between two checks whether HTTP shall end.
_POLL_S: Final = 0.1
#: Seconds that running calls get when it stops. Clients can repeat them.
_GRACE_S: Final = 2.0


class Ports:
    """Arrow Flight and HTTP. They serve as soon as they are made. Requires: `stop` at the end."""

    def __init__(self, folder: Path, settings: History, pool: ReaderPool) -> None:
        """SettingsError if a port is taken or a file is wrong."""
        # Imported here: the private socket is served without Arrow.
        from holdfast.history.flight.server import FlightServer
        from holdfast.history.http.server import HistoryHttp

        tls, context = _tls(settings)
        tokens = Tokens(settings.token_file)
        _check_port(settings.host, settings.flight_port)
        with _listening(settings.host, settings.http_port):
            self._http: Final[HistoryHttp] = HistoryHttp(pool, tokens, settings, context)
        self._flight: Final[FlightServer] = FlightServer(folder, pool, tokens, settings.host, settings.flight_port, tls)
        self.flight_port: Final = int(self._flight.port)
        self.http_port: Final = int(self._http.server_address[1])
        _begin(lambda: self._http.serve_forever(_POLL_S))

    def stop(self) -> None:
        _within(_GRACE_S, self._http.shutdown)
        self._http.server_close()
        _within(_GRACE_S, self._flight.shutdown)


class HistoryService:
    """Serves as soon as it is constructed. Requires: `stop` at the end."""

    def __init__(
        self,
        folder: Path,
        settings: History,
        socket: Path | None = None,
        *,
        ports: bool = True,
        more: Mapping[str, FileEndpoint] | None = None,
    ) -> None:
        """`socket` is where the console and the broker are served; `more` is answered there, too.

        PermanentError if the folder holds no data; SettingsError if a port is taken or a file is wrong.
        """
        # RocksDB secondaries write log files: all in one folder, which is removed with this process.
        self._scratch: Final = tempfile.mkdtemp(prefix="holdfast-history-")
        tempfile.tempdir = self._scratch
        self._stopped: Final = threading.Event()
        self._past: PastServer | None = None
        try:
            self._pool: Final = ReaderPool(folder, settings.max_readers)
            if socket is not None:
                self._past = PastServer(socket, self._pool, files={**FILES, **(more or {})})
            self.ports: Final = Ports(folder, settings, self._pool) if ports else None
        except BaseException:
            if self._past is not None:
                self._past.server_close()
            self._clean()
            raise
        if self._past is not None:
            past = self._past
            _begin(lambda: past.serve_forever(_POLL_S))
        _begin(self._tend)

    def idle_s(self) -> float:
        """Seconds since the console asked last."""
        return 0.0 if self._past is None else self._past.idle_s()

    def stop(self) -> None:
        """Stop within a time limit. Running responses may be cut off, which their clients notice."""
        self._stopped.set()
        if self._past is not None:
            _within(_GRACE_S, self._past.shutdown)
            self._past.server_close()
        if self.ports is not None:
            self.ports.stop()
        _within(_GRACE_S, self._pool.close)
        self._clean()

    def _clean(self) -> None:
        tempfile.tempdir = None
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _tend(self) -> None:
        while not self._stopped.wait(_TEND_S):
            try:
                self._pool.maintain()
            except Exception:
                _log.exception("readers could not be looked after")


def _begin(work: Callable[[], object]) -> None:
    threading.Thread(target=work, daemon=True, name="holdfast-history").start()


def _within(limit_s: float, work: Callable[[], object]) -> None:
    """Call it in a thread, and wait for a limited time: the process ends soon."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)


def _tls(settings: History) -> tuple[tuple[bytes, bytes] | None, ssl.SSLContext | None]:
    if settings.certificate is None or settings.key is None:
        return None, None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key)
        return (settings.certificate.read_bytes(), settings.key.read_bytes()), context
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"{settings.certificate} and {settings.key} are no certificate with its key: {error}"
        ) from error


def _check_port(host: str, port: int) -> None:
    """Check that a port is free. SettingsError if not; gRPC would not say why."""
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    with _listening(host, port), sockets.socket(family, sockets.SOCK_STREAM) as probe:
        probe.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        probe.bind(("" if host == "*" else host, port))


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"history cannot listen on {host}, port {port}: {error.strerror or error}") from error
