"""Topic filters: what a client subscribes to.

    plant/+/press/#                       `+` stands for one level, `#` at the end for any number
    $share/<group>/<filter>               the members of the group share the messages
    $replay/<since>/<filter>              history first, then live
    $share/<group>/$replay/<since>/…      a group that shares a replay

A filter is parsed once, when it arrives. `levels` holds the inner filter, without `$share` and
`$replay`, because that is what is matched against topics and what access rules speak of.
"""

from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.protocol import MAX_U16
from holdfast.model.reasons import MALFORMED_PACKET, TOPIC_FILTER_INVALID
from holdfast.model.text import decode_text
from holdfast.topics.names import HASH, PLUS, SEPARATOR, is_dollar

ONE: Final = b"+"
REST: Final = b"#"
SHARE_PREFIX: Final = b"$share/"
REPLAY_PREFIX: Final = b"$replay/"


class TopicFilter:
    """A valid filter, taken apart.

    1. `levels` is never empty; `#` stands only at its end; `+` and `#` stand alone in their level.
    2. `group` is empty unless the filter is shared.
    3. `since` is empty unless the filter asks for a replay; it is not yet checked (see `since.py`),
       because a bad one refuses a subscription, not a connection.
    """

    def __init__(self, raw: bytes, levels: tuple[bytes, ...], group: str, since: str) -> None:
        self.raw: Final = raw
        self.levels: Final = levels
        self.group: Final = group
        self.since: Final = since
        self.wildcard: Final = levels[-1] == REST or ONE in levels

    def inner(self) -> bytes:
        """The filter without `$share` and `$replay`."""
        return SEPARATOR.join(self.levels)

    def matches(self, topic: bytes) -> bool:
        return levels_match(self.levels, topic.split(SEPARATOR), dollar=is_dollar(topic))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicFilter) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"TopicFilter({self.raw.decode()!r})"


def parse_filter(raw: bytes) -> TopicFilter:
    """Take a filter apart, or raise PeerError that says what is wrong with it.

    What breaks a rule of MQTT is malformed; "filter invalid" is for what is well formed there and not accepted here.
    """
    if not raw:  # [MQTT-4.7.3-1]
        raise PeerError(MALFORMED_PACKET, "the topic filter is empty")
    if len(raw) > MAX_U16:  # [MQTT-4.7.3-3]
        raise PeerError(MALFORMED_PACKET, f"the topic filter has {len(raw)} bytes, at most {MAX_U16} are allowed")
    text = decode_text(raw, "the topic filter")  # [MQTT-3.8.3-1] [MQTT-4.7.3-2]
    inner = raw
    group = ""
    since = ""
    if inner.startswith(SHARE_PREFIX) or inner == b"$share":
        parts = inner.split(SEPARATOR, 2)
        # [MQTT-4.8.2-1] a name of at least one character, [MQTT-4.8.2-2] without wildcards, and a filter behind it
        if len(parts) < 3 or not parts[1] or not parts[2] or PLUS in parts[1] or HASH in parts[1]:
            raise PeerError(MALFORMED_PACKET, f"filter {text!r} is not of the form $share/<group>/<filter>")
        group = parts[1].decode()
        inner = parts[2]
    if inner.startswith(REPLAY_PREFIX) or inner == b"$replay":
        parts = inner.split(SEPARATOR, 2)
        if len(parts) < 3 or not parts[1] or not parts[2]:
            raise PeerError(TOPIC_FILTER_INVALID, f"filter {text!r} is not of the form $replay/<since>/<filter>")
        since = parts[1].decode()
        inner = parts[2]
    if (group or since) and inner.startswith((SHARE_PREFIX, REPLAY_PREFIX)):
        raise PeerError(
            TOPIC_FILTER_INVALID, f"filter {text!r}: the only combination is $share/<group>/$replay/<since>/<filter>"
        )
    levels = tuple(inner.split(SEPARATOR))
    if PLUS in inner or HASH in inner:
        _check_wildcards(levels, text)
    return TopicFilter(raw, levels, group, since)


def _check_wildcards(levels: tuple[bytes, ...], text: str) -> None:
    last = len(levels) - 1
    for i, level in enumerate(levels):
        if HASH in level and (level != REST or i != last):  # [MQTT-4.7.1-1]
            raise PeerError(MALFORMED_PACKET, f"filter {text!r}: '#' must be the whole last level")
        if PLUS in level and level != ONE:  # [MQTT-4.7.1-2]
            raise PeerError(MALFORMED_PACKET, f"filter {text!r}: '+' must be a whole level")


def levels_match(levels: tuple[bytes, ...], topic: list[bytes], *, dollar: bool) -> bool:
    """Whether the filter `levels` match the levels of a topic; `dollar` tells that it begins with `$`."""
    first = levels[0]
    if dollar and first in (ONE, REST):  # [MQTT-4.7.2-1]
        return False
    count = len(topic)
    i = 0
    for level in levels:
        if level == REST:
            return True  # also the parent: `a/#` matches `a`
        if i >= count or (level != ONE and level != topic[i]):
            return False
        i += 1
    return i == count


def literal_prefix(levels: tuple[bytes, ...]) -> bytes:
    """What every topic begins with that the filter `levels` match."""
    literal: list[bytes] = []
    for level in levels:
        if level == REST:
            break  # the parent, too, which ends without a separator
        if level == ONE:
            literal.append(b"")
            break
        literal.append(level)
    return SEPARATOR.join(literal)


def _literal_suffix(levels: tuple[bytes, ...]) -> bytes:
    """What every topic ends with that the filter `levels` match."""
    end = len(levels)
    while end and levels[end - 1] not in (ONE, REST):
        end -= 1
    return b"" if levels[-1] == REST or not end else SEPARATOR.join((b"", *levels[end:]))


def matching_topics(levels: tuple[bytes, ...], topics: list[bytes]) -> list[bool]:
    """Which of some topics match the filter `levels`."""
    if ONE not in levels and levels[-1] != REST:
        whole = SEPARATOR.join(levels)
        return [topic == whole for topic in topics]
    suffix = _literal_suffix(levels)
    size = len(suffix)
    found: list[bool] = []
    for topic in topics:
        # Most topics of a page differ in their last level: splitting costs several times as much.
        if size and topic[-size:] != suffix:
            found.append(False)
        else:
            found.append(levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic)))
    return found
