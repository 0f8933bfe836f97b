"""Patterns explained for people, with what is doubtful about them.

A doubt that speaks against a pattern keeps it from being applied: few topics follow it, or it is what is left over
beside the names of a level. A doubt that is only said is about a level whose number of tokens is near the border.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.pipeline.learn.learner import TopicPattern, VaryingLevel
from holdfast.pipeline.learn.rules import name_limit

#: A pattern whose level varies has as many topics at least, to be one.
_FEW_TOPICS: Final = 20
#: A pattern with a smaller share of a zone's messages is rare, unless it has a fair number of topics.
_RARE_SHARE: Final = 0.001
_RARE_TOPICS: Final = 100
#: What is left beside the names of a level is left over, if it has a smaller share of the level's topics.
_LEFT_OVER: Final = 0.05
#: A level has about as many tokens as decide between names and values.
_NEAR: Final = (0.7, 2.0)

_LOOKS: Final = {
    "number": "looks like a number",
    "uuid": "looks like a UUID",
    "hexadecimal": "looks like a hexadecimal id",
    "id": "looks like a device id",
    "word": "reads like names",
}


class ExplainedPattern(NamedTuple):
    """A pattern with what there is to say about it."""

    pattern: TopicPattern
    #: Of the messages of its zone.
    share: float
    words: str
    #: What speaks against it, and what is only to be known.
    against: tuple[str, ...]
    near: tuple[str, ...]

    @property
    def is_sure(self) -> bool:
        return not self.against


def explain_patterns(patterns: Sequence[TopicPattern]) -> list[ExplainedPattern]:
    """All of them, in their order."""
    messages: dict[str, int] = {}
    for pattern in patterns:
        messages[pattern.zone] = messages.get(pattern.zone, 0) + pattern.messages
    shares = [(pattern, pattern.messages / max(1, messages[pattern.zone])) for pattern in patterns]
    return [
        ExplainedPattern(
            pattern,
            share,
            "; ".join(map(_level, pattern.varying)) or "one topic",
            tuple(_against(pattern, share)),
            tuple(_near(pattern)),
        )
        for pattern, share in shares
    ]


def _level(level: VaryingLevel) -> str:
    about = f"level {level.depth + 1} varies, {round_count(level.values)}"
    # Words of people's own may say more than it is good to print.
    shown = f" ({_cut(level.first)} … {_cut(level.last)})" if level.values > 1 else f" ({_cut(level.first)})"
    return f"{about}, {_LOOKS[level.looks]}{shown}, {level.entropy_bits:.1f} bits"


def round_count(values: int) -> str:
    """To two digits, once they are many."""
    if values == 1:
        return "1 value"
    if values < 1_000:
        return f"{values} values"
    unit = 10 ** (len(str(values)) - 2)
    return f"about {round(values / unit) * unit:,} values"


def _cut(token: str) -> str:
    return token if len(token) <= 24 else f"{token[:23]}…"


def _against(pattern: TopicPattern, share: float) -> list[str]:
    found: list[str] = []
    topics = "1 topic" if pattern.topics == 1 else f"{pattern.topics:,} topics"
    left = [level for level in pattern.varying if level.names and level.share < _LEFT_OVER]
    if left:
        depth, count = left[0].depth + 1, left[0].names
        names = "a name that most have" if count == 1 else f"{count} names that most have"
        found.append(f"fits no other pattern: level {depth} has {names}, and these have another")
    if len(pattern.varying) == len(pattern.levels):
        found.append("no level has a name: they have nothing in common but the number of levels")
    if pattern.varying and pattern.topics < _FEW_TOPICS:
        found.append(f"few observations: {topics} so far")
    elif share < _RARE_SHARE and pattern.topics < _RARE_TOPICS:
        found.append(f"rare: {topics} with {_percent(share)} of the messages")
    return found


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "less than 0.1 %"


def _near(pattern: TopicPattern) -> list[str]:
    found = [
        f"level {level.depth + 1} has {round_count(level.values)}; up to {name_limit(level.depth)} would be names, each"
        for level in pattern.varying
        if level.values <= _NEAR[1] * name_limit(level.depth)
    ]
    return found + [
        f"level {level.depth + 1} has {level.names} names; "
        f"more than {name_limit(level.depth)} would be taken for values"
        for level in pattern.named
        if not level.recurs and not level.stands_out and level.names >= _NEAR[0] * name_limit(level.depth)
    ]
