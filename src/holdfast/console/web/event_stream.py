"""The event stream of a page: server-sent events, one a second.

    event: stats     as `GET stats`        once a second, also when the broker is away: then with its age
    event: node      as `GET node`         when it has changed
    event: alarms    as `GET alarms`       when they have changed
    event: jobs      as `GET jobs`         all at first, then those that have changed
    : comment        every 15 s, so that proxies keep the connection

1. What is shown is encoded once a tick, whatever the number of streams; jobs, which are few, for each stream.
2. A stream ends when its login does, and when the console stops.
"""

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from holdfast.console.access.identity import Identity
    from holdfast.console.console import Console
    from holdfast.console.web.endpoints import Call

_COMMENT_S: Final = 15.0
#: Browsers connect again after this time.
_RETRY_MS: Final = 2000
#: Members of a node that change with every look, and are no news.
_PASSING: Final = ("now_us", "frame_age_s")

_json: Final = msgspec.json.Encoder()


async def stream_events(call: "Call") -> AsyncIterator[bytes]:
    """The bytes of a stream, until its login ends or its reader goes."""
    console = call.console
    events = console.events
    yield f"retry: {_RETRY_MS}\n\n".encode()
    node, alarms, jobs = events.node(), events.alarms(), console.jobs.version
    yield node + alarms + events.jobs_since(-1, call.caller) + events.stats()
    while True:
        ticked = await console.ticker.wait(_COMMENT_S)
        if console.ticker.is_closed or not call.is_still_allowed():
            return
        if not ticked:
            yield b": still here\n\n"
            continue
        news = events.stats()
        if events.node() != node:
            node = events.node()
            news += node
        if events.alarms() != alarms:
            alarms = events.alarms()
            news += alarms
        if console.jobs.version != jobs:
            news += events.jobs_since(jobs, call.caller)
            jobs = console.jobs.version
        yield news


class StreamEvents:
    """The events of the present tick, encoded once for all streams of a console."""

    def __init__(self, console: "Console") -> None:
        self._console: Final = console
        self._encoded: dict[str, tuple[int, bytes]] = {}

    def stats(self) -> bytes:
        console = self._console
        return self._once("stats", lambda: console.live.shown(console.now_s))

    def node(self) -> bytes:
        return self._once("node", self._shown_node)

    def alarms(self) -> bytes:
        return self._once("alarms", lambda: {"items": self._console.alarms.shown()["items"]})

    def jobs_since(self, version: int, caller: "Identity | None") -> bytes:
        """Jobs that have changed since then (`Jobs.changed_since`), as far as their topics may be read.

        Not kept: jobs change between two ticks as well.
        """
        jobs = self._console.jobs.changed_since(version)
        return _event("jobs", {"items": [job for job in jobs if caller is None or caller.may_read(job.replay.filter)]})

    def _shown_node(self) -> dict[str, Any]:
        shown = self._console.shown_node()
        return {name: value for name, value in shown.items() if name not in _PASSING}

    def _once(self, name: str, make: Callable[[], dict[str, Any]]) -> bytes:
        count, data = self._encoded.get(name, (-1, b""))
        if count != self._console.ticker.count:
            data = _event(name, make())
            self._encoded[name] = (self._console.ticker.count, data)
        return data


def _event(name: str, content: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + _json.encode(content) + b"\n\n"
