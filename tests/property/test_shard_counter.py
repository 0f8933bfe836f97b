"""Counters give what brute force gives: positions of every filter, and the last message before every position."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.history.past.density_parts import open_counter
from holdfast.storage.rocks.layouts.build import Parameters, make_layout
from holdfast.storage.rocks.layouts.shard_counter import Place, ShardCounter, Wanted
from tests.property.test_layouts import Run, Step, _questions, _steps, layouts
from tests.property.test_matching import brute_force
from tests.unit.storage.rocks.layouts.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("rocks"))
    yield store
    store.close()


def positions(counter: ShardCounter, wanted: Wanted, lo_us: int, hi_us: int) -> list[int]:
    return sorted(position for found in counter.positions(wanted, lo_us, hi_us) for position in found)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(layout=layouts(), steps=_steps, questions=_questions, paged=st.booleans())
def test_a_counter_gives_what_brute_force_gives(
    store: Store,
    layout: tuple[str, Parameters],
    steps: list[Step],
    questions: list[tuple[str, int, int]],
    paged: bool,
) -> None:
    run = Run(store, *(("paged", {}) if paged else layout))
    for step in steps:
        run.take(step)
    counter = open_counter(make_layout(run.name, run.parameters), run.log.cells)
    for text, lo, hi in [*questions, ("#", -1, 60), ("$s/#", -1, 60)]:
        lo_us, hi_us = run.bounds(lo, hi)
        inside = [(at_us, topic) for at_us, topic in run.expected if lo_us <= at_us < hi_us]
        wanted = Wanted(tuple(text.encode().split(b"/")))
        assert positions(counter, wanted, lo_us, hi_us) == [
            at_us for at_us, topic in inside if brute_force(text, topic)
        ]
        dollars = [at_us for at_us, topic in inside if topic.startswith("$")]
        assert positions(counter, Wanted(), lo_us, hi_us) == dollars
        assert positions(counter, Wanted(client="pump"), lo_us, hi_us) == [at_us for at_us, _topic in inside]
        assert positions(counter, Wanted(client="other"), lo_us, hi_us) == []
    if counter.knows_serials:
        check_serials(counter, run.expected)
    store.drop(run.log.family)


def check_serials(counter: ShardCounter, expected: list[tuple[int, str]]) -> None:
    before: Place | None = None
    end_us = expected[-1][0] if expected else 0
    for serial, (at_us, topic) in enumerate(expected, 1):
        assert counter.last_before(at_us) == before
        before = Place(at_us, serial)
        assert counter.last_before(at_us + 1) == before
        assert counter.position_of(serial, Place(0, 0), Place(end_us, len(expected))) == at_us
        assert counter.topic_at(at_us) == topic.encode()
    assert counter.last_before(end_us + 1_000) == before
