"""Which learned pattern a message is filed under in a lake.

    topics ──learned by the log──▶ patterns with their messages ──the busiest──▶ a few partitions, and `#` for the rest

1. Every topic that is filed under a pattern matches it as a filter. So a reader that wants other topics can skip it.
2. `#` takes what matches none of them: it is never skipped.
3. A topic may be filed under different patterns at different times: what was learnt changes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.topics.filters import levels_match
from holdfast.topics.learned import LearnedPattern
from holdfast.topics.names import SEPARATOR, is_dollar
from holdfast.topics.overlap import overlap

CATCH_ALL: Final = "#"
#: Each is a file for each task and day, so few.
MOST_PATTERNS: Final = 16
#: Of all messages; a pattern with fewer is not worth its own files.
_LEAST_SHARE: Final = 0.01
#: A pattern is also the name of a folder, once its files are compacted.
_MOST_NAME_BYTES: Final = 200
#: Topics that a task remembers.
_MOST_TOPICS: Final = 100_000


def busiest_patterns(found: Iterable[LearnedPattern], most: int = MOST_PATTERNS) -> list[str]:
    """The patterns that get their own partitions."""
    messages: dict[str, int] = {}
    for pattern in found:
        messages[pattern.text] = messages.get(pattern.text, 0) + pattern.messages
    least = sum(messages.values()) * _LEAST_SHARE
    fit = [text for text in messages if _fits(text) and messages[text] >= max(1, least)]
    return sorted(fit, key=lambda text: (-messages[text], text))[:most]


def may_share(pattern: str, levels: tuple[bytes, ...]) -> bool:
    """Whether some topic can match both a pattern and a filter; no levels match everything."""
    return not levels or pattern == CATCH_ALL or overlap(tuple(pattern.encode().split(SEPARATOR)), levels)


class PatternFinder:
    """In a task: topics to patterns, by number; the last one is `#`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.texts: Final = [*patterns, CATCH_ALL]
        self._levels: Final = [tuple(text.encode().split(SEPARATOR)) for text in patterns]
        self._known: dict[str, int] = {}

    def numbers(self, topics: Any) -> Any:
        """For each topic of an Arrow array."""
        encoded = topics.dictionary_encode()
        found = pa.array([self.number(topic) for topic in encoded.dictionary.to_pylist()], pa.int32())
        return found.take(encoded.indices)

    def number(self, topic: str) -> int:
        number = self._known.get(topic)
        if number is None:
            if len(self._known) >= _MOST_TOPICS:
                self._known = {}
            number = self._known[topic] = self._find(topic.encode())
        return number

    def _find(self, topic: bytes) -> int:
        tokens = topic.split(SEPARATOR)
        dollar = is_dollar(topic)
        for number, levels in enumerate(self._levels):
            if levels_match(levels, tokens, dollar=dollar):
                return number
        return len(self._levels)


def _fits(text: str) -> bool:
    # A token that is not UTF-8 does not match itself any more once it is a text.
    return text != CATCH_ALL and "\ufffd" not in text and len(quote(text, safe="")) <= _MOST_NAME_BYTES
