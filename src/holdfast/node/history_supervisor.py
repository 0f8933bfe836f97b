"""Keeps the history process running beside a broker.

1. Its failure never ends the broker: the process is started again, after longer and longer pauses.
2. It ends with the broker, also with one that was killed: then its standard input ends (`history_main`).
"""

import asyncio
from tempfile import TemporaryDirectory
from typing import Final

import structlog

from holdfast.node.child_process import child_process
from holdfast.node.history_main import SCRATCH_PREFIX, encode_settings
from holdfast.node.settings.tree import Settings

_log = structlog.get_logger()

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
#: A process that ran this long has started well: the next pause is short again.
_LONG_S: Final = 60.0


def start_history(settings: Settings) -> "asyncio.Task[None] | None":
    """Start the process and its supervision if the settings enable it. Pass the task to `end_history`."""
    return asyncio.create_task(_keep(settings)) if settings.history.enabled else None


async def end_history(keeping: "asyncio.Task[None] | None") -> None:
    """Ensures: the process has ended."""
    if keeping is not None:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def _keep(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    pause_s = _FIRST_PAUSE_S
    while True:
        began_s = loop.time()
        try:
            # A killed process leaves files of its RocksDB secondaries behind, so they are in a folder that is removed.
            with TemporaryDirectory(prefix=SCRATCH_PREFIX, ignore_cleanup_errors=True) as scratch:
                status = await _run(settings, scratch)
        except Exception:
            _log.exception("the history process cannot be kept running, and is started again", pause_s=pause_s)
        else:
            _log.warning("the history process has ended, and is started again", status=status, pause_s=pause_s)
        if loop.time() - began_s >= _LONG_S:
            pause_s = _FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)


async def _run(settings: Settings, scratch: str) -> int:
    """Run the process until it ends; its exit status."""
    async with child_process("holdfast.node.history_main", {"TMPDIR": scratch}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        logs = settings.log
        words = encode_settings(settings.storage.data.absolute(), settings.history, logs.level, logs.format, scratch)
        process.stdin.write(words)
        # The log says where it listens. What it prints is for programs that run `holdfast history` themselves.
        while await process.stdout.read(4096):
            pass
        return await process.wait()
