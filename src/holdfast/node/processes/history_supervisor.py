"""Keeps the history process running beside a broker: always, if the settings enable it; else while the console asks.

1. Its failure never ends the broker: the process is started again, after longer and longer pauses.
2. It ends with the broker, also with one that was killed: then its standard input ends (`history_main`).
3. A process that only the console needs is started by its first question, and ends by itself when no more are asked.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import structlog

from holdfast.files.socket_path import HISTORY, prepare_socket_path
from holdfast.model.errors import SettingsError, TransientError
from holdfast.node.lake_link import LakeLink
from holdfast.node.processes.child_process import child_process
from holdfast.node.processes.history_main import SCRATCH_PREFIX, encode_settings
from holdfast.node.processes.supervision import end_task, keep_running
from holdfast.node.settings.tree import Settings

_log = structlog.get_logger()

#: Seconds that a question waits for the process to serve.
_START_S: Final = 20.0


def start_history(settings: Settings) -> "asyncio.Task[None] | None":
    """Start the process and its supervision if the settings enable it. Pass the task to `end_history`."""
    if not settings.history.enabled:
        return None
    return asyncio.create_task(keep_running("history", lambda: _run(settings, _own_socket(settings), ports=True)))


async def end_history(keeping: "asyncio.Task[None] | None") -> None:
    """Ensures: the process has ended."""
    await end_task(keeping)


def lake_link(settings: Settings) -> LakeLink | None:
    """What replays ask for messages of the lake; None if the settings name none. Requires: `close` at the end."""
    if not settings.history.lake:
        return None

    async def find() -> Path:
        return _socket_of(settings.storage.data)

    return LakeLink(find)


class HistoryOnDemand:
    """The history process for the console: one that serves its socket alone is started when the console asks.

    Requires: `close` at the end. If the settings enable history, its process serves the socket, too: none is started.
    """

    def __init__(self, settings: Settings, *, start_s: float = _START_S) -> None:
        self._settings: Final = settings
        self._start_s: Final = start_s
        self._serving: Final = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def socket(self) -> Path:
        """Where the process serves, which was started if it did not run.

        TransientError if it does not serve in time: it is tried again, so ask later. SettingsError if there is no place
        for its socket.
        """
        path = _socket_of(self._settings.storage.data)
        if self._settings.history.enabled:
            return path
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(
                keep_running("history", lambda: self._run(path), ends=lambda status: status == 0)
            )
        try:
            async with asyncio.timeout(self._start_s):
                await self._serving.wait()
        except TimeoutError:
            raise TransientError(
                f"the history process has not come up within {self._start_s:g} s, and is started again; the log of the "
                "broker says why"
            ) from None
        return path

    async def close(self) -> None:
        """Ensures: the process has ended."""
        keeping, self._keeping = self._keeping, None
        await end_history(keeping)

    async def _run(self, path: Path) -> int:
        try:
            return await _run(self._settings, path, ports=False, on_served=self._serving.set)
        finally:
            self._serving.clear()


async def _run(
    settings: Settings, socket: Path | None, *, ports: bool, on_served: Callable[[], None] = lambda: None
) -> int:
    """Run the process until it ends; its exit status."""
    # A killed process leaves files of its RocksDB secondaries behind, so they are in a folder that is removed.
    with TemporaryDirectory(prefix=SCRATCH_PREFIX, ignore_cleanup_errors=True) as scratch:
        async with child_process("holdfast.node.processes.history_main", {"TMPDIR": scratch}) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            logs = settings.log
            folder = settings.storage.data.absolute()
            process.stdin.write(
                encode_settings(folder, settings.history, logs.level, logs.format, scratch, socket, ports=ports)
            )
            # It prints where it listens as soon as it does.
            while await process.stdout.read(4096):
                on_served()
            return await process.wait()


def _socket_of(folder: Path) -> Path:
    """Where the private socket lies: elsewhere, if nothing can be written beside the data. SettingsError: nowhere."""
    try:
        return prepare_socket_path(folder, HISTORY, on_disk=os.access(folder, os.W_OK | os.X_OK))
    except OSError as error:
        raise SettingsError(f"there is no place for the socket of the history process: {error}") from error


def _own_socket(settings: Settings) -> Path | None:
    """The private socket of a process that serves its ports in any case."""
    try:
        return _socket_of(settings.storage.data)
    except SettingsError as error:
        _log.warning("history serves no console", why=str(error))
        return None
