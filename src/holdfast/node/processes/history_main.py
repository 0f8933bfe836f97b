"""The history process: what `holdfast history` runs, and what a broker runs beside it.

    [history] enabled = true      two ports, and the private socket of the console; until the broker ends
    otherwise                     the private socket alone, from the console's first question on; until none was asked
                                  for IDLE_S

A broker writes the settings to standard input, as a line of JSON, and keeps the pipe open: when the broker ends, in any
way, the pipe ends. The process prints where its servers listen, as a line of JSON, to standard output.
"""

if __name__ == "__main__":
    import holdfast.node.processes.light_structlog  # noqa: F401

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from holdfast.durable.lake_page import LAKE_PATH
from holdfast.history.settings import History
from holdfast.history.without_pandas import refuse_pandas
from holdfast.model.errors import HoldfastError
from holdfast.node.logs import configure_logs

if TYPE_CHECKING:
    from holdfast.history.past.endpoints import FileEndpoint

_log = structlog.get_logger()

#: So that the broker gets the processor first when both want it.
_NICE: Final = 10
SCRATCH_PREFIX: Final = "holdfast-history-"
CANNOT_START: Final = 2
#: Seconds without a question after which a process that only the console needs ends.
IDLE_S: Final = 600.0
#: Seconds between two looks whether that is so.
_LOOK_S: Final = 1.0
#: The data folder, settings, level and form of logs, the folder for temporary files, the private socket, and whether
#: the ports are served, too.
_Words = tuple[Path, History, str, str, Path, Path | None, bool]


def serve_history(
    folder: Path,
    settings: History,
    stop: threading.Event,
    socket: Path | None = None,
    *,
    ports: bool = True,
    idle_s: float = IDLE_S,
) -> None:
    """Serve until `stop` is set, or without ports until nothing was asked for `idle_s`. Prints the addresses to
    standard output. HoldfastError if it cannot serve.
    """
    # Imported here: printing the help needs no database.
    from holdfast.history.servers import HistoryService

    service = HistoryService(folder, settings, socket, ports=ports, more=_lake_endpoints(settings))
    try:
        places: dict[str, object] = {} if socket is None else {"socket": str(socket)}
        if service.ports is not None:
            places |= {"flight_port": service.ports.flight_port, "http_port": service.ports.http_port}
            tls = settings.certificate is not None
            _log.info("history is served", host=settings.host, **places, tls=tls, pid=os.getpid())
        else:
            _log.info("history is served to the console", **places, pid=os.getpid())
        print(json.dumps(places), flush=True)
        while not stop.wait(None if ports else _LOOK_S):
            if service.idle_s() >= idle_s:
                _log.info("the console has asked nothing for a while, and history ends", idle_s=idle_s)
                return
    finally:
        service.stop()


def _lake_endpoints(settings: History) -> "Mapping[str, FileEndpoint]":
    """What the broker asks for replays; nothing if there is no lake."""
    if not settings.lake:
        return {}
    # Imported here: Delta is loaded where there is a lake.
    from holdfast.pipeline.lake.lake_pages import LakePages

    return {LAKE_PATH: LakePages(settings.lake).answer}


def stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_signal: stop.set())
    return stop


def encode_settings(
    folder: Path,
    settings: History,
    level: str,
    form: str,
    scratch: str,
    socket: Path | None = None,
    *,
    ports: bool = True,
) -> bytes:
    """The line that the process reads. `scratch` is the folder for its temporary files, which it removes at its end."""
    return msgspec.json.encode((folder, settings, level, form, scratch, socket, ports), enc_hook=str) + b"\n"


def decode_settings(line: bytes) -> _Words:
    words: _Words = msgspec.json.decode(line, type=_Words, dec_hook=lambda path, text: path(text))
    return words


def main() -> None:
    """The history process of a broker."""
    stop = stop_on_signals()
    # Ctrl-C reaches both processes; the broker decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder, settings, level, form, scratch, socket, ports = decode_settings(sys.stdin.buffer.readline())
    configure_logs(level, form)
    os.nice(_NICE)
    threading.Thread(target=_watch_the_broker, args=(stop,), daemon=True).start()
    status = 0
    try:
        serve_history(folder, settings, stop, socket, ports=ports)
    except HoldfastError as error:
        _log.error("history cannot be served", why=str(error))
        status = CANNOT_START
    if scratch.name.startswith(SCRATCH_PREFIX):
        shutil.rmtree(scratch, ignore_errors=True)  # a broker that was killed cannot remove it
    # Not sys.exit: threads of gRPC may be busy. Nothing is lost, all of it can be read again.
    sys.stderr.flush()
    os._exit(status)


def _watch_the_broker(stop: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    stop.set()


if __name__ == "__main__":
    refuse_pandas()
    main()
