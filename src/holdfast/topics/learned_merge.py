"""What the next generation would make of a trie, and whether that is worth a new generation.

Inside a generation a token that was known before its level varied keeps its own stream. The next generation need not
keep that: where a level varies, or has become too wide because subtrees fell together, everything under it is one.

    plant/a/temp  plant/b/temp  plant/+/temp   →   plant/+/temp
    status                                     →   nothing: without a varying level there is nothing to inherit

What a generation was given to begin with (`LearnedTopics.begin_with`) stays as it is: a token that it names is not one
of those that fell together.
"""

from typing import Final

from holdfast.topics.filters import ONE
from holdfast.topics.learned_trie import DOLLAR_ONE, Stream, Trie, TrieNode, threshold
from holdfast.topics.names import SEPARATOR

#: Fewer streams than this are no reason for a new generation: a reader opens them in well under a millisecond.
STREAMS_THAT_MATTER: Final = 64


class Merged:
    """A pattern of the next generation, and the streams whose topics would follow it."""

    def __init__(self, levels: list[bytes], sources: list[Stream]) -> None:
        self.levels: Final = levels
        self.pattern: Final = SEPARATOR.join(levels)
        self.sources: Final = sources
        self.messages: Final = sum([source.messages for source in sources])
        self.varies: Final = ONE in levels or levels[0] == DOLLAR_ONE


def merge(trie: Trie, named: set[bytes]) -> list[Merged]:
    """Every pattern after merging, the busiest first; ties by name, so that every node decides alike.

    `named` are the beginnings of patterns that have to stay.
    """
    found: list[Merged] = []
    _merge([trie.plain], ONE, [], trie.thresholds, named, found)
    _merge([trie.dollar], DOLLAR_ONE, [], trie.thresholds, named, found)
    found.sort(key=lambda merged: (-merged.messages, merged.pattern))
    return found


def _merge(
    nodes: list[TrieNode],
    any_token: bytes,
    levels: list[bytes],
    thresholds: tuple[int, ...],
    named: set[bytes],
    found: list[Merged],
) -> None:
    sources: list[Stream] = []
    varying: list[TrieNode] = []
    by_token: dict[bytes, list[TrieNode]] = {}
    for node in nodes:
        if node.stream is not None:
            sources.append(node.stream)
        if node.varying is not None:
            varying.append(node.varying)
        for token, child in node.children.items():
            by_token.setdefault(token, []).append(child)
    if sources:
        found.append(Merged(levels, sources))
    head = SEPARATOR.join(levels) + SEPARATOR if levels else b""
    others = [token for token in by_token if head + token not in named]
    if varying or len(others) > threshold(thresholds, len(levels)):
        for token in others:
            varying.extend(by_token.pop(token))
        _merge(varying, ONE, [*levels, any_token], thresholds, named, found)
    for token, children in by_token.items():
        _merge(children, ONE, [*levels, token], thresholds, named, found)


def gain(merged: list[Merged], catch_all_messages: int, *, room: bool) -> float:
    """What a new generation would improve, from 0 to 1: the larger of two shares.

    - messages that would be placed better: those of streams that merge into a wider pattern, and those of the
      catch-all stream if the next generation has room for their patterns;
    - streams that a reader of everything would no longer have to open, once they are many.
    """
    messages = catch_all_messages
    moving = catch_all_messages if room else 0
    streams = 0
    for pattern in merged:
        messages += pattern.messages
        streams += len(pattern.sources)
        for source in pattern.sources:
            if source.pattern != pattern.pattern:
                moving += source.messages
    best = moving / messages if messages else 0.0
    saved = streams - len(merged)
    if saved >= STREAMS_THAT_MATTER:
        best = max(best, saved / streams)
    return best
