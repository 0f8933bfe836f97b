"""`/plot`: a number of up to eight topics over time, as columns with their smallest, largest and last value."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from holdfast.durable.log import NO_END
from holdfast.history.past.counts import lost_at_most
from holdfast.history.past.json_paths import JsonPath, decode_payload, number_of, parse_path, value_at
from holdfast.history.past.messages import WAIT_S
from holdfast.history.past.questions import Question, wrong_value
from holdfast.history.past.time_scan import END, TIME, ScanLimits, older
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.records.messages import stored_payload
from holdfast.topics.names import SEPARATOR

_MOST_TOPICS: Final = 8
_MOST_POINTS: Final = 2_000
_DEFAULT_POINTS: Final = 600
#: All topics of a plot together.
_LOOKED_AT: Final = 2_000_000
_SECONDS: Final = 5.0


class _Axis(NamedTuple):
    """The time of a plot, [from, to), and how long a column is."""

    from_us: int
    to_us: int
    step_us: int


class _Column:
    """The numbers of one column of pixels."""

    def __init__(self) -> None:
        self.at_us = -1
        self.least: float | int = 0
        self.most: float | int = 0
        self.last: float | int = 0
        self.count = 0

    def add(self, at_us: int, number: float | int) -> None:
        if self.count == 0:
            self.least = self.most = number
        self.least, self.most = min(self.least, number), max(self.most, number)
        if at_us > self.at_us:
            self.at_us, self.last = at_us, number
        self.count += 1


def plot(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    question = Question(params, ("path", "from", "to", "points", "zone"), repeated=("topic",))
    question.needed("topic")
    names = list(dict.fromkeys(question.texts("topic")))
    if len(names) > _MOST_TOPICS:
        raise wrong_value("topic", f"{len(names)} topics are given; at most {_MOST_TOPICS} would be right")
    topics = [question.topic(name) for name in names]
    path = parse_path(question.text("path") or "$")
    points = question.number("points", _DEFAULT_POINTS, 1, _MOST_POINTS)
    from_us, to_us = question.range_us()
    with pool.reading(WAIT_S) as reader:
        zone = question.zone(reader.view().zones)
        parts = reader.parts(from_us, to_us, zone)
        from_us = from_us if question.has("from") else min([part.lo_us for part in parts], default=0)
        to_us = to_us if to_us != NO_END else max([part.hi_us for part in parts], default=from_us + 1)
        step_us = max(1, -((from_us - to_us) // points))
        axis = _Axis(from_us, to_us, step_us)
        limits = ScanLimits(_LOOKED_AT // len(topics), _SECONDS / len(topics), gone)
        series = [_series(reader, topic, path, axis, zone, limits) for topic in topics]
        yield {
            "from_us": from_us,
            "to_us": to_us,
            "step_us": step_us,
            "series": [{"topic": name, **one} for name, one in zip(names, series, strict=True)],
            "stopped": TIME if any(one["complete_from_us"] > from_us for one in series) else END,
            "lost_at_most": lost_at_most(reader.view(), from_us, to_us, zone),
            "ahead": question.is_ahead,
            "as_of_us": question.now_us,
        }


def _series(
    reader: HistoryReader, topic: bytes, path: JsonPath, axis: _Axis, zone: str | None, limits: ScanLimits
) -> dict[str, Any]:
    """The newest columns come first, so that a plot that is too long lacks its beginning."""
    from_us, to_us, step_us = axis
    columns: dict[int, _Column] = {}
    not_numbers = 0
    scan = older(reader, (to_us, 0), from_us, tuple(topic.split(SEPARATOR)), zone, limits)
    for found in scan:
        number = number_of(value_at(decode_payload(stored_payload(found.value)), path))
        if number is None:
            not_numbers += 1
            continue
        index = (found.position_us - from_us) // step_us
        column = columns.get(index)
        if column is None:
            column = columns[index] = _Column()
        column.add(found.position_us, number)
    return {
        "columns": [
            [from_us + index * step_us, column.least, column.most, column.last, column.count]
            for index, column in sorted(columns.items())
        ],
        "not_numbers": not_numbers,
        "complete_from_us": from_us if scan.stopped == END else scan.place[0],
    }
