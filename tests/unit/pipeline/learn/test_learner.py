"""The rules by which patterns are learnt from counts, and the words that explain them. No Spark."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.history.reader.view import ZoneView
from holdfast.model.errors import SettingsError
from holdfast.pipeline.learn import job as learn_job
from holdfast.pipeline.learn.description import ExplainedPattern, explain_patterns, round_count
from holdfast.pipeline.learn.learner import Learner, TopicPattern, learn_patterns
from holdfast.pipeline.learn.rules import MAX_BEGINNINGS, MAX_TOKENS
from holdfast.topics.filters import levels_match
from tests.unit.pipeline.topic_counts import Counted, learn_from

SHAPES = ("engine/temp", "engine/oil", "gps", "status", "door/front/state")
FLEET = [(f"fleet/dev-{n:05d}/{shape}", 2, 40) for n in range(300) for shape in SHAPES]


def texts(patterns: list[TopicPattern]) -> list[str]:
    return sorted(pattern.text for pattern in patterns)


def sure(found: list[ExplainedPattern]) -> list[str]:
    return sorted(one.pattern.text for one in found if one.is_sure)


def test_a_fleet_has_exactly_the_shapes_that_its_devices_have() -> None:
    found = learn_from(FLEET)
    assert texts(found) == sorted(f"fleet/+/{shape}" for shape in SHAPES)
    assert sure(explain_patterns(found)) == texts(found)
    assert {(one.topics, one.messages, one.size_bytes) for one in found} == {(300, 600, 12_000)}
    [level] = found[0].varying
    assert (level.depth, level.values, level.looks, level.first) == (1, 300, "id", "dev-00000")
    assert level.entropy_bits == pytest.approx(8.23, abs=0.01)


def test_a_pattern_is_explained() -> None:
    found = explain_patterns(learn_from([*FLEET, ("news", 1000, 9)]))
    news, temp = found[0], next(one for one in found if one.pattern.text == "fleet/+/engine/temp")
    assert (news.words, news.is_sure, round(news.share, 2)) == ("one topic", True, 0.25)
    assert temp.words == ("level 2 varies, 300 values, looks like a device id (dev-00000 … dev-00299), 8.2 bits")
    assert (temp.against, temp.near) == ((), ())


def test_twelve_measures_of_every_device_are_names_though_a_broker_would_not_see_it() -> None:
    measures = [f"m{chr(97 + n)}" for n in range(12)]
    found = learn_from([(f"f/{n}/{measure}", 1, 1) for n in range(50) for measure in measures])
    assert texts(found) == sorted(f"f/+/{measure}" for measure in measures)
    assert sure(explain_patterns(found)) == texts(found)


def test_rooms_that_are_numbered_are_values_though_they_recur() -> None:
    found = learn_from([(f"house/{n}/{room}/light", 1, 1) for n in range(50) for room in range(1, 21)])
    assert texts(found) == ["house/+/+/light"]
    assert [level.looks for level in found[0].varying] == ["number", "number"]


def test_devices_of_sites_are_values_of_their_own() -> None:
    found = learn_from([(f"site/s{n % 40}/d{n}/temp", 1, 1) for n in range(2_000)])
    assert texts(found) == ["site/+/+/temp"]
    assert [level.values for level in found[0].varying] == [40, 2_000]


def test_a_fleet_beside_noise_keeps_its_name_and_the_noise_is_in_doubt() -> None:
    dice = Random(7)
    noise = [("/".join(dice.choice("abcdefghij") * 3 + str(n) for _ in range(1 + n % 3)), 1, 5) for n in range(60)]
    found = explain_patterns(learn_from([*noise, *FLEET, ("fleet/dev-00003/debug", 1, 5)]))
    assert sure(found) == sorted(f"fleet/+/{shape}" for shape in SHAPES)
    doubts = {one.pattern.text: one.against for one in found if not one.is_sure}
    assert set(doubts) == {"+", "+/+", "+/+/+", "fleet/+/+"}
    assert doubts["+/+"] == (
        "fits no other pattern: level 1 has a name that most have, and these have another",
        "no level has a name: they have nothing in common but the number of levels",
    )
    assert doubts["fleet/+/+"] == (
        "fits no other pattern: level 3 has 4 names that most have, and these have another",
        "few observations: 1 topic so far",
    )


def test_a_large_site_is_one_of_the_sites() -> None:
    """It stands out, and all below it looks as it does below the others."""
    topics = [(f"site/s{n}/d{n}-{k}/temp", 1, 1) for n in range(30) for k in range(3)]
    large = [(f"site/main/d{n}/temp", 1, 1) for n in range(500)]
    odd = [(f"site/main/plan/p{n}/x{n}", 1, 1) for n in range(30)]
    found = learn_from(topics + large)
    assert texts(found) == ["site/+/+/temp"]
    assert (found[0].topics, [level.values for level in found[0].varying]) == (590, [31, 590])
    assert found[0].varying[0].share == pytest.approx(1)
    assert texts(learn_from(topics + large + odd)) == ["site/+/+/temp", "site/main/+/temp", "site/main/plan/+/+"]


def test_what_is_near_the_border_is_told() -> None:
    few = explain_patterns(learn_from([(f"plant/hall{n}/temp", 1, 1) for n in range(9)]))
    many = explain_patterns(
        learn_from([(f"plant/hall{n}/{what}", 1, 1) for n in range(12) for what in ("temp", "light")])
    )
    assert few[0].near == ("level 2 has 9 names; more than 10 would be taken for values",)
    assert many[0].near == ("level 2 has 12 values; up to 10 would be names, each",)
    assert many[0].against == ("few observations: 12 topics so far",)


def test_dollar_topics_are_a_world_of_their_own() -> None:
    found = learn_from([(f"$state/{n}", 1, 1) for n in range(30)] + [(f"${n}/x", 1, 1) for n in range(100, 140)])
    assert texts(found) == ["$+/x", "$state/+"]
    assert texts(learn_from([(f"$q{n}/x", 1, 1) for n in range(30)] + [("a/x", 1, 1)])) == ["$+/x", "a/x"]


@pytest.mark.parametrize(
    ("values", "words"),
    [(1, "1 value"), (999, "999 values"), (1_234, "about 1,200 values"), (99_951, "about 100,000 values")],
)
def test_many_values_are_told_to_two_digits(values: int, words: str) -> None:
    assert round_count(values) == words


TOKENS = st.sampled_from(["", "a", "b", "c", "$x", "temp"]) | st.integers(0, 60).map(str)
TOPICS = st.lists(TOKENS, min_size=1, max_size=5).map("/".join).filter(bool)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(TOPICS, st.integers(1, 50), min_size=1, max_size=150), st.randoms(use_true_random=False))
def test_every_topic_is_in_one_pattern_that_it_matches(topics: dict[str, int], dice: Random) -> None:
    """And the result does not depend on the order in which topics come."""
    rows = [(topic, messages, 3 * messages) for topic, messages in topics.items()]
    found = learn_from(rows)
    dice.shuffle(rows)
    assert learn_from(rows) == found
    assert len({pattern.levels for pattern in found}) == len(found)
    assert sum(pattern.topics for pattern in found) == len(topics)
    assert sum(pattern.messages for pattern in found) == sum(topics.values())
    assert sum(pattern.size_bytes for pattern in found) == 3 * sum(topics.values())
    wanted = [tuple(b"+" if level == "$+" else level.encode() for level in pattern.levels) for pattern in found]
    for topic in topics:
        tokens = topic.encode().split(b"/")
        assert any(levels_match(levels, tokens, dollar=False) for levels in wanted), topic


def test_what_the_learner_holds_is_bounded() -> None:
    """However many topics there are, and however they are made."""
    dice = Random(3)
    topics = Counter("/".join(dice.choice("abcdefgh") for _ in range(6)) for _ in range(20_000))
    learner = Learner(["default"])
    counted = Counted([(topic, 1, 1) for topic in topics], learner, "default")
    found = learn_patterns(counted, learner, lambda _share, _words: None)
    assert len(found) <= MAX_BEGINNINGS
    assert counted.most_levels <= MAX_BEGINNINGS
    assert counted.most_tokens <= MAX_TOKENS
    assert sum(pattern.topics for pattern in found) == len(topics)


def test_what_was_loaded_into_a_zone_is_learnt_from_as_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    views = [ZoneView("default", (), (0, 1)), ZoneView("plant", ("plant/#",), (2,)), ZoneView("plant~1", (), (3,))]
    source = SimpleNamespace(zones=lambda: views)
    monkeypatch.setattr(learn_job, "open_source", lambda _options: nullcontext(source))
    job = learn_job.LearnJob({"endpoint": "grpc://127.0.0.1:1"})
    assert learn_job._zones(job) == {0: "default", 1: "default", 2: "plant", 3: "plant"}
    assert learn_job._zones(replace(job, zone="plant")) == {2: "plant", 3: "plant"}
    with pytest.raises(SettingsError, match=r"there is no zone 'press'; there are default, plant$"):
        learn_job._zones(replace(job, zone="press"))
