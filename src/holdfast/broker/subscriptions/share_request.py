"""What a member of a group asks for when it subscribes, by user properties of SUBSCRIBE (MQTT 5).

    share-window         1 to 65,535: how many unacknowledged messages of the group it takes at once; its own
    share-steal-after    1s to 7d (s, m, h, d; a number alone is in seconds): how long QoS 1 work may rest with a member
                         before another one gets it; for the whole group, and the first member that says so wins

SUBACK says, for each filter of a group, what holds: `share-steal-after` in seconds, and `replay-from` in µs for a group
that began in the past.
"""

from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.reasons import TOPIC_FILTER_INVALID
from holdfast.model.time import SECOND_US
from holdfast.topics.filters import TopicFilter
from holdfast.topics.since import is_number

_WINDOW: Final = "share-window"
STEAL_AFTER: Final = "share-steal-after"
_MAX_WINDOW: Final = 65_535
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_S: Final = 7 * 86_400
#: More digits than any right value has.
_MAX_DIGITS: Final = 9


class ShareRequest:
    """What the member that subscribes wants of its group."""

    def __init__(self, *, window: int = 0, steal_after_us: int = 0, replay: bool = False) -> None:
        #: 0 for none.
        self.window: Final = window
        self.steal_after_us: Final = steal_after_us
        #: Whether it wants the group to begin in the past, if it is the first one.
        self.replay: Final = replay


def parse_share_request(topic_filter: TopicFilter, asked: tuple[tuple[str, str], ...], *, replay: bool) -> ShareRequest:
    """PeerError if it cannot be given."""
    found = {name: value for name, value in asked if name in (_WINDOW, STEAL_AFTER)}
    if found and not topic_filter.group:
        raise PeerError(
            TOPIC_FILTER_INVALID, f"{', '.join(found)} without a group: subscribe to $share/<group>/<filter>"
        )
    window = _number(found.get(_WINDOW, ""))
    if _WINDOW in found and not 1 <= window <= _MAX_WINDOW:
        raise PeerError(
            TOPIC_FILTER_INVALID, f"{_WINDOW} {found[_WINDOW][:40]!r} is not a number from 1 to {_MAX_WINDOW}"
        )
    steal_after_s = _seconds(found.get(STEAL_AFTER, ""))
    if STEAL_AFTER in found and not 1 <= steal_after_s <= _MAX_S:
        raise PeerError(
            TOPIC_FILTER_INVALID,
            f"{STEAL_AFTER} {found[STEAL_AFTER][:40]!r} is not a time from 1s to 7d, such as 30s, 5m, 2h, 1d",
        )
    return ShareRequest(window=max(0, window), steal_after_us=max(0, steal_after_s) * SECOND_US, replay=replay)


def _seconds(text: str) -> int:
    unit_s = _UNITS_S.get(text[-1:])
    return _number(text) if unit_s is None else _number(text[:-1]) * unit_s


def _number(text: str) -> int:
    """-1 if it is none."""
    return int(text) if is_number(text, _MAX_DIGITS) else -1
