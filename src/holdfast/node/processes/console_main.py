"""The console process: what a broker runs beside it, and what `holdfast console` runs alone.

A broker writes the options to standard input, as a line of JSON, and keeps the pipe open: when the broker ends, in any
way, the pipe ends, and the console with it. The process prints a line of JSON to standard output when it serves:

    {"url": "http://127.0.0.1:18083", "link": "http://127.0.0.1:18083/login#token=…"}

`link` is there at the first start only, while there is no other way in; the broker prints it, and no log has it.
"""

if __name__ == "__main__":
    import holdfast.node.processes.light_structlog  # noqa: F401

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from holdfast.console.options import ConsoleOptions
from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_json
from holdfast.history.settings import History
from holdfast.model.errors import PermanentError, SettingsError
from holdfast.node.logs import configure_logs
from holdfast.node.settings.tree import Log, Settings, Storage
from holdfast.node.system_clock import SystemClock

_log = structlog.get_logger()

#: So that the broker gets the processor first when both want it.
_NICE: Final = 5
FAILED: Final = 1
CANNOT_START: Final = 2
#: Where commands find the address of the console.
ADDRESS_FILE: Final = "address.json"


class ConsoleStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is told."""

    options: ConsoleOptions
    #: How the history process is started; None if there is no past.
    history: History | None
    log_level: str = "info"
    log_format: str = "auto"


def encode_start(start: ConsoleStart) -> bytes:
    """The line that the process reads."""
    return msgspec.json.encode(start, enc_hook=str) + b"\n"


def decode_start(line: bytes) -> ConsoleStart:
    return msgspec.json.decode(line, type=ConsoleStart, dec_hook=lambda kind, text: kind(text))


async def serve_console(start: ConsoleStart, stop: asyncio.Event, tell: Callable[[dict[str, str]], None]) -> None:
    """Serve until `stop` is set; `tell` gets the addresses. SettingsError if it cannot serve.

    PermanentError if it cannot go on.
    """
    # Imported here: a command that prints its help needs no web server.
    from holdfast.console.access.one_time_links import login_address, make_link
    from holdfast.console.console import Console
    from holdfast.console.web.app import ConsoleApp
    from holdfast.console.web.server import address_of, open_socket, serving
    from holdfast.node.processes.history_supervisor import HistoryOnDemand
    from holdfast.node.processes.job_process import run_job

    options = start.options
    listening = open_socket(options)
    history = None
    find: Callable[[], Awaitable[Path]] | None = None
    if start.history is not None and options.data_folder is not None:
        log: Any = {"level": start.log_level, "format": start.log_format}
        storage = Storage(data=options.data_folder)
        history = HistoryOnDemand(Settings(storage=storage, history=start.history, log=Log(**log)))
        find = history.socket
    try:
        console = _make(Console, options, find, run_job)
        if history is not None and start.history is not None and start.history.enabled:
            # It runs without being asked, so its numbers are known from the start.
            with suppress(SettingsError):
                console.history.path = await history.socket()
        async with console.running(), serving(ConsoleApp(console), options, listening):
            url = address_of(listening, options)
            addresses = {"url": url}
            is_first = not (options.state_folder / ADDRESS_FILE).exists()
            if is_first and not console.login.has_credentials:
                addresses["link"] = login_address(url, make_link(options.state_folder))
            replace_json(options.state_folder / ADDRESS_FILE, {"version": 1, "url": url}, mode=FILE_MODE)
            hint = _login_hint(options, has_link="link" in addresses)
            _log.info("console is served", url=url, login=hint, pid=os.getpid())
            tell(addresses)
            await _first_of(stop, console.failed)
            console.ticker.close()
            if console.failed.is_set():
                raise PermanentError("the console cannot go on; its log says why")
    finally:
        listening.close()
        if history is not None:
            await history.close()


async def _first_of(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def _make(console: Any, options: ConsoleOptions, find: Callable[[], Awaitable[Path]] | None, run_job: Any) -> Any:
    try:
        return console(options, SystemClock(), find, run_job)
    except OSError as error:
        raise SettingsError(f"the folder of the console cannot be used: {error}") from error


def _login_hint(options: ConsoleOptions, *, has_link: bool) -> str:
    if has_link:
        return "the link on standard output"
    if options.data_folder is None:
        return "a user or a token"
    return f"holdfast console open --data {options.data_folder}"


def main() -> None:
    """The console process of a broker."""
    # Ctrl-C reaches both processes; the broker decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start = decode_start(sys.stdin.buffer.readline())
    configure_logs(start.log_level, start.log_format)
    os.nice(_NICE)
    try:
        asyncio.run(_serve_broker(start))
    except SettingsError as error:
        _log.error("console cannot be served; the broker runs on", why=str(error))
        sys.exit(CANNOT_START)
    except PermanentError:
        sys.exit(FAILED)


async def _serve_broker(start: ConsoleStart) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def watch_the_broker() -> None:
        while await reader.read(4096):
            pass
        stop.set()

    def tell(addresses: dict[str, str]) -> None:
        try:
            # Not by `print`: what that cannot write it tries again when the process ends.
            os.write(sys.stdout.fileno(), json.dumps(addresses).encode() + b"\n")
        except BrokenPipeError:
            stop.set()  # the broker was killed meanwhile

    watching = asyncio.create_task(watch_the_broker())
    try:
        await serve_console(start, stop, tell)
    finally:
        watching.cancel()


if __name__ == "__main__":
    main()
