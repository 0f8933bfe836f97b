"""The jobs of a console: known kinds of commands, each a separate process, kept in a file of the console's folder.

    POST jobs ──▶ running ──┬──▶ done
                     ▲      ├──▶ failed ──┐
                     │      └──▶ stopped ─┤     by `stop`, or with the console
                     └────── resume ──────┘     behind the place that the process told last

1. A job that runs is not started a second time.
2. Jobs end with the console. What ran when the console was killed is `stopped` at its next start, and can go on.
3. The file has no secret: a user who resumes a job gives the password again.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import structlog

from holdfast.console.jobs.replay_request import (
    PASSWORD_VARIABLE,
    ReplayRequest,
    command_text,
    replay_arguments,
)
from holdfast.console.problems import ProblemError
from holdfast.files.private import FILE_MODE
from holdfast.files.replacement import replace_file
from holdfast.model.clock import Clock

_log = structlog.get_logger()

#: Jobs that run at once; each is a process, and a connection or two.
MAX_RUNNING: Final = 4
#: Ended jobs that are kept.
MAX_KEPT: Final = 100
#: Seconds that jobs have to end with the console; the broker gives the console five.
_CLOSE_S: Final = 3.5
_MAX_DETAIL: Final = 1000
WITH_THE_CONSOLE: Final = "it ended with the console"


class JobEnd(NamedTuple):
    """How a process ended."""

    status: int
    #: What it said on standard error, the end of it.
    said: str


#: Runs a command of `holdfast`: its arguments, variables of its environment, who gets its lines, and when to interrupt
#: it. A cancelled run ends the process.
RunJob = Callable[[Sequence[str], Mapping[str, str], Callable[[bytes], None], asyncio.Event], Awaitable[JobEnd]]


class Job(msgspec.Struct, kw_only=True):
    """A job, as the API shows it and the file keeps it."""

    id: str
    kind: Literal["replay"]
    state: Literal["running", "done", "stopped", "failed"]
    replay: ReplayRequest
    #: Who started it.
    by: str
    began_us: int
    ended_us: int | None = None
    #: Published so far, over all runs.
    messages: int = 0
    bytes: int = 0
    #: The time of the last message that was published.
    at_us: int | None = None
    #: The part that is done, 0 to 1; None if it is not known.
    share: float | None = None
    #: Behind which another run goes on; empty before the first message.
    place: str = ""
    #: Why it failed or ended.
    detail: str = ""
    #: The command of the last run.
    command: str = ""


class _Progress(msgspec.Struct):
    """A line of `holdfast replay --progress`."""

    messages: int
    bytes: int
    at_us: int | None = None
    share: float | None = None
    place: str | None = None


class _Kept(msgspec.Struct):
    version: int
    jobs: list[Job]


@dataclass
class _Run:
    """A job that runs: what was done before, and how to end it."""

    messages: int
    bytes: int
    share: float
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    detail: str = ""
    task: "asyncio.Task[None] | None" = None


class Jobs:
    """Requires: `close` at the end."""

    def __init__(self, path: Path, clock: Clock, run: RunJob | None) -> None:
        """Without `run` nothing can be started."""
        self._path: Final = path
        self._clock: Final = clock
        self._run: Final = run
        #: The newest last.
        self._jobs: Final = {job.id: job for job in _load(path)}
        self._running: Final[dict[str, _Run]] = {}
        #: Counts changes, and which one each job had last.
        self.version = 0
        self._changed: Final[dict[str, int]] = {}

    def shown(self) -> dict[str, Any]:
        """The newest first."""
        return {"as_of_us": self._clock.wall_us(), "items": list(self._jobs.values())[::-1], "next_cursor": None}

    def changed_since(self, version: int) -> list[Job]:
        """Jobs that have changed since `version` was the present one, the newest first; all of them since -1."""
        jobs = reversed(self._jobs.values())
        return [job for job in jobs if version < 0 or self._changed.get(job.id, 0) > version]

    def get(self, id_: str) -> Job:
        """ProblemError (404) if there is no such job."""
        job = self._jobs.get(id_)
        if job is None:
            raise ProblemError(404, f"there is no job {id_[:100]!r}")
        return job

    def check_new(self, request: ReplayRequest) -> None:
        """ProblemError (409) if it runs already, or too many do; 503 if nothing can be started."""
        if self._run is None:
            raise ProblemError(503, "this console starts no jobs")
        for id_ in self._running:
            if self._jobs[id_].replay.is_same(request):
                detail = f"this replay runs already, as the job {id_}; stop it first, or wait for its end"
                raise ProblemError(409, detail, extra={"job": id_})
        if len(self._running) >= MAX_RUNNING:
            raise ProblemError(409, f"{MAX_RUNNING} jobs run already; stop one, or wait for its end")

    def start(self, request: ReplayRequest, target: Sequence[str], by: str, password: str) -> Job:
        """Start a job. ProblemError as `check_new`."""
        self.check_new(request)
        job = Job(
            id=secrets.token_hex(4),
            kind="replay",
            state="running",
            replay=request,
            by=by,
            began_us=self._clock.wall_us(),
        )
        self._jobs[job.id] = job
        self._begin(job, target, password)
        return job

    def resume(self, id_: str, target: Sequence[str], password: str, speed: str = "") -> Job:
        """Go on behind the place of a job that was stopped or has failed. ProblemError (404, 409).

        At another speed if one is given.
        """
        job = self.get(id_)
        if job.state not in ("stopped", "failed"):
            raise ProblemError(409, f"the job is {job.state}; one that was stopped or has failed can go on")
        self.check_new(job.replay)
        job.state, job.ended_us, job.detail = "running", None, ""
        job.replay = msgspec.structs.replace(job.replay, speed=speed or job.replay.speed)
        self._begin(job, target, password)
        return job

    async def stop(self, id_: str) -> Job:
        """Interrupt a job and wait for its end. ProblemError (404, 409)."""
        job = self.get(id_)
        run = self._running.get(id_)
        if run is None or run.task is None:
            raise ProblemError(409, f"the job is {job.state}; one that runs can be stopped")
        run.stop.set()
        await asyncio.wait([run.task])
        return job

    async def close(self) -> None:
        """Ensures: no job runs."""
        tasks = []
        for run in self._running.values():
            run.detail = WITH_THE_CONSOLE
            run.stop.set()
            if run.task is not None:
                tasks.append(run.task)
        if tasks:
            _done, late = await asyncio.wait(tasks, timeout=_CLOSE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # ---- a run

    def _begin(self, job: Job, target: Sequence[str], password: str) -> None:
        assert self._run is not None  # by `check_new`
        arguments = replay_arguments(job.replay, target, job.place, password=bool(password))
        job.command = command_text(arguments)
        environment = {PASSWORD_VARIABLE: password} if password else {}
        run = self._running[job.id] = _Run(job.messages, job.bytes, job.share or 0.0)
        self._note(job)
        self._save()
        run.task = asyncio.create_task(self._watch(job, run, self._run, arguments, environment))

    async def _watch(
        self, job: Job, run: _Run, process: RunJob, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        _log.info("job begins", job=job.id, kind=job.kind, filter=job.replay.filter, by=job.by)
        state: Literal["done", "stopped", "failed"] = "stopped"
        try:
            end = await process(arguments, environment, lambda line: self._take(job, run, line), run.stop)
            if end.status == 0:
                state, job.share = "done", 1.0
            elif run.stop.is_set():
                job.detail = run.detail
            else:
                state, job.detail = "failed", _reason(end)
        except asyncio.CancelledError:
            job.detail = run.detail
            raise
        except OSError as error:
            state, job.detail = "failed", f"the process cannot be started: {error.strerror}"
        except Exception:
            _log.exception("a job failed in the console", job=job.id)
            state, job.detail = "failed", "the console failed to run it; its log says why"
        finally:
            job.state, job.ended_us = state, self._clock.wall_us()
            del self._running[job.id]
            self._note(job)
            self._save()
            _log.info("job ended", job=job.id, state=job.state, messages=job.messages)

    def _take(self, job: Job, run: _Run, line: bytes) -> None:
        try:
            told = msgspec.json.decode(line, type=_Progress)
        except msgspec.MsgspecError:
            _log.warning("a job said what is no progress", job=job.id, line=line[:200])
            return
        self._note(job)
        job.messages, job.bytes = run.messages + told.messages, run.bytes + told.bytes
        job.at_us = told.at_us or job.at_us
        if told.share is not None:
            # A run that goes on counts from its own beginning.
            job.share = run.share + (1.0 - run.share) * told.share
        if told.place and told.place != job.place:
            job.place = told.place
            self._save()

    def _note(self, job: Job) -> None:
        self.version += 1
        self._changed[job.id] = self.version

    # ---- the file

    def _save(self) -> None:
        ended = [id_ for id_ in self._jobs if id_ not in self._running]
        for id_ in ended[: max(0, len(ended) - MAX_KEPT)]:
            del self._jobs[id_]
            self._changed.pop(id_, None)
        try:
            kept = msgspec.json.encode(_Kept(1, list(self._jobs.values())))
            # Without a sync: what a power loss takes is a second of progress, and the loop does not wait for the disk.
            replace_file(self._path, kept, mode=FILE_MODE, sync=False)
        except OSError as error:
            _log.warning("jobs cannot be kept", why=error.strerror)


def _reason(end: JobEnd) -> str:
    lines = [line for line in end.said.splitlines() if line.strip()]
    return (lines[-1] if lines else f"the process ended with status {end.status}")[:_MAX_DETAIL]


def _load(path: Path) -> list[Job]:
    try:
        jobs = msgspec.json.decode(path.read_bytes(), type=_Kept).jobs
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("kept jobs cannot be read, and are begun again", why=str(error))
        return []
    for job in jobs:
        if job.state == "running":
            job.state, job.detail = "stopped", WITH_THE_CONSOLE
    return jobs
