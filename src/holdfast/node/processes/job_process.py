"""A job of the console as a process: a command of `holdfast` that ends with the console (`cli.job`)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from holdfast.console.jobs.jobs import JobEnd
from holdfast.node.processes.child_process import child_process

_MODULE: Final = "holdfast.cli.job"
#: Seconds that an interrupted job has before it is killed.
_INTERRUPTED_S: Final = 10.0
#: What is kept of standard error.
_SAID_BYTES: Final = 4096


async def run_job(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    tell: Callable[[bytes], None],
    stop: asyncio.Event,
) -> JobEnd:
    """Run a command until it ends, or until it is interrupted by `stop`; `tell` gets its lines."""
    async with (
        child_process(_MODULE, environment, arguments=arguments, with_errors=True) as process,
        asyncio.TaskGroup() as tasks,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        saying = tasks.create_task(_read_end(process.stderr))
        stopping = tasks.create_task(_interrupt(process, stop))
        while line := await process.stdout.readline():
            tell(line)
        status = await process.wait()
        stopping.cancel()
        said = await saying
    return JobEnd(status, said.decode(errors="replace"))


async def _interrupt(process: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
    await stop.wait()
    assert process.stdin is not None
    process.stdin.close()
    await asyncio.sleep(_INTERRUPTED_S)
    with suppress(ProcessLookupError):
        process.kill()


async def _read_end(errors: asyncio.StreamReader) -> bytes:
    """The last bytes that are said."""
    kept = b""
    while data := await errors.read(_SAID_BYTES):
        kept = (kept + data)[-_SAID_BYTES:]
    return kept
