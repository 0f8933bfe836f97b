"""Every layout gives what brute force gives, whatever is published, asked for, written behind or crashed."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.records.messages import stored_position, stored_topic
from holdfast.storage.rocks.layouts.build import ALL_LAYOUTS, Parameters, make_layout
from holdfast.storage.rocks.layouts.layout import Layout
from tests.learned_dump import dump
from tests.property.test_matching import brute_force
from tests.unit.storage.rocks.layouts.store import END_US, Log, Store

# Few names, so that filters and topics meet; the odd ones are the ones that break layouts.
LEVELS = ["a", "b", "c", "", "$s", "é", "temp"]
_deep = st.integers(30, 36).map(lambda depth: "/".join(["a"] * depth))
_shallow = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=5).map("/".join).filter(bool)
_device = st.builds("plant/{}/{}".format, st.integers(0, 12), st.sampled_from(["temp", "hum", "a/b"]))
topics = st.one_of(_shallow, _device, _deep, st.just("$s/a"), st.just("x" * 1_500))


@st.composite
def filters(draw: st.DrawFn) -> str:
    """Filters of every shape; sometimes a topic as it is, or with levels replaced by wildcards."""
    levels = draw(topics).split("/") if draw(st.booleans()) else draw(st.lists(st.sampled_from(LEVELS), max_size=4))
    levels = [draw(st.sampled_from([level, level, "+"])) for level in levels]
    if not levels or draw(st.integers(0, 2)) == 0:
        levels = [*levels[: draw(st.integers(0, 3))], "#"]
    return "/".join(levels) or "/"


#: Narrow limits, so that a few messages reach them: levels that vary at once, a full structure, colliding fingerprints
#: of tokens and of streams, cycles and epochs of a few messages.
_STRUCTURES: list[Parameters] = [
    {},
    {"thresholds": [2, 1], "hash_bits": 1},
    {"thresholds": [0]},
    {"thresholds": [1, 3, 0], "max_streams": 4, "hash_bits": 2},
    {"thresholds": [2], "max_nodes": 36, "max_places": 2},
    {"thresholds": [3, 2], "id_bits": 3, "max_streams": 8},
]
_CYCLES: list[Parameters] = [{"cycle_messages": 1}, {"cycle_messages": 5}, {"cycle_bytes": 2_000}, {}]
_CURVES: list[Parameters] = [
    {},
    {"levels": 1, "bits": 3, "epoch_messages": 7},
    {"levels": 3, "bits": 2, "epoch_messages": 3},
    {"levels": 4, "bits": 1, "epoch_messages": 100},
    {"levels": 2, "bits": 32, "epoch_messages": 1},
]


@st.composite
def parameters(draw: st.DrawFn, name: str) -> Parameters:
    if name in ("timeline", "paged"):
        return {}
    if name == "learned":
        return {**draw(st.sampled_from(_STRUCTURES)), **draw(st.sampled_from(_CYCLES))}
    return draw(st.sampled_from(_STRUCTURES if name == "indexed" else _CURVES))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, Parameters]:
    # The default has the most to it, so it is asked the most.
    name = draw(st.sampled_from([*ALL_LAYOUTS, *["learned"] * len(ALL_LAYOUTS)]))
    return name, draw(parameters(name))


#: What happens between commits: writing behind in slices of any size, and noticing that it is written.
_puts = st.lists(st.tuples(topics, st.sampled_from([1, 1, 3, 2**31])), min_size=1, max_size=12)
_steps = st.lists(
    st.one_of(_puts, _puts, st.integers(1, 6), st.just("settle"), st.just("load"), st.just("finish")), max_size=12
)
Step = list[tuple[str, int]] | int | str

_questions = st.lists(st.tuples(filters(), st.integers(-1, 40), st.integers(0, 60)), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("rocks"))
    yield store
    store.close()


class Run:
    """A log that is written by steps, and the list of what it must hold."""

    def __init__(self, store: Store, name: str, wanted: Parameters) -> None:
        self.name = name
        self.parameters = wanted
        self.log = Log(store, make_layout(name, wanted))
        self.expected: list[tuple[int, str]] = []

    def take(self, step: Step) -> None:
        log = self.log
        if isinstance(step, int):
            log.write_behind(step)
        elif step == "settle":
            log.layout.settle(log.cells)
        elif step == "finish":
            log.layout.finish()
        elif step == "load":
            self.crash()
        else:
            assert isinstance(step, list)
            # Those that follow each other are one commit.
            for step_us, commit in groupby(step, key=itemgetter(1)):
                names = [topic for topic, _step_us in commit]
                before_us = log.last_us
                log.put(*(name.encode() for name in names), step_us=step_us)
                self.expected += [(before_us + step_us * (i + 1), name) for i, name in enumerate(names)]

    def crash(self) -> None:
        """The memory of the writer is gone; what was committed is there."""
        self.log.layout = make_layout(self.name, self.parameters)
        self.log.layout.load(self.log.cells)

    def bounds(self, lo: int, hi: int) -> tuple[int, int]:
        """Bounds that lie on messages, beside them, and outside."""
        positions = [position for position, _topic in self.expected] or [0]
        lo_us = positions[lo] if 0 <= lo < len(positions) else 0
        return lo_us, positions[hi] if hi < len(positions) else END_US

    def check(self, text: str, lo_us: int, hi_us: int) -> None:
        wanted = [
            position for position, topic in self.expected if lo_us <= position < hi_us and brute_force(text, topic)
        ]
        assert self.log.read(text, lo_us, hi_us) == wanted, (self.name, text)
        # The same from a reader in another process: it has the parameters and what is stored.
        reader = make_layout(self.name, self.parameters)
        levels = tuple(text.encode().split(b"/"))
        found = filter(None, reader.read(self.log.cells, levels, lo_us, hi_us))
        assert [stored_position(value) for value in found] == wanted, (self.name, text, "reader")
        for layout in (self.log.layout, make_layout(self.name, self.parameters)):
            self.check_back(layout, levels, lo_us, hi_us, wanted)

    def check_back(self, layout: Layout, levels: tuple[bytes, ...], lo_us: int, hi_us: int, wanted: list[int]) -> None:
        """The newest first; where it says how far it has come, no match is left at or above."""
        found: list[int] = []
        for position_us, value in layout.read_back(self.log.cells, levels, lo_us, hi_us):
            if value:
                assert stored_position(value) == position_us
                found.append(position_us)
            else:
                assert lo_us <= position_us <= hi_us
                assert found == [one for one in reversed(wanted) if one >= position_us]
        assert found == wanted[::-1], (self.name, levels, "backwards")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(layout=layouts(), steps=_steps, questions=_questions)
@example(
    layout=("learned", {"thresholds": [0], "hash_bits": 0, "cycle_messages": 1}),
    steps=[[("a/b", 1), ("b/a", 1), ("a/b", 1)], 1, [("b/b", 1)], "load", 6, "settle", [("a/b", 1)], 6],
    questions=[("a/b", 0, 60), ("+/b", 1, 60), ("a/b", 2, 60)],
)
def test_a_layout_gives_what_brute_force_gives(
    store: Store, layout: tuple[str, Parameters], steps: list[Step], questions: list[tuple[str, int, int]]
) -> None:
    """L4, L5, L6, L7, L10, L19: for every filter and range, with limits so narrow that everything collides."""
    run = Run(store, *layout)
    for step in steps:
        run.take(step)
        text, lo, hi = questions[0]
        run.check(text, *run.bounds(lo, hi))
    for text, lo, hi in [*questions, ("#", -1, 60), ("$s/#", -1, 60)]:
        run.check(text, *run.bounds(lo, hi))
    store.drop(run.log.family)


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(steps=_steps, questions=_questions, data=st.data())
def test_all_layouts_give_the_same(
    store: Store, steps: list[Step], questions: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    """L4: the timeline is the reference, and it knows nothing but time."""
    runs = [Run(store, name, data.draw(parameters(name))) for name in ALL_LAYOUTS]
    for run in runs:
        for step in steps:
            run.take(step)
    for text, lo, hi in questions:
        lo_us, hi_us = runs[0].bounds(lo, hi)
        levels = tuple(text.encode().split(b"/"))
        answers = [list(filter(None, run.log.layout.read(run.log.cells, levels, lo_us, hi_us))) for run in runs]
        for answer in answers[1:]:
            assert answer == answers[0]
    for run in runs:
        store.drop(run.log.family)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_steps, min_size=1, max_size=2), questions=_questions, data=st.data())
def test_a_layout_is_the_same_after_the_database_was_closed(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[list[Step]],
    questions: list[tuple[str, int, int]],
    data: st.DataObject,
) -> None:
    """L10, L11: structure, postings and mark come back from a real RocksDB, for several layouts side by side."""
    store = Store(tmp_path_factory.mktemp("reopened"))
    runs = [Run(store, name, data.draw(parameters(name))) for name in ("learned", "bitmask", "indexed")]
    for batch in steps:
        for run in runs:
            for step in batch:
                run.take(step)
        store.reopen()
        for run in runs:
            before = run.log.layout.learned()
            run.crash()
            after = run.log.layout.learned()
            if before is not None and after is not None:
                assert sorted(p.text for p in after.patterns()) == sorted(p.text for p in before.patterns())
                if run.name == "learned":
                    assert dump(after) == dump(before)
            for text, lo, hi in questions:
                run.check(text, *run.bounds(lo, hi))
    store.close()


_patterns = st.builds(
    lambda first, rest: "/".join([first, *rest]).encode(),
    st.sampled_from(["a", "b", "+", "$s", "$+"]),
    st.lists(st.sampled_from(["a", "b", "+", ""]), max_size=3),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    generations=st.lists(
        st.tuples(layouts(), _puts, st.lists(_patterns, max_size=4, unique=True)), min_size=2, max_size=4
    ),
    text=filters(),
)
def test_generations_inherit_and_old_ones_stay_readable(
    store: Store, generations: list[tuple[tuple[str, Parameters], list[tuple[str, int]], list[bytes]]], text: str
) -> None:
    """L11: each generation keeps its layout and its parameters; the next one begins with what was learnt, and given."""
    runs: list[Run] = []
    learned = None
    for (name, wanted), puts, patterns in generations:
        run = Run(store, name, wanted)
        run.log.layout = make_layout(name, wanted, learned.inherit() if learned is not None else None, patterns)
        run.take(puts)
        learned = run.log.layout.learned() or learned
        runs.append(run)
    for run in runs:
        run.check(text, 0, END_US)
        run.check("#", 0, END_US)
        run.crash()
        run.check(text, 0, END_US)
        store.drop(run.log.family)


@pytest.mark.parametrize("name", ALL_LAYOUTS)
def test_the_longest_topics_are_stored_and_replayed(store: Store, name: str) -> None:
    """L6: 65,535 bytes in one level, in 65,536 empty levels, in Unicode."""
    longest = ["x" * 65_535, "/" * 65_535, "é" * 32_767, "a/" * 32_767]
    log = Log(store, make_layout(name, {}))
    log.put(*[topic.encode() for topic in longest])
    for position_us, topic in enumerate(longest, start=1):
        assert log.read(topic) == [position_us]
    wanted = {"#": [1, 2, 3, 4], "+": [1, 3], "+/#": [1, 2, 3, 4], "a/#": [4], "a/+/a/#": [4], "/+/#": [2], "x/#": []}
    assert {text: log.read(text) for text in wanted} == wanted


def test_a_stored_value_is_given_as_it_was_put(store: Store) -> None:
    """L4: readers get the bytes, so nothing is decoded on the way."""
    run = Run(store, "learned", {})
    run.take([("a/b", 1)])
    (value,) = filter(None, run.log.layout.read(run.log.cells, (b"#",), 0, END_US))
    assert stored_topic(value) == b"a/b"
