"""Two filters compared with each other, without a topic at hand.

    overlap    a/+  and  +/b         some topic matches both: a/b
    covers     a/#  over a/+/c       every topic of the second matches the first

Filters are given as levels, already parsed. As everywhere, `a/#` matches `a`, and a wildcard at the first level
matches no topic that begins with `$` [MQTT-4.7.2-1]. Both answers are exact.
"""

from holdfast.topics.filters import ONE, REST
from holdfast.topics.names import is_dollar


def overlap(a: tuple[bytes, ...], b: tuple[bytes, ...]) -> bool:
    """Whether some topic matches both filters."""
    if _hidden(a[0], b[0]) or _hidden(b[0], a[0]):
        return False
    shorter = min(len(a), len(b))
    for i in range(shorter):
        left = a[i]
        right = b[i]
        if left == REST or right == REST:
            return True
        if left != right and left != ONE and right != ONE:
            return False
    if len(a) == len(b):
        return True
    # One ends here, so the other must go on with `#` alone, and what they share must be a topic.
    longer = a if len(a) > len(b) else b
    return longer[shorter] == REST and not _is_nothing(longer, shorter)


def covers(wide: tuple[bytes, ...], narrow: tuple[bytes, ...]) -> bool:
    """Whether every topic that matches `narrow` matches `wide` as well."""
    if _hidden(wide[0], narrow[0]):
        return False
    for i, level in enumerate(wide):
        if level == REST:
            return True
        if i == len(narrow):
            return False
        if narrow[i] == REST:
            # `+/#` asks for one level more than `#`; that makes no difference where no topic ends before it.
            return level == ONE and wide[i + 1 :] == (REST,) and _is_nothing(narrow, i)
        if level != ONE and level != narrow[i]:
            return False
    return len(wide) == len(narrow)


def _is_nothing(levels: tuple[bytes, ...], count: int) -> bool:
    """Whether the first `count` levels name the empty text, which is no topic [MQTT-4.7.3-1]."""
    return count == 0 or (count == 1 and not levels[0])


def _hidden(first: bytes, other: bytes) -> bool:
    """Whether `first` is a wildcard that leaves out what begins with `other`."""
    return first in (ONE, REST) and is_dollar(other)
