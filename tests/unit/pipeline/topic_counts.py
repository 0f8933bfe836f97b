"""Topic patterns counted by brute force, as `pipeline/learn` has Spark count them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import log2
from statistics import median_low

from holdfast.pipeline.learn.learner import Learner, TopicMove, TopicPattern, learn_patterns
from holdfast.pipeline.learn.rules import MAX_TOKENS, LevelCount, TokenBar, TokenCount

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Counted:
    """Topics with their messages and bytes; all in one zone."""

    def __init__(self, topics: Iterable[tuple[str, int, int]], learner: Learner, zone: str) -> None:
        self.depth = 0
        #: Beginning, tokens, messages, bytes.
        self.rows = [
            (learner.root(zone, dollar=topic.startswith("$")), topic.split("/"), messages, size)
            for topic, messages, size in topics
        ]
        self.most_levels = self.most_tokens = 0

    def levels(self) -> list[LevelCount]:
        ended: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        tokens: dict[int, Counter[str]] = defaultdict(Counter)
        messages: dict[int, Counter[str]] = defaultdict(Counter)
        going: dict[int, set[tuple[str, ...]]] = defaultdict(set)
        for beginning, levels, count, size in self.rows:
            if len(levels) == self.depth:
                for place, number in enumerate((1, count, size)):
                    ended[beginning][place] += number
                continue
            token = levels[self.depth]
            tokens[beginning][token] += 1
            messages[beginning][token] += count
            if len(levels) > self.depth + 1:
                going[beginning].add(tuple(levels[: self.depth + 1]))
        found = [
            LevelCount(
                beginning,
                len(tokens[beginning]),
                tokens[beginning].total(),
                messages[beginning].total(),
                median_low(tokens[beginning].values()) if tokens[beginning] else 0,
                len(going[beginning]),
                sum(count * log2(count) for count in messages[beginning].values()),
                sum(token.isdecimal() for token in tokens[beginning]),
                sum(UUID.fullmatch(token) is not None for token in tokens[beginning]),
                sum(re.fullmatch("[0-9a-fA-F]{8,}", token) is not None for token in tokens[beginning]),
                sum(re.search("[0-9]", token) is not None for token in tokens[beginning]),
                min(tokens[beginning], default=""),
                max(tokens[beginning], default=""),
                (ended[beginning][0], ended[beginning][1], ended[beginning][2]),
            )
            for beginning in {beginning for beginning, *_rest in self.rows}
        ]
        self.most_levels = max(self.most_levels, len(found))
        return found

    def tokens(self, bars: Sequence[TokenBar]) -> list[TokenCount]:
        bar_of = {bar.beginning: bar for bar in bars}
        parents: dict[tuple[int, str], set[tuple[str, ...]]] = defaultdict(set)
        going: dict[tuple[int, str], set[tuple[str, ...]]] = defaultdict(set)
        topics: Counter[tuple[int, str]] = Counter()
        messages: Counter[tuple[int, str]] = Counter()
        for beginning, levels, count, _size in self.rows:
            if len(levels) > self.depth:
                place = (beginning, levels[self.depth])
                parents[place].add(tuple(levels[: self.depth]))
                if len(levels) > self.depth + 1:
                    going[place].add(tuple(levels[: self.depth]))
                topics[place] += 1
                messages[place] += count
        found = [
            TokenCount(*place, len(parents[place]), len(going[place]), topics[place], messages[place])
            for place in topics
            if len(parents[place]) >= bar_of[place[0]].parents and topics[place] >= bar_of[place[0]].topics
        ]
        found.sort(key=lambda token: (-token.topics, token.beginning, token.token))
        self.most_tokens = max(self.most_tokens, len(found[:MAX_TOKENS]))
        return found[:MAX_TOKENS]

    def go_on(self, moves: Sequence[TopicMove]) -> None:
        to = {(move.beginning, move.token): move.to for move in moves}
        rows = []
        for beginning, levels, count, size in self.rows:
            if len(levels) > self.depth:
                place = to.get((beginning, levels[self.depth]))
                rows.append((to[beginning, None] if place is None else place, levels, count, size))
        self.rows = rows
        self.depth += 1


def learn_from(topics: Iterable[tuple[str, int, int]], zone: str = "default") -> list[TopicPattern]:
    learner = Learner([zone])
    return learn_patterns(Counted(topics, learner, zone), learner, lambda _share, _words: None)
