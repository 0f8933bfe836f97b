"""What a client asks for when it subscribes to the past.

$replay/-2h/plant/#                                     in the filter: any version of MQTT
user properties of SUBSCRIBE, for all its filters       MQTT 5
    replay-from     earliest · latest · Unix µs · ISO 8601 · -2h (s, m, h, d, w)
    stream-offset   the same under another broker's name
    replay-until    in the same words; the subscription delivers nothing from then on
    replay-speed    max: as fast as the client takes it
"""

from typing import Final

from holdfast.durable.log import FOR_EVER
from holdfast.model.errors import PeerError
from holdfast.model.reasons import IMPLEMENTATION_SPECIFIC_ERROR, TOPIC_FILTER_INVALID
from holdfast.topics.filters import TopicFilter
from holdfast.topics.since import parse_since

_FROM: Final = ("replay-from", "stream-offset")
_UNTIL: Final = "replay-until"
_SPEED: Final = "replay-speed"


class Span:
    """From when until when; a start by time is included, the end is not."""

    def __init__(self, from_us: int, until_us: int) -> None:
        self.from_us: Final = from_us
        self.until_us: Final = until_us


def replay_asked(topic_filter: TopicFilter, asked: tuple[tuple[str, str], ...], now_us: int) -> Span | None:
    """The span that is asked for; None if no replay is. PeerError if it cannot be given."""
    found = {name: value for name, value in asked if name in (*_FROM, _UNTIL, _SPEED)}
    start = topic_filter.since or found.get(_FROM[0]) or found.get(_FROM[1])
    if not start:
        if found:
            raise PeerError(TOPIC_FILTER_INVALID, f"{', '.join(found)} without replay-from: say where to begin")
        return None
    if found.get(_SPEED, "max") != "max":
        raise PeerError(IMPLEMENTATION_SPECIFIC_ERROR, "replay-speed can only be 'max'")
    until_us = FOR_EVER
    if _UNTIL in found:
        until_us = parse_since(found[_UNTIL]).resolve(now_us)
        if until_us > now_us:
            raise PeerError(IMPLEMENTATION_SPECIFIC_ERROR, "replay-until lies ahead; it can only be in the past")
    from_us = max(1, parse_since(start).resolve(now_us))
    return Span(from_us, until_us)
