"""The learned structure as text, so that tests can compare two of them."""

from holdfast.topics.learned import LearnedTopics
from holdfast.topics.learned_trie import Stream, Trie, TrieNode


def dump(topics: LearnedTopics) -> str:
    return dump_of(topics._trie, topics._catch_all)


def dump_of(trie: Trie, catch_all: Stream | None) -> str:
    """The trie as an indented text; `*` marks where a stream ends, with its messages."""
    lines: list[str] = []
    _dump(trie.plain, "+", 0, lines)
    _dump(trie.dollar, "$+", 0, lines)
    if catch_all is not None:
        lines.append(f"# * {catch_all.messages}")
    return "\n".join(lines)


def _dump(node: TrieNode, any_token: str, depth: int, lines: list[str]) -> None:
    below = [(token.decode(errors="replace"), child) for token, child in sorted(node.children.items())]
    if node.varying is not None:
        below.append((any_token, node.varying))
    for token, child in below:
        ends = "" if child.stream is None else f" * {child.stream.messages}"
        lines.append(f"{'  ' * depth}{token or '(empty)'}{ends}")
        _dump(child, "+", depth + 1, lines)
