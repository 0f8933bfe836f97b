"""The fleet that patterns are measured with: what is learnt from it makes the log smaller and asks for less of it."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.fleet import SHAPES, make
from holdfast.history.patterns import GIVEN, INHERITED, NOW, PatternMeasurement, measure_patterns
from holdfast.history.reader.reader import HistoryReader
from holdfast.pipeline.learn.description import explain_patterns
from holdfast.pipeline.learn.job import choose_patterns
from holdfast.records.messages import stored_topic
from tests.unit.pipeline.topic_counts import learn_from

pytestmark = pytest.mark.slow

FLEET = {f"fleet/+/{shape.decode()}" for shape in SHAPES}


@pytest.fixture(scope="module", params=[0, 60], ids=["clean", "noisy"])
def measured(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[int, PatternMeasurement]:
    folder = tmp_path_factory.mktemp("fleet")
    noise: int = request.param
    count = make(folder, 400, 2, noise)
    with HistoryReader.open(folder) as reader:
        topics = Counter(stored_topic(value).decode() for value in reader.start_replay(reader.parts()).records())
    assert topics.total() == count == noise + 4_000
    zones = choose_patterns(
        explain_patterns(learn_from([(topic, messages, 20 * messages) for topic, messages in topics.items()]))
    )
    assert set(zones["default"]) == FLEET, "exactly what the devices publish, with noise or without"
    return noise, measure_patterns(folder, "default", zones["default"], lambda _name: None)


def test_a_generation_that_is_given_patterns_has_fewer_streams_and_no_more_bytes(
    measured: tuple[int, PatternMeasurement],
) -> None:
    noise, found = measured
    now, given = found.trials[NOW], found.trials[GIVEN]
    assert found.messages == noise + 4_000
    assert now.streams >= 8 * len(FLEET)
    assert given.streams <= len(FLEET) + (25 if noise else 0)
    # Where noise made the first level vary, each message has one posting less now.
    assert given.bytes_per_message < now.bytes_per_message - (1 if noise else -0.5)


def test_it_asks_for_less_of_the_log(measured: tuple[int, PatternMeasurement]) -> None:
    noise, found = measured
    by_name = {name: {answer.name: answer for answer in trial.answers} for name, trial in found.trials.items()}
    now, inherited, given = (by_name[name] for name in (NOW, INHERITED, GIVEN))
    assert now["one device"].messages == 10
    assert given["one device"].seeks <= inherited["one device"].seeks
    assert (given["one shape"].seeks, given["one shape"].fetches) == (1, 0)
    assert given["one shape"].messages == 800
    if noise:
        assert inherited["one shape"].fetches > 700, "by itself, the next generation would go on as the one before"
        assert given["one device"].seeks < inherited["one device"].seeks
