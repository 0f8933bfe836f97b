"""Keeps the history process running beside a broker.

1. It never takes the broker with it: whatever becomes of it, it is started again, after longer and longer pauses.
2. It ends with the broker, also with one that was killed: then its standard input ends (`history_child`).
"""

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import structlog

import holdfast
from holdfast.node.history_child import SCRATCH_PREFIX, encode_settings
from holdfast.node.settings import Settings

_log = structlog.get_logger()

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
#: A process that ran so long did not fail to start.
_LONG_S: Final = 60.0
#: Seconds that it may take to end when it is told to.
_END_S: Final = 5.0


def start_history(settings: Settings) -> "asyncio.Task[None] | None":
    """Begin to keep it running, if the settings ask for it. To be handed to `end_history`."""
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
            status = await _run(settings)
        except Exception:
            _log.exception("the history process cannot be kept running, and is started again", pause_s=pause_s)
        else:
            _log.warning("the history process has ended, and is started again", status=status, pause_s=pause_s)
        if loop.time() - began_s >= _LONG_S:
            pause_s = _FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)


async def _run(settings: Settings) -> int:
    """One life of it; its exit status."""
    # A process that is killed leaves the diaries of its secondaries behind; so they have a folder that goes with it.
    scratch = tempfile.mkdtemp(prefix=SCRATCH_PREFIX)
    try:
        return await _run_in(scratch, settings)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


async def _run_in(scratch: str, settings: Settings) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "holdfast.node.history_child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": _path(), "TMPDIR": scratch},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        logs = settings.log
        words = encode_settings(settings.storage.data.absolute(), settings.history, logs.level, logs.format, scratch)
        process.stdin.write(words)
        # It says in the log where it listens; what else it prints is for programs that run it alone.
        while await process.stdout.read(4096):
            pass
        return await process.wait()
    finally:
        if process.returncode is None:
            process.stdin.close()
            try:
                async with asyncio.timeout(_END_S):
                    await process.wait()
            except TimeoutError:
                _log.warning("the history process does not end, and is killed", pid=process.pid)
                process.kill()
                await process.wait()


def _path() -> str:
    """The same tree as ours, first."""
    tree = str(Path(holdfast.__file__).resolve().parents[1])
    return os.pathsep.join([tree, *filter(None, [os.environ.get("PYTHONPATH")])])
