"""What a client asks for when it subscribes to the past.

$replay/-2h/plant/#                                     in the filter: any version of MQTT
user properties of SUBSCRIBE, for all its filters       MQTT 5
    replay-from     earliest · latest · Unix µs · ISO 8601 · -2h (s, m, h, d, w)
    stream-offset   the same under another broker's name
    replay-until    in the same words; the subscription delivers nothing from then on
    replay-speed    max: as fast as the client takes it
    replay-end      a topic: when the past is through, an empty message on it says so, to this client alone
user properties of SUBACK, for each filter that is replayed, in the order of the filters
    ts              when it was asked for, by the broker's clock
    replay-from     from when
    replay-until    until when, if there is an end
"""

from typing import Final

from holdfast.durable.log import FOR_EVER
from holdfast.model.errors import PeerError
from holdfast.model.reasons import IMPLEMENTATION_SPECIFIC_ERROR, TOPIC_FILTER_INVALID
from holdfast.topics.filters import TopicFilter
from holdfast.topics.names import check_topic_name
from holdfast.topics.since import LATEST, parse_since

_FROM: Final = ("replay-from", "stream-offset")
_UNTIL: Final = "replay-until"
_SPEED: Final = "replay-speed"
_END: Final = "replay-end"


class Span:
    """From when until when; a start by time is included, the end is not."""

    def __init__(self, from_us: int, until_us: int, end_topic: bytes) -> None:
        self.from_us: Final = from_us
        self.until_us: Final = until_us
        #: Where the client wants to be told that the past is through; empty if nowhere.
        self.end_topic: Final = end_topic

    def told(self, now_us: int) -> list[tuple[str, str]]:
        """What SUBACK says about it."""
        told = [("ts", str(now_us)), (_FROM[0], str(self.from_us))]
        return told if self.until_us == FOR_EVER else [*told, (_UNTIL, str(self.until_us))]


def replay_asked(
    topic_filter: TopicFilter, asked: tuple[tuple[str, str], ...], now_us: int, present_us: int
) -> Span | None:
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
    if found.get(_SPEED, "max") != "max":
        raise PeerError(IMPLEMENTATION_SPECIFIC_ERROR, "replay-speed can only be 'max'")
    until_us = FOR_EVER
    if _UNTIL in found:
        until_us = present_us if found[_UNTIL] == LATEST else parse_since(found[_UNTIL]).resolve(now_us)
        if until_us > present_us:
            raise PeerError(IMPLEMENTATION_SPECIFIC_ERROR, "replay-until lies ahead; it can only be in the past")
    from_us = max(1, parse_since(start).resolve(now_us))
    return Span(from_us, until_us, _end_topic(found.get(_END)))


def _end_topic(text: str | None) -> bytes:
    if text is None:
        return b""
    try:
        check_topic_name(text.encode())
    except PeerError as error:
        raise PeerError(TOPIC_FILTER_INVALID, f"replay-end: {error.detail}") from None
    return text.encode()
