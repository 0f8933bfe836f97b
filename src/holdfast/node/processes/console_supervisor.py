"""Keeps the console process running beside a broker.

1. Its failure never ends the broker: the process is started again, after longer and longer pauses. A port in use is
   such a failure: the log names it, and the command that helps.
2. It ends with the broker, also with one that was killed: then its standard input ends (`console_main`).
3. It starts once clients are let in. A broker inside another program has one only if the settings say so.
"""

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import holdfast
from holdfast.console.options import ConsoleOptions
from holdfast.files.socket_path import socket_path
from holdfast.node.processes.child_process import child_process
from holdfast.node.processes.console_main import ConsoleStart, encode_start
from holdfast.node.processes.supervision import keep_running
from holdfast.node.settings.tree import Settings

#: In the data folder: charts, alarms, audit and one-time links.
STATE_FOLDER: Final = "console"
_STATE_PREFIX: Final = "holdfast-console-"


def start_console(settings: Settings, *, by_default: bool) -> "asyncio.Task[None] | None":
    """Start the process and its supervision if the settings enable it, or say nothing and `by_default` does.

    Pass the task to `supervision.end_task`.
    """
    enabled = settings.console.enabled
    return asyncio.create_task(_keep(settings)) if (by_default if enabled is None else enabled) else None


def console_start(settings: Settings, state_folder: Path, *, read_only: bool = False) -> ConsoleStart:
    """What the process is told."""
    console = settings.console
    on_disk = settings.on_disk()
    data = settings.storage.data.absolute()
    options = ConsoleOptions(
        host=console.host,
        port=console.port,
        user_file=_absolute(console.user_file),
        token_file=_absolute(console.token_file),
        certificate=_absolute(console.certificate),
        key=_absolute(console.key),
        behind_proxy=console.behind_proxy,
        allowed_hosts=console.hosts(),
        open_metrics=console.open_metrics,
        version=holdfast.__version__,
        data_folder=data if on_disk else None,
        state_folder=state_folder.absolute(),
        control_socket=None if on_disk else socket_path(data, on_disk=False),
        read_only=read_only,
    )
    history = settings.history if on_disk else None
    return ConsoleStart(options=options, history=history, log_level=settings.log.level, log_format=settings.log.format)


async def _keep(settings: Settings) -> None:
    if settings.on_disk():
        start = console_start(settings, settings.storage.data / STATE_FOLDER)
        await keep_running("console", lambda: _run(start))
        return
    # Nothing is kept on disk: charts and audit end with the broker, as its messages do.
    with TemporaryDirectory(prefix=_STATE_PREFIX, ignore_cleanup_errors=True) as folder:
        start = console_start(settings, Path(folder))
        await keep_running("console", lambda: _run(start))


async def _run(start: ConsoleStart) -> int:
    """Run the process until it ends; its exit status."""
    async with child_process("holdfast.node.processes.console_main", {}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode_start(start))
        while line := await process.stdout.readline():
            _print_link(line)
        return await process.wait()


def _print_link(line: bytes) -> None:
    """Print the link of a first start: not as a log line, because it is a secret."""
    with suppress(ValueError, AttributeError):
        link = json.loads(line).get("link")
        if link:
            print(f"console: {link}  (good once, for an hour, on this machine)", file=sys.stdout, flush=True)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.absolute()
