"""The learned structure as output: patterns with their messages, and the trie as text."""

from typing import Final

from holdfast.topics.learned_trie import Stream, Trie, TrieNode


class LearnedPattern:
    """The pattern of a stream, and its messages."""

    def __init__(self, text: str, messages: int) -> None:
        self.text: Final = text
        self.messages: Final = messages


def patterns_of(streams: list[Stream], catch_all: Stream | None) -> list[LearnedPattern]:
    """Every stream's pattern with its messages, the busiest first; `#` is the catch-all."""
    shown = sorted(streams if catch_all is None else [*streams, catch_all], key=_busiest)
    return [LearnedPattern(stream.pattern.decode(errors="replace"), stream.messages) for stream in shown]


def dump_of(trie: Trie, catch_all: Stream | None) -> str:
    """The trie as an indented text; `*` marks where a stream ends, with its messages."""
    lines: list[str] = []
    _dump(trie.plain, "+", 0, lines)
    _dump(trie.dollar, "$+", 0, lines)
    if catch_all is not None:
        lines.append(f"# * {catch_all.messages}")
    return "\n".join(lines)


def _busiest(stream: Stream) -> tuple[int, bytes]:
    return (-stream.messages, stream.pattern)


def _dump(node: TrieNode, any_token: str, depth: int, lines: list[str]) -> None:
    below = [(token.decode(errors="replace"), child) for token, child in sorted(node.children.items())]
    if node.varying is not None:
        below.append((any_token, node.varying))
    for token, child in below:
        ends = "" if child.stream is None else f" * {child.stream.messages}"
        lines.append(f"{'  ' * depth}{token or '(empty)'}{ends}")
        _dump(child, "+", depth + 1, lines)
