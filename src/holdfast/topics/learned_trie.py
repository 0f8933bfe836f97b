"""The trie behind the learned structure: which pattern a topic follows, and which patterns a filter reaches.

    (root)                 threshold 2
    └─ plant               one edge per known token
       ├─ a ── temp ●      ● a stream ends here: plant/a/temp
       ├─ b ── temp ●
       └─ + ── temp ●      every other token: plant/+/temp

1. A node that learns has at most `threshold(depth)` edges by token. The next unknown token takes the `+` edge instead.
2. Learning never makes an edge by token beside a `+` edge, and no edge is ever removed. So a topic that took an edge
   once takes it always. (What a structure begins with may have both: that is there before any topic.)
3. `$`-topics have a separate root: no wildcard at the first level may reach them [MQTT-4.7.2-1].

A pattern is written like a topic, with `+` for a varying level; `$+` is a varying first level of `$`-topics. That is
unambiguous, because no topic name contains `+` [MQTT-3.3.2-2].
"""

from typing import Final

from holdfast.topics.filters import ONE, REST
from holdfast.topics.names import SEPARATOR, is_dollar

DOLLAR_ONE: Final = b"$+"


class Stream:
    """The messages of one pattern."""

    def __init__(self, stream: bytes, pattern: bytes) -> None:
        levels = pattern.split(SEPARATOR)
        self.id: Final = stream
        self.pattern: Final = pattern
        #: The numbers of the varying levels, from 0.
        self.varying: Final = tuple([i for i, level in enumerate(levels) if is_varying(level, i)])
        #: Messages counted so far; a statistic.
        self.messages = 0


class StreamMatch:
    """A stream that a filter reaches, and what of it.

    `wanted[i]` is the token that the filter asks for at the varying level `levels[i]`, or None for any. Of a stream
    that is not `whole_topics`, a message whose tokens are the wanted ones matches the filter.
    """

    def __init__(
        self, stream: bytes, levels: tuple[int, ...], wanted: tuple[bytes | None, ...], *, whole_topics: bool = False
    ) -> None:
        self.stream: Final = stream
        self.levels: Final = levels
        self.wanted: Final = wanted
        #: The one "varying level" is the whole topic: the catch-all stream. Its messages must be matched one by one.
        self.whole_topics: Final = whole_topics


class TrieNode:
    """One level of some topics."""

    def __init__(self) -> None:
        self.children: Final[dict[bytes, TrieNode]] = {}
        self.varying: TrieNode | None = None
        self.stream: Stream | None = None


class Trie:
    """Nodes and the streams that end at them. Knows thresholds; limits are its owner's."""

    def __init__(self, thresholds: tuple[int, ...]) -> None:
        self.thresholds: Final = thresholds
        self.plain: Final = TrieNode()
        self.dollar: Final = TrieNode()
        self.node_count = 0
        self.token_bytes = 0

    def root(self, first: bytes) -> TrieNode:
        return self.dollar if is_dollar(first) else self.plain

    def walk(self, tokens: list[bytes], path: list[bytes], values: list[bytes]) -> Stream | None:
        """Fill in the pattern's levels and the topic's varying values; the stream, if it exists."""
        node: TrieNode | None = self.root(tokens[0])
        known: TrieNode | None
        for depth, token in enumerate(tokens):
            if node is None:
                known = None
                varying = threshold(self.thresholds, depth) == 0
            else:
                known = node.children.get(token)
                varying = known is None and (
                    node.varying is not None or len(node.children) >= threshold(self.thresholds, depth)
                )
                if varying:
                    known = node.varying
            if varying:
                path.append(DOLLAR_ONE if depth == 0 and is_dollar(token) else ONE)
                values.append(token)
            else:
                path.append(token)
            node = known
        return None if node is None else node.stream

    def insert(self, levels: list[bytes], stream: Stream) -> None:
        """Make the path of a pattern, and let its stream end there."""
        node = self.root(levels[0])
        for depth, level in enumerate(levels):
            if is_varying(level, depth):
                if node.varying is None:
                    node.varying = TrieNode()
                    self.node_count += 1
                node = node.varying
            else:
                child = node.children.get(level)
                if child is None:
                    child = TrieNode()
                    node.children[level] = child
                    self.node_count += 1
                    self.token_bytes += len(level)
                node = child
        node.stream = stream

    def match(self, levels: tuple[bytes, ...]) -> list[StreamMatch]:
        """The streams that may hold messages for the filter `levels`, each once."""
        found: list[StreamMatch] = []
        _match(self.root(levels[0]), levels, 0, (), found)
        return found


def threshold(thresholds: tuple[int, ...], depth: int) -> int:
    return thresholds[depth] if depth < len(thresholds) else thresholds[-1]


def is_varying(level: bytes, depth: int) -> bool:
    """Whether a pattern's level stands for any token."""
    return level == ONE or (depth == 0 and level == DOLLAR_ONE)


def _match(
    node: TrieNode, levels: tuple[bytes, ...], depth: int, wanted: tuple[bytes | None, ...], found: list[StreamMatch]
) -> None:
    if depth == len(levels):
        _reach(node, wanted, found)
        return
    level = levels[depth]
    if level == REST:
        _match_below(node, wanted, found)
        return
    if level != ONE:
        child = node.children.get(level)
        if child is not None:
            # The token has its own edge since before the level varied: it is nowhere else.
            _match(child, levels, depth + 1, wanted, found)
        elif node.varying is not None:
            _match(node.varying, levels, depth + 1, (*wanted, level), found)
        return
    for child in node.children.values():
        _match(child, levels, depth + 1, wanted, found)
    if node.varying is not None:
        _match(node.varying, levels, depth + 1, (*wanted, None), found)


def _match_below(node: TrieNode, wanted: tuple[bytes | None, ...], found: list[StreamMatch]) -> None:
    _reach(node, wanted, found)  # `a/#` matches `a`
    for child in node.children.values():
        _match_below(child, wanted, found)
    if node.varying is not None:
        _match_below(node.varying, (*wanted, None), found)


def _reach(node: TrieNode, wanted: tuple[bytes | None, ...], found: list[StreamMatch]) -> None:
    stream = node.stream
    if stream is not None:
        found.append(StreamMatch(stream.id, stream.varying, wanted))
