"""Jobs: what the console runs as separate processes."""

from typing import Literal

import msgspec

from holdfast.console.api.people import Empty
from holdfast.console.jobs.jobs import Job
from holdfast.console.jobs.replay_request import broker_target, check_replay, check_speed, check_text
from holdfast.console.problems import ProblemError, broker_away
from holdfast.console.web.endpoints import Call, Endpoint
from holdfast.model.roles import OPERATOR, VIEWER


class JobBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A replay: messages of a range, published again below a prefix, or to their topics."""

    kind: Literal["replay"]
    filter: str = ""
    #: Times as everywhere: -1h, ISO 8601, microseconds since 1970, `earliest`, `latest`.
    since: str = msgspec.field(name="from", default="")
    until: str = "latest"
    #: 1 as it was, 10 ten times as fast, max as fast as can be.
    speed: str = "max"
    #: What goes in front of topics; empty publishes to the topics themselves, and needs `confirm`.
    prefix: str = "replayed/"
    #: The filter once more.
    confirm: str = ""
    #: Who publishes, where clients need a name.
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return "JobBody(…)"


class ResumeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a job goes on."""

    #: Empty for the speed that it had.
    speed: str = ""
    #: That of the job's user: it is kept nowhere.
    password: str = ""

    def __repr__(self) -> str:
        return "ResumeBody(…)"


class JobPage(msgspec.Struct, frozen=True):
    as_of_us: int
    #: The newest first.
    items: list[Job]
    next_cursor: None


async def jobs(call: Call) -> JobPage:
    shown = call.console.jobs.shown()
    items = [job for job in shown["items"] if call.identity.may_read(job.replay.filter)]
    return JobPage(shown["as_of_us"], items, None)


async def start_job(call: Call) -> Job:
    body: JobBody = call.body
    console = call.console
    request = check_replay(
        topic_filter=body.filter,
        since=body.since,
        until=body.until,
        speed=body.speed,
        prefix=body.prefix,
        confirm=body.confirm,
        user=body.user,
        now_us=console.clock.wall_us(),
    )
    _check_password(body.user, body.password)
    call.identity.require_topics([body.filter], "filter")
    target = _target(call)
    console.jobs.check_new(request)

    async def change() -> Job:
        return console.jobs.start(request, target, call.identity.name, body.password)

    job: Job = await call.audited(
        "start replay",
        request.filter,
        change,
        from_us=request.from_us,
        until_us=request.until_us,
        speed=request.speed,
        prefix=request.prefix,
        user=request.user,
    )
    return job


async def stop_job(call: Call) -> Job:
    job = call.console.jobs.get(call.path["id"])
    call.identity.require_topics([job.replay.filter], "id")

    async def change() -> Job:
        return await call.console.jobs.stop(job.id)

    stopped: Job = await call.audited("stop job", job.id, change, filter=job.replay.filter)
    return stopped


async def resume_job(call: Call) -> Job:
    job = call.console.jobs.get(call.path["id"])
    call.identity.require_topics([job.replay.filter], "id")
    body: ResumeBody = call.body
    check_speed(body.speed or job.replay.speed)
    _check_password(job.replay.user, body.password)
    target = _target(call)

    async def change() -> Job:
        return call.console.jobs.resume(job.id, target, body.password, body.speed)

    resumed: Job = await call.audited("resume job", job.id, change, filter=job.replay.filter, place=job.place)
    return resumed


def _check_password(user: str, password: str) -> None:
    check_text("password", password)
    if password and not user:
        raise ProblemError(400, "password is given, and no user that it belongs to", parameter="user")


def _target(call: Call) -> list[str]:
    """Where the broker is. ProblemError (503) if it does not answer."""
    node = call.console.node
    if node is None or not call.console.link.is_connected or call.console.options.read_only:
        raise broker_away()
    return broker_target(node.listeners)


ENDPOINTS = (
    Endpoint("GET", "jobs", VIEWER, jobs, "Jobs that run, and the last that ended; the newest first.", answer=JobPage),
    Endpoint(
        "POST",
        "jobs",
        OPERATOR,
        start_job,
        "Start a job: a replay of a range.",
        body=JobBody,
        answer=Job,
        conflicts="The same job runs already, or as many as may run.",
    ),
    Endpoint(
        "POST",
        "jobs/{id}/stop",
        OPERATOR,
        stop_job,
        "Stop a job; its place is kept.",
        body=Empty,
        answer=Job,
        conflicts="It does not run.",
    ),
    Endpoint(
        "POST",
        "jobs/{id}/resume",
        OPERATOR,
        resume_job,
        "Go on behind the place where a job stopped.",
        body=ResumeBody,
        answer=Job,
        conflicts="It runs, or it is done.",
    ),
)
