"""A process of our own beside the broker: it runs the same code, and ends when the broker closes its standard input."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import structlog

import holdfast

_log = structlog.get_logger()

#: Seconds that a process may take to end once its standard input has ended.
_END_S: Final = 5.0


@asynccontextmanager
async def child_process(
    module: str,
    environment: Mapping[str, str],
    limit_bytes: int = 1 << 16,
    *,
    arguments: Sequence[str] = (),
    with_errors: bool = False,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that runs a module, with pipes to its standard input and output; `limit_bytes` is read ahead.

    `with_errors`: standard error is a pipe, too, which the caller reads.

    Ensures: at the end of the block it has ended.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE if with_errors else None,
        limit=limit_bytes,
        env={**os.environ, "PYTHONPATH": _path(), **environment},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(_END_S):
                    await _end(process)
            except TimeoutError:
                _log.warning("a process does not end, and is killed", module=module, pid=process.pid)
                with suppress(ProcessLookupError):
                    process.kill()
                await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process. What it still has to say is read: it would not end before."""
    assert process.stdout is not None
    while await process.stdout.read(1 << 16):
        pass
    await process.wait()


def _path() -> str:
    """Our own source tree first, so that the process runs the same code."""
    tree = str(Path(holdfast.__file__).resolve().parents[1])
    return os.pathsep.join([tree, *filter(None, [os.environ.get("PYTHONPATH")])])
