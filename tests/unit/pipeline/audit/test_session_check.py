"""The audit's own reading of filters agrees with the broker's, which it does not use."""

from random import Random

import pyarrow as pa  # type: ignore[import-untyped]

from holdfast.pipeline.audit.session_check import compare_topics, filter_regex, key_filters, key_topics
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


def found_by_keys(filters: list[tuple[str, int]], topics: list[str]) -> list[tuple[str, str, int]]:
    """What Spark's join makes of it."""
    given = pa.RecordBatch.from_pydict(
        {
            "filter": [text for text, _mount in filters],
            "mount": pa.array([mount for _text, mount in filters], pa.int32()),
        }
    )
    [keyed] = key_filters(iter([given]))
    masks = sorted(set(keyed.column("mask").to_pylist()))
    rows = [
        {"topic": topic["topic"], "filter": one["filter"], "mount": one["mount"]}
        for batch in key_topics(masks, iter([pa.RecordBatch.from_pydict({"topic": topics})]))
        for topic in batch.to_pylist()
        for one in keyed.to_pylist()
        if one["key"] == topic["key"]
    ]
    [found] = compare_topics(iter([pa.RecordBatch.from_pylist(rows)]))
    return sorted(zip(*found.to_pydict().values(), strict=True))


def test_a_wildcard_behind_a_mount_point_leaves_out_what_is_hidden_there() -> None:
    assert found_by_keys([("t1/#", 3), ("t1/#", 0), ("b", 0)], ["t1/a", "t1/$a", "b"]) == [
        ("b", "b", 0),
        ("t1/$a", "t1/#", 0),
        ("t1/a", "t1/#", 0),
        ("t1/a", "t1/#", 3),
    ]


def test_topics_find_by_keys_what_every_filter_tried_on_every_topic_finds() -> None:
    """Deeper than a mask reaches, too."""
    dice = Random(3)
    topics = sorted(
        {"/".join(dice.choice(TOKENS) for _level in range(dice.randint(1, 10))) or "a" for _topic in range(300)}
    )
    filters = {"/".join([*("x" for _level in range(9)), "+"])}
    for topic in topics:
        levels = [dice.choice((level, level, "+")) for level in topic.split("/")]
        filters.add("/".join(levels if dice.random() < 0.6 else [*levels[: dice.randint(0, len(levels))], "#"]))

    found = found_by_keys([(text, 0) for text in sorted(filters)], topics)

    right = [(topic, text, 0) for topic in topics for text in filters if filter_regex(text).fullmatch(topic)]
    assert found == sorted(right)
    assert len(found) > 300
