"""What a client asks for when it subscribes to the past.

$replay/-2h/plant/#                                     in the filter: any version of MQTT
user properties of SUBSCRIBE, for all its filters       MQTT 5
    replay-from     earliest · latest · Unix µs · ISO 8601 · -2h (s, m, h, d, w)
    stream-offset   the same under another broker's name
    replay-until    in the same words; the subscription delivers nothing from then on
    replay-speed    max: as fast as the client takes it · 1: as it was published · 10, 0.5: faster, slower
    replay-end      a topic: when the past is through, an empty message on it says so, to this client alone
user properties of SUBACK, for each filter that is replayed, in the order of the filters
    ts              when it was asked for, by the broker's clock
    replay-from     from when
    replay-until    until when, if there is an end
    replay-lake     up to when its messages come from a lake, which is slower, if any do; and replay-lake-state is
                    `away` if that could not be read the last time
"""

from typing import Final

from holdfast.durable.log import NO_END
from holdfast.exchange.pace import MILLION
from holdfast.model.errors import PeerError
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.topics.filters import TopicFilter
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import LATEST, is_number, parse_since

_FROM: Final = ("replay-from", "stream-offset")
_UNTIL: Final = "replay-until"
_SPEED: Final = "replay-speed"
_END: Final = "replay-end"
_MAX: Final = "max"

#: Digits of a speed in front of the point and behind it.
_WHOLE_DIGITS: Final = 9
_PART_DIGITS: Final = 6


class ReplaySpan:
    """From when until when, and how fast; a start by time is included, the end is not."""

    def __init__(self, from_us: int, until_us: int, speed: int = 0, end_topic: bytes = b"") -> None:
        self.from_us: Final = from_us
        self.until_us: Final = until_us
        #: Millionths; 0 for as fast as the client takes it.
        self.speed: Final = speed
        #: Where the client wants to be told that the past is through; empty if nowhere.
        self.end_topic: Final = end_topic

    def first_us(self) -> int:
        """Where a pace begins; 0 for the first message there is."""
        return self.from_us if self.from_us > 1 else 0

    def suback_properties(self, now_us: int) -> list[tuple[str, str]]:
        """What SUBACK says about it."""
        properties = [("ts", str(now_us)), (_FROM[0], str(self.from_us))]
        return properties if self.until_us == NO_END else [*properties, (_UNTIL, str(self.until_us))]


def parse_replay_request(
    topic_filter: TopicFilter, asked: tuple[tuple[str, str], ...], now_us: int, present_us: int
) -> ReplaySpan | None:
    """The span that is asked for; None if no replay is. PeerError if it cannot be given.

    `present_us` is behind everything that is stored. That is later than the clock for some seconds after a crash, and
    an end that is `latest` means all of it.
    """
    found = {name: value for name, value in asked if name in (*_FROM, _UNTIL, _SPEED, _END)}
    start = topic_filter.since or found.get(_FROM[0]) or found.get(_FROM[1])
    if not start:
        if found:
            raise PeerError(TOPIC_FILTER_INVALID, f"{', '.join(found)} without replay-from: say where to begin")
        return None
    speed = parse_speed(found.get(_SPEED, _MAX))
    from_us = max(1, parse_since(start).resolve(now_us))
    until_us = NO_END
    if _UNTIL in found:
        until_us = present_us if found[_UNTIL] == LATEST else parse_since(found[_UNTIL]).resolve(now_us)
        until_us = min(until_us, NO_END - 1)
    if topic_filter.group and (speed or until_us != NO_END or _END in found):
        # A group's position belongs to all its members: one of them cannot hold the others back.
        raise PeerError(
            TOPIC_FILTER_INVALID,
            "replay-until, replay-speed and replay-end are not for groups: leave them out, or $share",
        )
    return ReplaySpan(from_us, until_us, speed, _end_topic(found.get(_END)))


def _end_topic(text: str | None) -> bytes:
    if text is None:
        return b""
    try:
        check_topic_name(text.encode())
    except PeerError as error:
        raise PeerError(TOPIC_FILTER_INVALID, f"replay-end: {error.detail}") from None
    return text.encode()


def parse_speed(text: str) -> int:
    """`10` → 10,000,000 millionths, `max` → 0; PeerError if it is neither."""
    if text == _MAX:
        return 0
    whole, point, part = text.partition(".")
    if is_number(whole, _WHOLE_DIGITS) and (not point or is_number(part, _PART_DIGITS)):
        speed = int(whole) * MILLION + int(part.ljust(_PART_DIGITS, "0"))
        if speed:
            return speed
    raise PeerError(
        TOPIC_FILTER_INVALID,
        f"replay-speed {text[:40]!r} is neither 'max' nor a number above 0, such as 1 (as it was published), 10 or 0.5",
    )
