"""The learner: from counts, level by level, to patterns. It decides by `rules.py`, on counts of a `TopicCounting`.

    counting ──levels──▶ learner ──bars──▶ counting ──tokens──▶ learner ──moves──▶ counting … one level deeper

1. Every topic ends with exactly one pattern, and matches it: sums over patterns are sums over topics.
2. The result depends on the topics and their messages, and not on their order.
3. What is held here is bounded by MAX_BEGINNINGS and MAX_TOKENS for each level, of which there are MAX_LEVELS at most.
"""

from collections.abc import Callable, Sequence
from math import log2
from typing import Final, NamedTuple, Protocol

from holdfast.pipeline.learn.rules import (
    MAX_BEGINNINGS,
    LevelCount,
    TokenBar,
    TokenCount,
    choose_names,
    names_stand_out,
    stands_for_many,
    token_bar,
)
from holdfast.topics.filters import ONE
from holdfast.topics.learned_trie import DOLLAR_ONE

#: How a level that varies is written; the second stands for a first level of `$`-topics.
PLAIN: Final = ONE.decode()
DOLLAR: Final = DOLLAR_ONE.decode()
#: Receives the share that is done, and what is being done.
Progress = Callable[[float, str], None]


class VaryingLevel(NamedTuple):
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


class TopicMove(NamedTuple):
    """Topics under a beginning go on under another: those with a token, or all others if there is none."""

    beginning: int
    token: str | None
    to: int


class TopicCounting(Protocol):
    """All topics, each under one beginning at a time. At first that is `Learner.root(zone, dollar)`."""

    def levels(self) -> list[LevelCount]:
        """What stands behind each beginning that still has topics, or ended with some; nothing when all have ended."""
        ...

    def tokens(self, bars: Sequence[TokenBar]) -> list[TokenCount]:
        """Those that pass the bar of their beginning, most topics first; MAX_TOKENS at most."""
        ...

    def go_on(self, moves: Sequence[TopicMove]) -> None:
        """One level deeper."""
        ...


class _Beginning(NamedTuple):
    zone: str
    dollar: bool
    parents: int = 1
    levels: tuple[str, ...] = ()
    varying: tuple[VaryingLevel, ...] = ()
    named: tuple[NamedLevel, ...] = ()


class Learner:
    """Turns counts into patterns, level by level."""

    def __init__(self, zones: Sequence[str]) -> None:
        self._zones: Final = list(zones)
        self._depth = 0
        self._beginnings: dict[int, _Beginning] = {}
        for zone in zones:
            for dollar in (False, True):
                self._beginnings[self.root(zone, dollar=dollar)] = _Beginning(zone, dollar)
        self._next = len(self._beginnings)
        self._levels: dict[int, LevelCount] = {}
        self.patterns: Final[list[TopicPattern]] = []

    def root(self, zone: str, *, dollar: bool) -> int:
        """Where topics of a zone begin; `$`-topics have another root."""
        return 2 * self._zones.index(zone) + dollar

    def take(self, levels: Sequence[LevelCount]) -> list[TokenBar]:
        """What was counted of a level; whose tokens are to be looked at."""
        self._levels = {}
        bars: list[TokenBar] = []
        for level in sorted(levels):
            beginning = self._beginnings[level.beginning]
            if level.ended[0]:
                topics, messages, size_bytes = level.ended
                about = (beginning.varying, beginning.named)
                self.patterns.append(
                    TopicPattern(beginning.zone, beginning.levels, topics, messages, size_bytes, *about)
                )
            if level.topics:
                self._levels[level.beginning] = level
                bars.append(token_bar(level, self._depth, beginning.parents))
        return bars

    def decide(self, passed: Sequence[TokenCount]) -> list[TopicMove]:
        """Where the topics of each beginning go on."""
        by_beginning: dict[int, list[TokenCount]] = {number: [] for number in self._levels}
        for token in passed:
            by_beginning[token.beginning].append(token)
        chosen = [
            token
            for number, level in self._levels.items()
            for token in choose_names(level, self._depth, self._beginnings[number].parents, by_beginning[number])
        ]
        chosen.sort(key=lambda token: (-token.topics, token.beginning, token.token))
        kept: dict[int, list[TokenCount]] = {number: [] for number in self._levels}
        for token in chosen[: max(0, MAX_BEGINNINGS - len(self._levels))]:
            kept[token.beginning].append(token)
        following: dict[int, _Beginning] = {}
        moves = [move for number in self._levels for move in self._moves(number, kept[number], following)]
        self._beginnings = following
        self._depth += 1
        return moves

    def _moves(self, number: int, kept: list[TokenCount], following: dict[int, _Beginning]) -> list[TopicMove]:
        level, before = self._levels[number], self._beginnings[number]
        moves: list[TopicMove] = []
        stands_out = names_stand_out(level, self._depth, before.parents)
        for token in kept:
            recurs, share = stands_for_many(before.parents), token.topics / level.topics
            about = NamedLevel(self._depth, len(kept), stands_out, recurs, share)
            levels = (*before.levels, token.token)
            named = before._replace(parents=max(1, token.going_on), levels=levels, named=(*before.named, about))
            moves.append(TopicMove(number, token.token, self._add(named, following)))
        if level.values > len(kept):
            text = DOLLAR if before.dollar and not self._depth else PLAIN
            going_on = level.going_on - sum(token.going_on for token in kept)
            varying = (*before.varying, self._varying(level, kept))
            rest = before._replace(parents=max(1, going_on), levels=(*before.levels, text), varying=varying)
            moves.append(TopicMove(number, None, self._add(rest, following)))
        return moves

    def _add(self, beginning: _Beginning, following: dict[int, _Beginning]) -> int:
        number = self._next
        self._next += 1
        following[number] = beginning
        return number

    def _varying(self, level: LevelCount, kept: list[TokenCount]) -> VaryingLevel:
        """The level without the names in it."""
        messages = level.messages - sum(token.messages for token in kept)
        n_log_n = level.n_log_n - sum(token.messages * log2(token.messages) for token in kept)
        entropy_bits = max(0.0, log2(messages) - n_log_n / messages) if messages > 0 else 0.0
        share = 1 - sum(token.topics for token in kept) / level.topics
        values = level.values - len(kept)
        looks = (_looks(level), level.first, level.last)
        return VaryingLevel(self._depth, values, round(entropy_bits, 2), *looks, len(kept), share)


def _looks(level: LevelCount) -> str:
    """What most of its tokens are."""
    most = 0.9 * level.values
    for kind, count in (("number", level.numbers), ("uuid", level.uuids), ("hexadecimal", level.hexadecimal)):
        if count >= most:
            return kind
    return "id" if level.with_digit >= most else "word"


def learn_patterns(counting: TopicCounting, learner: Learner, progress: Progress) -> list[TopicPattern]:
    """All patterns, the busiest first."""
    depth = 0
    while levels := counting.levels():
        depth += 1
        progress(0.4 + 0.5 * depth / (depth + 3), f"level {depth}, {sum(level.topics for level in levels):,} topics")
        bars = learner.take(levels)
        if not bars:
            break
        counting.go_on(learner.decide(counting.tokens(bars)))
    return sorted(join_alike(learner.patterns), key=lambda found: (-found.messages, found.zone, found.levels))


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
