"""The learned structure: what varies, what stays, what is stored, and what bounds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.errors import MisuseError
from holdfast.topics.filters import levels_match
from holdfast.topics.learned import CATCH_ALL, MAX_LEVELS, MAX_TOPIC_BYTES, LearnedTopics
from holdfast.topics.learned_ids import fingerprint
from holdfast.topics.names import is_dollar
from tests.learned_dump import dump

pytestmark = pytest.mark.compiled

LEVELS = ["a", "b", "c", "", "$s", "é"]
topic_lists = st.lists(
    st.one_of(
        st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool),
        st.builds("d/{}/t".format, st.integers(0, 30)),
    ).map(str.encode),
    max_size=60,
)
thresholds = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)


def texts(topics: LearnedTopics) -> list[str]:
    return sorted(pattern.text for pattern in topics.patterns())


def place_all(topics: LearnedTopics, *names: str) -> None:
    for name in names:
        topics.place(name.encode())


def where(topics: LearnedTopics, name: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    place = topics.place(name)
    return place.stream, place.values


def asked(topics: LearnedTopics, text: str) -> list[tuple[bytes, tuple[bytes | None, ...]]]:
    return [(match.stream, match.wanted) for match in topics.streams_for(tuple(text.encode().split(b"/")))]


def test_the_token_past_the_threshold_varies_and_known_ones_keep_their_stream() -> None:
    """L9"""
    topics = LearnedTopics((20, 2))
    place_all(topics, "plant/a/temp", "plant/b/temp", "plant/c/temp", "plant/d/temp", "plant/a/temp")
    assert texts(topics) == ["plant/+/temp", "plant/a/temp", "plant/b/temp"]
    assert where(topics, b"plant/c/temp") == (fingerprint(b"plant/+/temp"), (b"c",))
    assert where(topics, b"plant/a/temp") == (fingerprint(b"plant/a/temp"), ())


def test_each_depth_has_its_threshold_and_the_last_one_holds_below() -> None:
    """L9"""
    topics = LearnedTopics((3, 1))
    place_all(topics, "x/1/1", "x/2/2", "y/1/1", "z/1/1", "w/1/1")
    assert texts(topics) == ["+/1/1", "x/+/2", "x/1/1", "y/1/1", "z/1/1"]
    assert topics.place(b"x/3/9").values == (b"3", b"9")


@given(topic_lists, thresholds, st.integers(2, 8), st.integers(2, 6))
def test_no_topic_ever_changes_its_place(
    names: list[bytes], levels: tuple[int, ...], max_streams: int, max_places: int
) -> None:
    """L9: whatever comes between, at every limit, also when the cache has forgotten it and after a reload."""
    topics = LearnedTopics(levels, max_streams, MAX_LEVELS + 6, max_places, id_bits=3)
    places: dict[bytes, tuple[bytes, tuple[bytes, ...]]] = {}
    for name in names:
        place = where(topics, name)
        assert places.setdefault(name, place) == place
    topics.check_invariants()
    reloaded = topics.fresh()
    reloaded.load(topics.take_changes())
    for name, known in places.items():
        assert where(topics, name) == known
        assert where(reloaded, name) == known
    assert not reloaded.take_changes()
    assert dump(reloaded) == dump(topics)
    assert reloaded.node_count == topics.node_count


@given(topic_lists, topic_lists, thresholds)
def test_a_reloaded_structure_learns_on_as_if_nothing_had_happened(
    before: list[bytes], after: list[bytes], levels: tuple[int, ...]
) -> None:
    """L10: children are counted the same, so the same level varies next."""
    topics = LearnedTopics(levels, max_streams=12)
    for name in before:
        topics.place(name)
    reloaded = topics.fresh()
    reloaded.load(topics.take_changes())
    for name in after:
        assert where(reloaded, name) == where(topics, name)
    assert reloaded.take_changes() == topics.take_changes()


def test_every_change_is_handed_out_once() -> None:
    """L10"""
    topics = LearnedTopics()
    place_all(topics, "a/b", "a/b", "a")
    assert [value for _key, value in topics.take_changes()] == [b"a/b", b"a"]
    assert topics.take_changes() == []
    place_all(topics, "a/b", "c")
    assert topics.take_changes() == [(b"\x00\x00\x00\x02", b"c")]


def test_a_follower_loads_only_what_is_new() -> None:
    """L10"""
    writer = LearnedTopics()
    reader = LearnedTopics()
    for name in ("a", "b", "c/d"):
        writer.place(name.encode())
        changes = writer.take_changes()
        assert changes[0][0] == reader.next_key()
        reader.load(changes)
    assert texts(reader) == ["a", "b", "c/d"]


def test_a_streams_id_depends_on_its_pattern_alone() -> None:
    one = LearnedTopics((5,))
    other = LearnedTopics((5,))
    place_all(one, "a/b", "c")
    place_all(other, "z", "y/x", "a/b/c", "a/b")
    assert one.place(b"a/b").stream == other.place(b"a/b").stream == fingerprint(b"a/b")
    assert fingerprint(b"plant/+/temp").hex() == "ffeaa761b0cb4973"


@given(topic_lists, thresholds, st.data())
def test_a_filter_reaches_exactly_the_streams_and_tokens_of_its_topics(
    names: list[bytes], levels: tuple[int, ...], data: st.DataObject
) -> None:
    """L4, L7: a topic matches a filter if and only if its stream is reached with its tokens."""
    topics = LearnedTopics(levels, max_streams=9)
    for name in names:
        topics.place(name)
    pieces = data.draw(st.lists(st.sampled_from([*LEVELS, "d", "t", "7", "+", "+"]), min_size=1, max_size=4))
    wanted = tuple(piece.encode() for piece in pieces)
    if data.draw(st.booleans()):
        wanted = (*wanted, b"#")
    matches = topics.streams_for(wanted)
    assert len({match.stream for match in matches}) == len(matches)
    for name in names:
        place = topics.place(name)
        reached = [
            match
            for match in matches
            if match.stream == place.stream
            and all(token is None or token == value for token, value in zip(match.wanted, place.values, strict=True))
        ]
        expected = levels_match(wanted, name.split(b"/"), dollar=is_dollar(name))
        if place.stream == CATCH_ALL:
            assert len(reached) == 1 or not expected
            assert all(match.whole_topics for match in reached)
        else:
            assert len(reached) == expected, name


def test_dollar_topics_have_a_root_of_their_own() -> None:
    """L7"""
    topics = LearnedTopics((1,))
    place_all(topics, "$SYS/a", "$x/a", "b/a", "c/a")
    assert texts(topics) == ["$+/a", "$SYS/a", "+/a", "b/a"]
    assert asked(topics, "+/a") == [(fingerprint(b"b/a"), ()), (fingerprint(b"+/a"), (None,))]
    assert asked(topics, "$x/#") == [(fingerprint(b"$+/a"), (b"$x",))]
    reloaded = topics.fresh()
    reloaded.load(topics.take_changes())
    assert where(reloaded, b"$x/a") == (fingerprint(b"$+/a"), (b"$x",))


def test_beyond_the_limits_topics_share_one_catch_all() -> None:
    """L9: a million different topics neither grow the structure nor move what is in it."""
    topics = LearnedTopics((1000,), max_streams=10, max_nodes=100, max_places=50)
    for i in range(3000):
        topics.place(b"%d/x/y" % i)
    topics.check_invariants()
    assert topics.stream_count == 10
    assert topics.node_count <= 100
    assert topics.memory_bytes() < 100_000
    assert where(topics, b"5/x/y") == (fingerprint(b"5/x/y"), ())
    assert where(topics, b"2999/x/y") == (CATCH_ALL, (b"2999/x/y",))
    assert asked(topics, "2999/x/y") == [(CATCH_ALL, (b"2999/x/y",))]
    assert asked(topics, "2999/+/y") == [(CATCH_ALL, (None,))]
    assert [value for _key, value in topics.take_changes()].count(b"#") == 1


def test_the_node_limit_stops_learning_for_good() -> None:
    """L9: a shorter path that would still fit is refused as well, or the topic refused before could come in later."""
    topics = LearnedTopics((1000,), max_nodes=MAX_LEVELS + 1)
    place_all(topics, "a/b")
    assert topics.place(b"c/d/e").stream == CATCH_ALL
    assert topics.place(b"c").stream == CATCH_ALL
    assert topics.place(b"a").stream == CATCH_ALL
    assert topics.place(b"a/b").stream == fingerprint(b"a/b")


def test_long_and_deep_topics_teach_nothing() -> None:
    """L6"""
    topics = LearnedTopics()
    for name in (b"x" * (MAX_TOPIC_BYTES + 1), b"/" * MAX_LEVELS, b"/" * 65_535):
        assert where(topics, name) == (CATCH_ALL, (name,))
    assert topics.node_count == 0
    assert topics.place(b"/" * (MAX_LEVELS - 1)).stream != CATCH_ALL


def test_two_patterns_with_one_fingerprint_do_not_share_a_stream() -> None:
    """L5"""
    topics = LearnedTopics((1000,), max_streams=8, id_bits=3)
    place_all(topics, *[f"t{i}" for i in range(50)])
    held = [topics.place(b"t%d" % i).stream for i in range(50)]
    assert sorted({stream[-1] for stream in held}) == list(range(8))
    assert held.count(CATCH_ALL) == 50 - 7
    reloaded = topics.fresh()
    reloaded.load(topics.take_changes())
    assert [reloaded.place(b"t%d" % i).stream for i in range(50)] == held


def test_the_next_generation_merges_what_was_known_under_a_varying_level() -> None:
    """L11"""
    topics = LearnedTopics((20, 2, 5))
    for device in range(6):
        place_all(topics, f"plant/{device}/temp", f"plant/{device}/hum", "status")
    place_all(topics, "plant/0/config/net", "other/x", "$s/1/a", "$s/2/a", "$s/3/a")
    heir = topics.inherit()
    assert texts(heir) == ["$s/+/a", "plant/+/config/net", "plant/+/hum", "plant/+/temp"]
    assert [value for _key, value in heir.take_changes()] != []
    assert where(heir, b"plant/0/temp") == (fingerprint(b"plant/+/temp"), (b"0",))
    assert where(heir, b"status") == (fingerprint(b"status"), ())


def test_merged_children_may_be_so_many_that_their_level_varies_too() -> None:
    """L11"""
    topics = LearnedTopics((9, 1, 2))
    place_all(topics, "a/1/x", "a/2/y", "a/1/z", "a/3/z")
    assert texts(topics) == ["a/+/y", "a/+/z", "a/1/x", "a/1/z"]
    assert texts(topics.inherit()) == ["a/+/+"]


def test_what_it_was_given_is_never_merged() -> None:
    """L9, L11: more names than the threshold, and a name beside a varying level; what is new is learnt as ever."""
    given = [b"a/+/x", b"a/+/y", b"a/+/z", b"a/own/x", b"$+/s"]
    topics = LearnedTopics((2,))
    topics.begin_with(given)
    place_all(topics, "a/own/x", "a/1/x", "a/2/y", "a/3/z", "$q/s")
    assert texts(topics) == sorted(pattern.decode() for pattern in given)
    assert where(topics, b"a/own/x") == (fingerprint(b"a/own/x"), ())
    assert where(topics, b"a/1/x") == (fingerprint(b"a/+/x"), (b"1",))
    place_all(topics, *[f"a/1/{name}" for name in "uvw"], *[f"b/{n}" for n in range(4)])
    assert texts(topics.inherit()) == ["$+/s", "a/+/+", "a/+/x", "a/+/y", "a/+/z", "b/+"]
    reloaded = topics.fresh()
    reloaded.load(topics.take_changes())
    assert texts(reloaded.inherit()) == ["$+/s", "a/+/+", "b/+"], "without a word on what it began with"
    reloaded.keep(given)
    assert texts(reloaded.inherit()) == texts(topics.inherit())
    wider = topics.fresh()
    wider.begin_with([b"a/+/+", b"c/+"])
    wider.adopt(topics.inherit())
    assert texts(wider) == ["$+/s", "a/+/+", "b/+", "c/+"], "what a given pattern covers is not needed"
    same = topics.fresh()
    same.begin_with(given)
    same.adopt(topics.inherit())
    assert texts(same) == ["$+/s", "a/+/+", "a/+/x", "a/+/y", "a/+/z", "a/own/x", "b/+"], "it was learnt beside them"
    other = topics.fresh()
    other.begin_with([b"a/+/u", b"b/1"])
    other.adopt(topics.inherit())
    assert texts(other) == ["$+/s", "a/+/u", "a/+/x", "a/+/y", "a/+/z", "b/1"], "it took these topics for others"
    other.check_invariants()


def test_inheritance_leaves_half_of_the_streams_for_what_is_new() -> None:
    """L11: the busiest patterns are the ones that go on."""
    topics = LearnedTopics((100, 0), max_streams=8)
    for i in range(7):
        place = topics.place(b"p%d/x" % i)
        topics.add_messages(place.stream, i)
    assert texts(topics.inherit()) == ["p3/+", "p4/+", "p5/+", "p6/+"]


def test_patterns_come_with_their_messages_the_busiest_first() -> None:
    topics = LearnedTopics((5,), max_streams=4)
    for name, messages in ((b"b", 2), (b"a", 2), (b"c", 9), (b"d", 3)):
        topics.add_messages(topics.place(name).stream, messages)
    found = topics.patterns()
    assert [(pattern.text, pattern.messages) for pattern in found] == [("c", 9), ("#", 3), ("a", 2), ("b", 2)]


def test_counts_are_kept_by_stream() -> None:
    topics = LearnedTopics((5,), max_streams=3)
    for name, messages in ((b"a", 3), (b"b", 5), (b"c", 7), (b"d", 1)):
        topics.add_messages(topics.place(name).stream, messages)
    assert [(pattern.text, pattern.messages) for pattern in topics.patterns()] == [("#", 8), ("b", 5), ("a", 3)]
    assert topics.catch_all_messages == 8
    assert dump(topics) == "a * 3\nb * 5\n# * 8"


def test_a_new_generation_is_worth_it_when_it_places_many_messages_better() -> None:
    """L11: what counts is messages, not the few topics that came first."""
    topics = LearnedTopics((20, 2))
    for device, messages in enumerate((10, 10, 80)):
        topics.add_messages(topics.place(b"plant/%d/temp" % device).stream, messages)
    assert topics.gain() == pytest.approx(0.2)
    assert topics.inherit().gain() == 0.0


def test_a_full_catch_all_is_a_gain_only_if_the_next_generation_has_room() -> None:
    """L11"""
    crowded = LearnedTopics((100, 0), max_streams=4)
    roomy = LearnedTopics((100, 1), max_streams=4)
    for topics in (crowded, roomy):
        for i in range(6):
            topics.add_messages(topics.place(b"p%d/x" % i).stream, 1)
        assert topics.catch_all_messages == 3
    assert crowded.gain() == 0.0
    assert roomy.gain() == 0.5


def test_many_streams_that_would_merge_are_a_gain_by_themselves() -> None:
    """L11"""
    topics = LearnedTopics((9, 70))
    place_all(topics, *[f"d/{i}" for i in range(71)])
    assert topics.gain() == pytest.approx(70 / 71)


def test_parameters_that_cannot_work_are_refused() -> None:
    for wrong in ((), (-1,)):
        with pytest.raises(MisuseError):
            LearnedTopics(wrong)
    with pytest.raises(MisuseError):
        LearnedTopics(max_nodes=MAX_LEVELS - 1)
    with pytest.raises(MisuseError, match="different ids"):
        LearnedTopics(max_streams=9, id_bits=3)
