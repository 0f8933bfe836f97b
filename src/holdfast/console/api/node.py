"""The node: what it is, its numbers, charts, alarms, the event stream, reload and log level."""

from typing import Annotated, Any, Final, Literal

import msgspec
from starlette.responses import Response, StreamingResponse

from holdfast.console.api.people import Empty
from holdfast.console.live.alarms import Alarm
from holdfast.console.live.charts import SERIES
from holdfast.console.problems import ProblemError, bad_parameter
from holdfast.console.web.endpoints import Call, Endpoint, Parameter
from holdfast.console.web.event_stream import stream_events
from holdfast.control.words import ListenerInfo, LogLevelRequest, Nothing, Reloaded
from holdfast.model.roles import ADMIN, OPERATOR, VIEWER
from holdfast.model.time import DAY_S, HOUR_US
from holdfast.topics.since import MAX_US

_MAX_SERIES = 64
#: A reload reads files of users and rules.
_RELOAD_S = 30.0
MAX_MUTE_S: Final = 30 * DAY_S


class MuteBody(msgspec.Struct, forbid_unknown_fields=True):
    #: How long; 0 ends it. The bounds are those of the document: `mute_alarm` checks them and describes what is wrong.
    seconds: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": MAX_MUTE_S})]


class ShownAlarm(Alarm, kw_only=True):
    """An alarm, with the part of the runbook that says what to do."""

    runbook: str


class ConsoleInfo(msgspec.Struct):
    version: str
    started_us: int


class NodeAnswer(msgspec.Struct, kw_only=True):
    """What the broker is, and whether it takes messages. What it alone knows is left out until it has answered."""

    #: That of `NodeInfo`; `away` while it does not answer.
    state: str
    detail: str
    now_us: int
    #: Seconds since the newest numbers came; null if none ever did.
    frame_age_s: float | None
    #: Whether there is a history process to ask.
    has_past: bool
    #: Whether this console shows a data folder without a broker.
    read_only: bool
    #: What the node knows of its cluster, by the names below `$SYS/broker/`; null without a cluster.
    cluster: Any
    console: ConsoleInfo
    time_zone_note: str
    data_folder: str | msgspec.UnsetType = msgspec.UNSET
    version: str | msgspec.UnsetType = msgspec.UNSET
    compiled: bool | msgspec.UnsetType = msgspec.UNSET
    pid: int | msgspec.UnsetType = msgspec.UNSET
    started_us: int | msgspec.UnsetType = msgspec.UNSET
    durability: str | msgspec.UnsetType = msgspec.UNSET
    listeners: tuple[ListenerInfo, ...] | msgspec.UnsetType = msgspec.UNSET


class ShownHistogram(msgspec.Struct):
    #: Upper bounds of the buckets but the last.
    bounds_s: tuple[float, ...]
    #: How many values were at most each bound and above the one before, since the start.
    counts: tuple[int, ...]
    sum: float


class StatsAnswer(msgspec.Struct, kw_only=True):
    """By the names of the metrics, without `holdfast_`."""

    #: When the broker counted; null if it never told.
    as_of_us: int | None
    age_s: float | None
    numbers: dict[str, float]
    #: By metric and by the value of its label.
    labelled: dict[str, dict[str, float]]
    histograms: dict[str, ShownHistogram]
    #: Counters per second, over the last five; those with a label added up.
    rates: dict[str, float]
    state: str | msgspec.UnsetType = msgspec.UNSET
    detail: str | msgspec.UnsetType = msgspec.UNSET


class AlarmPage(msgspec.Struct):
    as_of_us: int
    #: Active ones, then those that are over; the newest first.
    items: list[ShownAlarm]


class SeriesAnswer(msgspec.Struct):
    """Values by name and step; null where the broker did not run. Without names: the names there are."""

    step_s: int | None
    from_us: int | None
    names: list[str]
    values: list[list[float | None]]


class LogLevelBody(msgspec.Struct, forbid_unknown_fields=True):
    level: Literal["debug", "info", "warning", "error"]


async def node(call: Call) -> dict[str, Any]:
    console = call.console
    if console.link.is_connected:
        try:
            await console.ask_node()
        except ProblemError:
            # What it said last, and its age.
            return console.shown_node()
    return console.shown_node()


async def stats(call: Call) -> dict[str, Any]:
    return call.console.live.shown(call.console.now_s)


async def series(call: Call) -> dict[str, Any]:
    console = call.console
    now_us = console.clock.wall_us()
    text: str = call.parameters.get("names", "")
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        return {"step_s": None, "from_us": None, "names": list(SERIES), "values": []}
    for name in names:
        if name not in SERIES:
            raise bad_parameter("names", f"has {name[:100]!r}, which is no series; without names, all are listed")
    if len(names) > _MAX_SERIES:
        raise bad_parameter("names", f"has {len(names)} names; at most {_MAX_SERIES} are taken")
    to_us = call.parameters.get("to_us", now_us)
    from_us = call.parameters.get("from_us", to_us - HOUR_US)
    if from_us > to_us:
        raise bad_parameter("from_us", f"is {from_us}, behind to_us ({to_us}); it must be before it")
    # Nothing is known of times ahead of now.
    to_us = min(to_us, now_us)
    return console.charts.read(names, min(from_us, to_us), to_us, now_us)


async def stream(call: Call) -> Response:
    # Proxies pass events on one by one, and do not gather them.
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(stream_events(call), media_type="text/event-stream", headers=headers)


async def alarms(call: Call) -> dict[str, Any]:
    return call.console.alarms.shown()


async def mute_alarm(call: Call) -> dict[str, Any]:
    body: MuteBody = call.body
    name = call.path["name"]
    if not 0 <= body.seconds <= MAX_MUTE_S:
        raise bad_parameter("seconds", f"is {body.seconds}; it must be from 0 to {MAX_MUTE_S}")
    if name not in call.console.alarms.active_names:
        raise ProblemError(404, f"no alarm {name[:100]!r} is active")

    async def change() -> dict[str, Any]:
        muted = call.console.alarms.mute(name, body.seconds)
        if muted is None:
            raise ProblemError(404, f"the alarm {name} has just ended")
        return muted.shown()

    return dict(await call.audited("mute alarm", name, change, seconds=body.seconds))


async def reload(call: Call) -> Reloaded:
    async def change() -> msgspec.Struct:
        return await call.console.link.request("reload", Nothing(), _RELOAD_S)

    reloaded = await call.audited("reload", "", change)
    assert isinstance(reloaded, Reloaded)
    return reloaded


async def log_level(call: Call) -> Empty:
    body: LogLevelBody = call.body

    async def change() -> msgspec.Struct:
        return await call.console.link.request("log_level", LogLevelRequest(body.level))

    await call.audited("log level", body.level, change)
    return Empty()


_TIMES = (
    Parameter("from_us", "Begin, in microseconds since 1970.", "integer", None, 0, MAX_US),
    Parameter("to_us", "End, in microseconds since 1970; now if it is not given.", "integer", None, 0, MAX_US),
)

ENDPOINTS = (
    Endpoint("GET", "node", VIEWER, node, "What the broker is, and whether it takes messages.", answer=NodeAnswer),
    Endpoint(
        "GET",
        "stats",
        VIEWER,
        stats,
        "The newest numbers of the broker, with their age and rates.",
        answer=StatsAnswer,
    ),
    Endpoint(
        "GET",
        "series",
        VIEWER,
        series,
        "Charts: counters as rates per second, histograms as quantiles; null where the broker did not run.",
        (Parameter("names", "Names of series, with commas; without it, all names are listed."), *_TIMES),
        answer=SeriesAnswer,
    ),
    Endpoint(
        "GET",
        "stream",
        VIEWER,
        stream,
        "Server-sent events, one a second: `stats`, `node`, `alarms`, `jobs`.",
        content_types=("text/event-stream",),
    ),
    Endpoint("GET", "alarms", VIEWER, alarms, "Active alarms, then past ones.", answer=AlarmPage),
    Endpoint(
        "POST",
        "alarms/{name}/mute",
        OPERATOR,
        mute_alarm,
        "Mute an active alarm for some seconds; 0 ends that.",
        body=MuteBody,
        answer=ShownAlarm,
    ),
    Endpoint(
        "POST",
        "reload",
        ADMIN,
        reload,
        "Read settings, passwords, access rules, blocks and certificates again.",
        body=Empty,
        answer=Reloaded,
    ),
    Endpoint("POST", "log-level", ADMIN, log_level, "The least level of log lines.", body=LogLevelBody, answer=Empty),
)
