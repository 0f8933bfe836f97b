"""The learned structure as people see it."""

import pytest

from holdfast.topics.learned_patterns import dump_of, patterns_of
from holdfast.topics.learned_trie import Stream, Trie

pytestmark = pytest.mark.compiled


def stream(pattern: bytes, messages: int) -> Stream:
    made = Stream(pattern, pattern)
    made.messages = messages
    return made


def test_patterns_come_with_their_messages_the_busiest_first() -> None:
    found = patterns_of([stream(b"a/+", 2), stream(b"b", 2), stream(b"c", 9)], stream(b"#", 3))

    assert [(pattern.text, pattern.messages) for pattern in found] == [("c", 9), ("#", 3), ("a/+", 2), ("b", 2)]


def test_the_trie_is_shown_as_an_indented_text() -> None:
    trie = Trie((2,))
    for one in (stream(b"plant/+/temp", 7), stream(b"plant/a", 1), stream(b"$+", 2)):
        trie.insert(one.pattern.split(b"/"), one)

    assert dump_of(trie, stream(b"#", 5)) == "plant\n  a * 1\n  +\n    temp * 7\n$+ * 2\n# * 5"
