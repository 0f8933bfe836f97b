"""`/state`: the newest message of each topic at a moment; `/compare`: what is different at another one.

    A - look-back          A
    ───────┤──●──○───●──○──┤─────▶     read backwards from A: the first message of a topic that is met is its state

1. A state ends at the look-back, at so many topics, or when its time is over, and says which.
2. A message belongs to the state at A if its position is in (A - look-back, A].
3. The retained state is that of messages with the retain flag alone; an empty one means that there is none.
"""

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from holdfast.history.past.counts import lost_at_most
from holdfast.history.past.json_paths import MISSING, decode_payload, differing_paths, format_path
from holdfast.history.past.message_json import FULL_BYTES, found_fields, text_or_base64
from holdfast.history.past.messages import WAIT_S
from holdfast.history.past.questions import Question, below
from holdfast.history.past.time_scan import END, SECONDS, TIME, FoundMessage, ScanLimits, older
from holdfast.history.reader.reader import HistoryReader
from holdfast.history.reader.reader_pool import ReaderPool
from holdfast.model.time import DAY_S, SECOND_US
from holdfast.records.messages import RETAIN, stored_payload, stored_topic
from holdfast.topics.filters import TopicFilter

#: Topics of a state, and seconds that it looks back if nothing else is asked for.
MOST_TOPICS: Final = 10_000
LOOK_BACK_S: Final = 3_600
_MOST_LOOK_BACK_S: Final = 100 * 365 * DAY_S
#: Messages that a state looks at: a busy topic stands in front of those that speak rarely.
_LOOKED_AT: Final = 2_000_000
#: Payloads that a comparison holds to find what is different in them; beyond it, and if larger, only whether they are.
_HELD_BYTES: Final = 64 << 20
#: Places in which two payloads differ that are told.
_MOST_PATHS: Final = 100

# Why a state has ended. They are values in answers: never change them.
LOOK_BACK: Final = "look_back"
TOPICS: Final = "topics"


class TopicState(NamedTuple):
    """The newest message of a topic at a moment."""

    fields: dict[str, Any]
    position_us: int
    place: tuple[int, int]
    digest: bytes
    #: The payload, if there was room for it.
    payload: bytes | None


class State(NamedTuple):
    """The newest message of each topic, and how far back that is known."""

    topics: dict[bytes, TopicState]
    looked_back_to_us: int
    stopped: str
    #: Whether every topic that had a message within the look-back is there.
    complete: bool


class StateQuestion(NamedTuple):
    """Which topics a state is about, and how far it looks back."""

    topic_filter: TopicFilter
    back_us: int
    zone: str | None
    most_topics: int = MOST_TOPICS
    #: Whether it is about messages with the retain flag alone.
    retained: bool = False


def state(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    question = Question(params, ("filter", "zone", "at", "look_back_s", "retained", "limit"))
    topic_filter = question.filter()
    at_us = question.moment_us("at", question.now_us)
    retained = question.flag("retained")
    most = question.number("limit", MOST_TOPICS, 1, MOST_TOPICS)
    back_us = _look_back_us(question)
    with pool.reading(WAIT_S) as reader:
        zone = question.zone(reader.view().zones)
        asked = StateQuestion(topic_filter, back_us, zone, most, retained)
        found = read_state(reader, asked, at_us, ScanLimits(_LOOKED_AT, gone=gone))
    yield {
        "at_us": at_us,
        "topics": [{**one.fields, "age_us": at_us - one.position_us} for one in found.topics.values()],
        "looked_back_to_us": found.looked_back_to_us,
        "stopped": found.stopped,
        "complete": found.complete,
        "ahead": question.is_ahead,
        "as_of_us": question.now_us,
    }


def compare(pool: ReaderPool, params: Mapping[str, list[str]], gone: Callable[[], bool]) -> Iterator[dict[str, object]]:
    question = Question(params, ("filter", "zone", "a", "b", "look_back_s"))
    topic_filter = question.filter()
    for name in ("a", "b"):
        question.needed(name)
    a_us, b_us = question.moment_us("a", 0), question.moment_us("b", 0)
    back_us = _look_back_us(question)
    with pool.reading(WAIT_S) as reader:
        asked = StateQuestion(topic_filter, back_us, question.zone(reader.view().zones))
        limits = ScanLimits(_LOOKED_AT, SECONDS / 2, gone)
        a, b = [read_state(reader, asked, at_us, limits) for at_us in (a_us, b_us)]
    both = [topic for topic in a.topics if topic in b.topics]
    changed = [topic for topic in both if a.topics[topic].digest != b.topics[topic].digest]
    yield {
        "a_us": a_us,
        "b_us": b_us,
        "came": [one.fields for topic, one in b.topics.items() if topic not in a.topics],
        "silent": [one.fields for topic, one in a.topics.items() if topic not in b.topics],
        "changed": [_change(topic, a.topics[topic], b.topics[topic]) for topic in changed],
        "same": len(both) - len(changed),
        "stopped": a.stopped if not a.complete else b.stopped,
        "complete": a.complete and b.complete,
        "ahead": question.is_ahead,
        "as_of_us": question.now_us,
    }


def read_state(reader: HistoryReader, asked: StateQuestion, at_us: int, limits: ScanLimits) -> State:
    """The state at a moment, the topic that spoke last first."""
    from_us = max(0, at_us - asked.back_us + 1)
    topics: dict[bytes, TopicState] = {}
    #: Topics whose newest retained message is empty.
    removed: set[bytes] = set()
    room_bytes = _HELD_BYTES
    one_topic = not asked.topic_filter.wildcard
    scan = older(reader, below(at_us), from_us, asked.topic_filter.levels, asked.zone, limits)
    for found in scan:
        topic = stored_topic(found.value)
        if topic in topics or topic in removed or (asked.retained and not found.value[1] & RETAIN):
            continue
        if len(topics) == asked.most_topics:
            return State(topics, found.position_us, TOPICS, complete=False)
        one = _topic_state(found, room_bytes)
        if asked.retained and not one.fields["bytes"]:
            removed.add(topic)
        else:
            topics[topic] = one
            room_bytes -= 0 if one.payload is None else len(one.payload)
        if one_topic:
            return State(topics, found.position_us, END, complete=True)
    if scan.stopped == TIME:
        return State(topics, min(scan.place[0], at_us), TIME, complete=False)
    is_whole = not lost_at_most(reader.view(), from_us, at_us + 1, asked.zone)
    return State(topics, from_us, _how_far(reader, from_us, asked.zone), is_whole)


def _how_far(reader: HistoryReader, from_us: int, zone: str | None) -> str:
    """Whether a scan that has come to its end met the look-back, or the beginning of what there is."""
    first_us = min([part.lo_us for part in reader.parts(zone=zone)], default=from_us)
    return LOOK_BACK if first_us < from_us else END


def _look_back_us(question: Question) -> int:
    return question.number("look_back_s", LOOK_BACK_S, 1, _MOST_LOOK_BACK_S) * SECOND_US


def _topic_state(found: FoundMessage, room: int) -> TopicState:
    payload = stored_payload(found.value)
    held = payload if len(payload) <= min(room, FULL_BYTES) else None
    digest = blake2b(payload, digest_size=16).digest()
    return TopicState(found_fields(found), found.position_us, found.place, digest, held)


def _change(topic: bytes, a: TopicState, b: TopicState) -> dict[str, Any]:
    return {"topic": text_or_base64(topic), "a": a.fields, "b": b.fields, "paths": _paths(a.payload, b.payload)}


def _paths(a: bytes | None, b: bytes | None) -> list[dict[str, Any]]:
    """Where two JSON payloads differ; nothing if one of them is none, or too large."""
    if a is None or b is None:
        return []
    one, other = decode_payload(a), decode_payload(b)
    if not isinstance(one, dict | list) or not isinstance(other, dict | list):
        return []
    return [
        {"path": format_path(path), "a": None if old is MISSING else old, "b": None if new is MISSING else new}
        for path, old, new in differing_paths(one, other, _MOST_PATHS)
    ]
