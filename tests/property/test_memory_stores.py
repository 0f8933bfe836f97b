"""The stores in memory against the simplest thing that could be right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.durable.queues.memory_queue import MemoryQueue
from holdfast.durable.retained.memory_retained import MemoryRetained
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.topics.filters import parse_filter
from tests.retained_scans import rest_of, take

pytestmark = pytest.mark.compiled

LEVELS = ["a", "b", "", "$s", "é"]
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.sampled_from(["#", "+", "a/#", "+/+", "a/+/b", "a", "/#", "$s/#", "+/b/#", "é/+"])


def message(topic: str, payload: bytes, *, expires_us: int = 0) -> Message:
    return Message(topic.encode(), payload, 1, ClientId("p"), 1, retain=True, expires_us=expires_us)


@given(
    st.lists(st.tuples(topics, st.sampled_from([b"", b"1", b"2"]), st.sampled_from([0, 50, 200])), max_size=30),
    st.lists(filters, min_size=1),
)
def test_retained_messages_are_found_as_by_looking_at_all(kept: list[tuple[str, bytes, int]], asked: list[str]) -> None:
    """M1, M2, M10, L7."""
    store = MemoryRetained()
    model: dict[str, Message] = {}
    for topic, payload, expires_us in kept:
        found = message(topic, payload, expires_us=expires_us)
        store.keep(found)
        model.pop(topic, None)
        if payload:
            model[topic] = found
    alive = {topic: found for topic, found in model.items() if not found.expired(100)}
    for text in asked:
        topic_filter = parse_filter(text.encode())
        expected = {topic for topic in alive if topic_filter.matches(topic.encode())}
        answers = [found.topic.decode() for found in rest_of(store.match(topic_filter, 100))]
        assert len(answers) == len(set(answers))
        assert set(answers) == expected
        ordered = sorted(answers, key=lambda topic: topic.split("/"))
        for at, topic in enumerate(ordered):
            rest = store.rest(topic_filter, 100, topic.encode(), store.newest())
            assert [found.topic.decode() for found in rest_of(rest)] == ordered[at + 1 :]
    for topic in list(model):
        store.keep(message(topic, b""))
    assert store.count() == 0


def test_a_walk_over_retained_messages_bears_changes_meanwhile() -> None:
    store = MemoryRetained()
    for number in range(10):
        store.keep(message(f"a/{number}", b"x"))
    walk = store.match(parse_filter(b"a/#"), 0)
    newest = store.newest()
    assert newest == store.written()
    seen = [take(walk).topic, take(walk).topic]
    for number in range(5, 8):
        store.keep(message(f"a/{number}", b""))
    store.keep(message("a/new", b"x"))
    seen += [found.topic for found in rest_of(walk)]
    stayed = [b"a/%d" % number for number in (0, 1, 2, 3, 4, 8, 9)]
    assert [topic for topic in seen if topic in stayed] == stayed
    assert len(seen) == len(set(seen))
    assert [found.topic for found in rest_of(store.rest(parse_filter(b"a/#"), 0, b"a/1", newest))] == stayed[2:]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("acknowledge"), st.integers(0, 60)),
        st.tuples(st.just("read"), st.integers(0, 60)),
        st.tuples(st.just("drop"), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(1, 8), st.integers(10, 200))
def test_a_queue_gives_back_what_it_was_given_within_its_limits(
    todo: list[tuple[str, int]], max_messages: int, max_bytes: int
) -> None:
    """T5, T6, T7."""
    queue = MemoryQueue(max_messages, max_bytes)
    model: dict[int, Owed] = {}
    count = 0
    read_up_to = 0
    for what, number in todo:
        if what == "append":
            pack = [Owed(message("t", b"x" * 9), 1) for _n in range(number)]
            dropped = queue.append(pack)
            for owed in pack:
                count += 1
                assert owed.serial == count
                model[count] = owed
            gone = 0
            waiting = [serial for serial in model if serial > read_up_to]
            while len(waiting) > max_messages or sum(model[serial].size_bytes for serial in waiting) > max_bytes:
                del model[waiting.pop(0)]
                gone += 1
            assert dropped == gone
        elif what == "acknowledge":
            queue.acknowledge(number)
            model.pop(number, None)
        elif what == "read":
            found = [serial for serial in model if serial > number][:3]
            assert queue.read(number, 3) == [model[serial] for serial in found]
            read_up_to = max([read_up_to, *found])
        else:
            queue.drop()
            model.clear()
        queue.check_invariants()
        assert queue.count() == len(model)
