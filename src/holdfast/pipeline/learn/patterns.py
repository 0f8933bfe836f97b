"""Patterns that were learnt, what is known about their levels, and the joining of patterns that are alike."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.topics.filters import ONE
from holdfast.topics.learned_trie import DOLLAR_ONE

#: How a level that varies is written; the second stands for a first level of `$`-topics.
PLAIN: Final = ONE.decode()
DOLLAR: Final = DOLLAR_ONE.decode()


class VaryingLevel(NamedTuple):
    """A level that varies."""

    #: From 0.
    depth: int
    values: int
    entropy_bits: float
    #: What most of the values are: "number", "uuid", "hexadecimal", "id" (with digits), "word".
    looks: str
    first: str
    last: str
    #: The names of the same level, and the share of the level's topics that is left for the values.
    names: int
    share: float


class NamedLevel(NamedTuple):
    """A level that has a name."""

    depth: int
    #: How many names the level has.
    names: int
    #: It is one because it stands out among values: rule 3.
    stands_out: bool
    #: It is one because it recurs: rule 2.
    recurs: bool
    #: Of the level's topics.
    share: float


class TopicPattern(NamedTuple):
    """Topics that are alike."""

    zone: str
    levels: tuple[str, ...]
    topics: int
    messages: int
    size_bytes: int
    varying: tuple[VaryingLevel, ...] = ()
    named: tuple[NamedLevel, ...] = ()

    @property
    def text(self) -> str:
        return "/".join(self.levels)


def join_alike(patterns: Sequence[TopicPattern]) -> list[TopicPattern]:
    """The end of rule 3: join a token that stood out to the values of its level, if the levels below look the same."""
    found = {(pattern.zone, pattern.levels): pattern for pattern in patterns}
    for depth in range(max([0, *[len(pattern.levels) for pattern in patterns]])):
        below: dict[tuple[str, tuple[str, ...]], set[tuple[str, ...]]] = {}
        for zone, levels in found:
            if len(levels) > depth:
                below.setdefault((zone, levels[: depth + 1]), set()).add(levels[depth + 1 :])
        for (zone, head), shapes in sorted(below.items()):
            values = (*head[:-1], DOLLAR if head[0].startswith("$") and not depth else PLAIN)
            is_one = all(_stands_out(found[zone, (*head, *shape)], depth) for shape in shapes)
            if is_one and shapes <= below.get((zone, values), set()):
                for shape in sorted(shapes):
                    one = found.pop((zone, (*head, *shape)))
                    found[zone, (*values, *shape)] = _joined(found[zone, (*values, *shape)], one, depth)
    return list(found.values())


def _stands_out(pattern: TopicPattern, depth: int) -> bool:
    return any(named.depth == depth and named.stands_out for named in pattern.named)


def _joined(pattern: TopicPattern, one: TopicPattern, depth: int) -> TopicPattern:
    share = next(named.share for named in one.named if named.depth == depth)
    below = {level.depth: level.values for level in one.varying if level.depth > depth}
    varying = tuple(
        level._replace(values=level.values + 1, names=level.names - 1, share=level.share + share)
        if level.depth == depth
        else level._replace(values=level.values + below.get(level.depth, 0))
        for level in pattern.varying
    )
    return pattern._replace(
        topics=pattern.topics + one.topics,
        messages=pattern.messages + one.messages,
        size_bytes=pattern.size_bytes + one.size_bytes,
        varying=varying,
    )
