"""The trie of learned patterns: which pattern a topic follows, and which patterns a filter reaches."""

import pytest

from holdfast.topics.learned_trie import DOLLAR_ONE, Stream, Trie, is_varying, threshold
from tests.learned_dump import dump_of

pytestmark = pytest.mark.compiled


def trie_of(*patterns: bytes, thresholds: tuple[int, ...] = (2,)) -> Trie:
    trie = Trie(thresholds)
    for pattern in patterns:
        trie.insert(pattern.split(b"/"), Stream(pattern, pattern))
    return trie


def walked(trie: Trie, topic: bytes) -> tuple[bytes, list[bytes], bytes | None]:
    path: list[bytes] = []
    values: list[bytes] = []
    stream = trie.walk(topic.split(b"/"), path, values)
    return b"/".join(path), values, None if stream is None else stream.id


def test_a_known_token_keeps_its_edge_and_the_next_unknown_one_varies() -> None:
    trie = trie_of(b"plant/a/temp", b"plant/b/temp", b"plant/+/temp")

    assert walked(trie, b"plant/a/temp") == (b"plant/a/temp", [], b"plant/a/temp")
    assert walked(trie, b"plant/c/temp") == (b"plant/+/temp", [b"c"], b"plant/+/temp")


def test_a_level_varies_once_its_threshold_is_reached() -> None:
    trie = trie_of(b"plant/a", b"plant/b")

    assert walked(trie, b"plant/c") == (b"plant/+", [b"c"], None)
    assert walked(trie, b"other/c") == (b"other/c", [], None)


def test_dollar_topics_have_their_own_root() -> None:
    trie = trie_of(b"+/x", b"$+/x", thresholds=(0, 5))

    assert walked(trie, b"$SYS/x") == (b"$+/x", [b"$SYS"], b"$+/x")
    assert [match.stream for match in trie.match((b"+", b"x"))] == [b"+/x"]


@pytest.mark.parametrize(
    ("levels", "streams"),
    [
        ((b"plant", b"a", b"temp"), [(b"plant/a/temp", ())]),
        ((b"plant", b"c", b"temp"), [(b"plant/+/temp", (b"c",))]),
        ((b"plant", b"+", b"temp"), [(b"plant/a/temp", ()), (b"plant/+/temp", (None,))]),
        ((b"plant", b"#"), [(b"plant/a/temp", ()), (b"plant/+/temp", (None,))]),
        ((b"other", b"#"), []),
    ],
)
def test_a_filter_reaches_streams_with_the_tokens_that_it_asks_for(
    levels: tuple[bytes, ...], streams: list[tuple[bytes, tuple[bytes | None, ...]]]
) -> None:
    found = trie_of(b"plant/a/temp", b"plant/+/temp").match(levels)

    assert [(match.stream, match.wanted) for match in found] == streams


def test_the_last_threshold_holds_for_all_deeper_levels() -> None:
    assert [threshold((20, 10), depth) for depth in range(4)] == [20, 10, 10, 10]


def test_a_varying_level_is_written_as_plus() -> None:
    assert is_varying(b"+", 3)
    assert is_varying(DOLLAR_ONE, 0)
    assert not is_varying(DOLLAR_ONE, 1)
    assert not is_varying(b"a", 0)


def test_a_trie_has_a_node_for_each_level_and_a_stream_where_a_pattern_ends() -> None:
    trie = trie_of(b"plant/+/temp", b"plant/a", b"$+")

    assert dump_of(trie, Stream(b"#", b"#")) == "plant\n  a * 0\n  +\n    temp * 0\n$+ * 0\n# * 0"
