"""Ranges of topics, learnt apart and merged, are the structure that one learner makes of all of them."""

from collections.abc import Mapping
from functools import reduce
from random import Random

import pytest

from holdfast.records.generations import Parameter
from holdfast.storage.rocks.shipments.parallel_layout import learn
from holdfast.storage.rocks.shipments.parallel_learning import (
    LayoutChoice,
    LearningRound,
    RangeLearner,
    TopicTrie,
    learn_in_rounds,
)

#: Small enough that names run out, that streams do, and that ids collide.
TIGHT: dict[str, Parameter] = {"thresholds": (3, 2), "max_streams": 24, "id_bits": 6}
NARROW: dict[str, Parameter] = {"thresholds": (2, 0, 1), "max_streams": 12, "max_nodes": 40}
WIDE: dict[str, Parameter] = {}


class Workers:
    """Runs rounds over topics in ranges, and merges their tries in an order of chance."""

    def __init__(self, topics: Mapping[bytes, int], ranges: int, dice: Random) -> None:
        ordered = sorted(topics.items())
        cuts = sorted(dice.randrange(len(ordered) + 1) for _cut in range(ranges - 1))
        self._ranges = [ordered[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, len(ordered)], strict=True)]
        self._dice = dice
        self.rounds = 0
        self.most_makers = 0

    def __call__(self, rounds: Mapping[int, LearningRound]) -> dict[int, TopicTrie]:
        self.rounds += 1
        found: dict[int, TopicTrie] = {}
        for slot, known in rounds.items():
            tries = [trie for one in self._ranges if (trie := self._learn(known, one)) is not None]
            self._dice.shuffle(tries)
            if tries:
                found[slot] = reduce(known.merge, tries)
                self.most_makers = max(self.most_makers, *[len(trie.makers) for trie in [*tries, found[slot]]])
        return found

    @staticmethod
    def _learn(known: LearningRound, topics: list[tuple[bytes, int]]) -> TopicTrie | None:
        learner = RangeLearner(known)
        for topic, messages in topics:
            learner.add(topic, messages)
        return learner.finish()


def some_topics(dice: Random, count: int) -> dict[bytes, int]:
    """Of some shapes, with names and numbers, `$`-topics, deep ones and long ones."""
    names = [b"plant", b"press", b"$own", b"a", b"a-b", b"", b"temp", b"flow"]
    topics: dict[bytes, int] = {}
    for _topic in range(count):
        levels = [
            b"%d" % dice.randrange(40) if dice.random() < 0.5 else dice.choice(names)
            for _level in range(dice.randint(1, 4))
        ]
        if dice.random() < 0.01:
            levels *= 12
        if dice.random() < 0.01:
            levels.append(b"x" * 1_100)
        topics[b"/".join(levels) or b"a"] = dice.randint(1, 9)
    return topics


@pytest.mark.parametrize("parameters", [TIGHT, NARROW, WIDE], ids=["tight", "narrow", "wide"])
def test_ranges_learn_what_one_learner_learns(parameters: dict[str, Parameter]) -> None:
    """Records, their order, stream ids and counts, whatever the ranges are and in whichever order tries are merged."""
    dice = Random(11)
    for _round in range(12):
        topics = some_topics(dice, dice.choice([1, 7, 60, 400]))
        workers = Workers(topics, dice.randint(1, 9), dice)

        found = learn_in_rounds({5: LayoutChoice("learned", parameters)}, workers)

        assert found == {5: learn("learned", parameters, topics)}
        assert workers.most_makers <= int(str(parameters.get("max_streams", 1_000)))


def test_a_fleet_is_learnt_in_two_rounds_each_time() -> None:
    topics = {b"plant/%d/%s" % (device, what): 1 for device in range(500) for what in (b"temp", b"flow")}
    workers = Workers(topics, 6, Random(3))

    found = learn_in_rounds({0: LayoutChoice("paged", WIDE)}, workers)

    assert found == {0: learn("paged", WIDE, topics)}
    assert workers.rounds <= 4


def test_shards_learn_apart_and_only_layouts_that_learn() -> None:
    topics = some_topics(Random(5), 100)
    layouts = {0: LayoutChoice("timeline", {}), 3: LayoutChoice("learned", TIGHT), 4: LayoutChoice("indexed", NARROW)}

    found = learn_in_rounds(layouts, Workers(topics, 3, Random(1)))

    assert found == {slot: learn(layout, parameters, topics) for slot, (layout, parameters) in layouts.items()}


def test_a_shard_without_topics_has_learnt_nothing() -> None:
    assert learn_in_rounds({1: LayoutChoice("learned", TIGHT)}, Workers({}, 2, Random(1))) == {
        1: learn("learned", TIGHT, {})
    }


def test_a_round_in_which_the_first_range_learns_more_is_not_exact() -> None:
    """Ranges behind it began with less than they should have."""
    known = LearningRound("learned", TIGHT)
    first, second = TopicTrie((b"a",), b"a", b"a", {b"1": 1}), TopicTrie((), None, b"b", {b"2": 1})

    assert not known.merge(first, second).is_exact
    assert known.merge(first._replace(news=None), second._replace(news=b"b")).counts == {b"1": 1, b"2": 1}
