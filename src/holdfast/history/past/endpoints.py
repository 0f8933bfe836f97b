"""The paths of the private socket, and the functions that answer them.

A function gets the readers, the parameters of the question, and `gone`, which says whether the client has left or has
asked something newer. It gives values for JSON: those of `ANSWERS` one, which is the whole body; those of `STREAMS` any
number, each a line that is sent as soon as it is known. A function of `FILES` gives bytes instead, in blocks.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from holdfast.history.past.density import density, parse_density
from holdfast.history.past.events import events
from holdfast.history.past.export import ExportFile, export
from holdfast.history.past.messages import messages
from holdfast.history.past.overview import leases, patterns, topics, zones
from holdfast.history.past.plots import plot
from holdfast.history.past.questions import Question
from holdfast.history.past.retained import retained
from holdfast.history.past.sessions import explain, queue, session, sessions
from holdfast.history.past.states import compare, state
from holdfast.history.reader.reader_pool import ReaderPool

Endpoint = Callable[[ReaderPool, Mapping[str, list[str]], Callable[[], bool]], Iterator[object]]
FileEndpoint = Callable[[ReaderPool, Mapping[str, list[str]], Callable[[], bool]], ExportFile]


def health(pool: ReaderPool, params: Mapping[str, list[str]], _gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    """HoldfastError if the data cannot be read."""
    Question(params, ())
    pool.view()
    yield {"ok": True}


def density_lines(
    pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]
) -> Iterator[dict[str, object]]:
    yield from density(pool, parse_density(params, pool.view().zones), gone)


ANSWERS: Final[Mapping[str, Endpoint]] = {
    "/compare": compare,
    "/events": events,
    "/explain": explain,
    "/healthz": health,
    "/leases": leases,
    "/messages": messages,
    "/patterns": patterns,
    "/plot": plot,
    "/queue": queue,
    "/retained": retained,
    "/session": session,
    "/sessions": sessions,
    "/state": state,
    "/topics": topics,
    "/zones": zones,
}

STREAMS: Final[Mapping[str, Endpoint]] = {"/density": density_lines}

FILES: Final[Mapping[str, FileEndpoint]] = {"/export": export}
