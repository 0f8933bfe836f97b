"""What the next generation would make of a trie, and whether that is worth a new generation."""

import pytest

from holdfast.topics.learned_merge import STREAMS_THAT_MATTER, gain, merge
from holdfast.topics.learned_trie import Stream, Trie

pytestmark = pytest.mark.compiled


def trie_of(patterns: dict[bytes, int], thresholds: tuple[int, ...] = (2,)) -> Trie:
    trie = Trie(thresholds)
    for pattern, messages in patterns.items():
        stream = Stream(pattern, pattern)
        stream.messages = messages
        trie.insert(pattern.split(b"/"), stream)
    return trie


def test_tokens_beside_a_varying_level_fall_together() -> None:
    trie = trie_of({b"plant/a/temp": 5, b"plant/b/temp": 5, b"plant/+/temp": 1, b"status": 100})

    found = [(merged.pattern, merged.messages, merged.varies) for merged in merge(trie, set())]

    assert found == [(b"status", 100, False), (b"plant/+/temp", 11, True)]


def test_a_named_token_stays() -> None:
    trie = trie_of({b"plant/a/temp": 5, b"plant/+/temp": 1})

    assert [merged.pattern for merged in merge(trie, {b"plant", b"plant/a", b"plant/a/temp"})] == [
        b"plant/a/temp",
        b"plant/+/temp",
    ]


def test_the_gain_is_the_share_of_messages_that_would_move() -> None:
    merged = merge(trie_of({b"plant/a/temp": 30, b"plant/+/temp": 70}), set())

    assert gain(merged, 0, room=True) == pytest.approx(0.3)
    assert gain(merged, 100, room=True) == pytest.approx(0.65)
    assert gain(merged, 100, room=False) == pytest.approx(0.15)
    assert gain([], 0, room=True) == 0


def test_the_gain_is_the_share_of_saved_streams_once_they_are_many() -> None:
    few = {b"plant/%d" % number: 0 for number in range(STREAMS_THAT_MATTER)}
    many = {b"plant/%d" % number: 0 for number in range(STREAMS_THAT_MATTER + 1)}

    assert gain(merge(trie_of(few), set()), 0, room=True) == 0
    assert gain(merge(trie_of(many), set()), 0, room=True) == pytest.approx(64 / 65)
