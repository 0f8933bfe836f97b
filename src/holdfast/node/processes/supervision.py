"""Keeps a process running beside a broker: it is started again when it ends, after longer and longer pauses."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

_log = structlog.get_logger()

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
#: A process that ran this long has started well: the next pause is short again.
LONG_S: Final = 60.0


async def keep_running(
    name: str, run: Callable[[], Awaitable[int]], *, ends: Callable[[int], bool] = lambda _status: False
) -> None:
    """Run a process again and again, until cancelled, or until it ends with a status that says it is not needed.

    `run` runs it until it ends, and returns its exit status. Its failure ends nothing: it is logged.
    """
    loop = asyncio.get_running_loop()
    pause_s = FIRST_PAUSE_S
    while True:
        began_s = loop.time()
        try:
            status = await run()
        except Exception:
            _log.exception("a process cannot be kept running, and is started again", process=name, pause_s=pause_s)
        else:
            if ends(status):
                return
            _log.warning("a process has ended, and is started again", process=name, status=status, pause_s=pause_s)
        if loop.time() - began_s >= LONG_S:
            pause_s = FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


async def end_task(task: "asyncio.Task[None] | None") -> None:
    """Ensures: the task has ended, and with it the process that it keeps."""
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
