"""The audit's own reading of filters agrees with the broker's, which it does not use."""

from random import Random

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.pipeline.audit.session_check import _match, filter_regex
from holdfast.topics.filters import levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

TOKENS = ("a", "b", "", "$a", "a.b", "x*", "[", "ü")


def test_filters_mean_the_same_as_in_the_broker() -> None:
    dice = Random(7)
    for _round in range(3_000):
        topic = "/".join(dice.choice(TOKENS) for _level in range(dice.randint(1, 4))) or "a"
        levels = [dice.choice((*TOKENS, "+", "+")) for _level in range(dice.randint(1, 4))]
        if dice.random() < 0.4:
            levels[-1] = "#"
        text = "/".join(levels) or "a"
        encoded = topic.encode()
        right = levels_match(tuple(text.encode().split(SEPARATOR)), encoded.split(SEPARATOR), dollar=is_dollar(encoded))
        assert bool(filter_regex(text).fullmatch(topic)) is right, (text, topic)


def test_a_wildcard_behind_a_mount_point_leaves_out_what_is_hidden_there() -> None:
    topics = pa.RecordBatch.from_pydict({"topic": ["t1/a", "t1/$a", "b"]})
    [found] = _match([("t1/#", 3), ("t1/#", 0), ("b", 0)], iter([topics]))
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        ("b", "b", 0),
        ("t1/$a", "t1/#", 0),
        ("t1/a", "t1/#", 0),
        ("t1/a", "t1/#", 3),
    ]
