"""Retained messages on RocksDB against the simplest thing that could be right, also after a reopen."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.retained.retained_store import ScanBudget
from holdfast.model.clock import ManualClock
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.retained import retained_key
from holdfast.storage.rocks.engine.column_families import RETAINED
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.retained.retained_scan import RocksRetainedScan, next_key
from holdfast.storage.rocks.retained.retained_store import RocksRetained
from holdfast.topics.filters import parse_filter
from tests.retained_scans import rest_of, take
from tests.unit.storage.rocks.layouts.counting import CountingFamily

SECOND_US = 1_000_000
NOW_US = 100 * SECOND_US
LEVELS = ["a", "b", "", "$s", "é", "a-b"]
topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.lists(st.sampled_from([*LEVELS, "+"]), min_size=1, max_size=4).flatmap(
    lambda levels: st.sampled_from(["/".join(levels), "/".join([*levels, "#"]), "#"]).filter(bool)
)


def message(topic: str, payload: bytes, *, expiry_s: int = 0) -> Message:
    expires_us = expiry_s * SECOND_US
    return Message(topic.encode(), payload, 1, ClientId("p"), 0, retain=True, expires_us=expires_us)


class OnRocks:
    def __init__(self, folder: Path) -> None:
        self.engine = Engine.open(folder, reserve_bytes=0)
        if RETAINED not in self.engine.families():
            self.engine.create_family(RETAINED)
        self.store = RocksRetained(self.engine, ManualClock())

    def write(self, *messages: Message) -> None:
        """Up to the write, not the receipt."""
        batch = Batch(self.engine.written + 1)
        batch.retained.extend(messages)
        changes = Changes()
        self.store.add(batch, changes)
        self.engine.write(batch.number, changes)

    def keep(self, *messages: Message) -> None:
        self.write(*messages)
        for one in messages:
            self.store.keep(one)

    def found(self, text: str, now_us: int = NOW_US) -> list[str]:
        return [one.topic.decode() for one in rest_of(self.store.match(parse_filter(text.encode()), now_us))]


@settings(max_examples=15)
@given(
    st.lists(st.tuples(topics, st.sampled_from([b"", b"1", b"2"]), st.sampled_from([0, 50, 200])), max_size=25),
    st.lists(filters, min_size=1, max_size=10),
    st.integers(1, 5),
)
@pytest.mark.slow
def test_retained_messages_are_found_as_by_looking_at_all(
    kept: list[tuple[str, bytes, int]], asked: list[str], size: int
) -> None:
    """M1, M2, M10, L7."""
    model: dict[str, Message] = {}
    messages = [message(topic, payload, expiry_s=expiry_s) for topic, payload, expiry_s in kept]
    for one in messages:
        model.pop(one.topic.decode(), None)
        if one.payload:
            model[one.topic.decode()] = one
    with TemporaryDirectory() as folder:
        stored = OnRocks(Path(folder))
        for at in range(0, len(messages), size):
            stored.keep(*messages[at : at + size])
        stored.engine.close()
        stored = OnRocks(Path(folder))
        assert stored.store.count() == len(model)
        alive = [topic for topic, one in model.items() if not one.expired(NOW_US)]
        for text in asked:
            expected = sorted(topic for topic in alive if parse_filter(text.encode()).matches(topic.encode()))
            found = stored.found(text)
            assert sorted(found) == expected, text
            newest = stored.store.newest()
            for at, topic in enumerate(found):
                rest = stored.store.rest(parse_filter(text.encode()), NOW_US, topic.encode(), newest)
                assert [one.topic.decode() for one in rest_of(rest)] == found[at + 1 :], "it goes on behind any of them"
        for topic in alive:
            assert stored.store.get(topic.encode(), NOW_US) == model[topic]
        changes = Changes()
        stored.store.sweep(NOW_US, 1000, changes)
        stored.engine.write(stored.engine.written + 1, changes)
        assert stored.store.count() == len(alive)
        assert sorted(stored.found("#", 0)) == sorted(topic for topic in alive if not topic.startswith("$"))
        stored.engine.close()


@given(st.lists(topics, max_size=30), filters)
def test_the_next_key_passes_over_no_match_and_goes_forward(kept: list[str], text: str) -> None:
    """M10: seeking finds what looking at all finds."""
    topic_filter = parse_filter(text.encode())
    keys = sorted({retained_key(topic.encode()) for topic in kept})
    found: list[bytes] = []
    at = b"\x01"
    while True:
        later = [key for key in keys if key >= at]
        if not later:
            break
        jump = next_key(topic_filter.levels, later[0][1:].split(b"\x00"))
        if jump is None:
            break
        if jump == b"":
            found.append(later[0])
            jump = later[0] + b"\x00"
        assert jump > later[0]
        at = jump
    matching = {topic for topic in kept if topic_filter.matches(topic.encode())}
    assert found == sorted(retained_key(topic.encode()) for topic in matching)


@pytest.mark.parametrize("text", ["+/+/none", "/".join(["+"] * 30), "#", "a/+/1", "+/b3/#", "a/b1/1"])
def test_a_slice_visits_no_more_keys_than_its_budget_and_a_scan_can_go_on_behind_it(tmp_path: Path, text: str) -> None:
    """Q7: keys are what a slice is bounded by, whether they match or not; where it ended says how far a scan is."""
    stored = OnRocks(tmp_path)
    stored.keep(*(message(f"{first}/b{n}/{n % 3}", b"x") for first in "abc" for n in range(40)))
    cells = CountingFamily(stored.engine.family(RETAINED))
    stored.store.family = lambda: cells  # type: ignore[method-assign]
    topic_filter = parse_filter(text.encode())
    expected = stored.found(text)
    scan = stored.store.match(topic_filter, NOW_US)
    found: list[str] = []
    while not scan.over():
        cells.moves = cells.gets = 0
        one = scan.next(ScanBudget(7))
        assert cells.moves + cells.gets <= 8
        found += [] if one is None else [one.topic.decode()]
        rest = stored.store.rest(topic_filter, NOW_US, scan.at(), stored.store.newest())
        assert found + [one.topic.decode() for one in rest_of(rest)] == expected
    assert found == expected
    stored.engine.close()


def test_a_page_of_large_messages_is_bounded_by_its_bytes(tmp_path: Path) -> None:
    """A slow subscriber holds a page in memory."""
    stored = OnRocks(tmp_path)
    stored.keep(*(message(f"a/{number}", bytes(100_000)) for number in range(20)))
    scan = stored.store.match(parse_filter(b"#"), 0)
    assert isinstance(scan, RocksRetainedScan)
    held = []
    while not scan.over():
        scan.next(ScanBudget(1000))
        held.append(scan.held())
    assert len(held) == 20
    assert max(held) <= 3
    stored.engine.close()


def test_what_is_written_and_not_committed_is_not_found(tmp_path: Path) -> None:
    """L20. Whoever is subscribed gets it as a live message."""
    stored = OnRocks(tmp_path)
    stored.write(message("a", b"1"))
    assert stored.found("#") == []
    assert stored.store.get(b"a", NOW_US) is None
    stored.store.keep(message("a", b"1"))
    assert stored.found("#") == ["a"]
    stored.engine.close()


def test_a_walk_bears_changes_meanwhile(tmp_path: Path) -> None:
    stored = OnRocks(tmp_path)
    stored.keep(*(message(f"a/{number:03}", b"x") for number in range(250)))
    walk = stored.store.match(parse_filter(b"a/#"), 0)
    seen = [take(walk).topic.decode()]
    stored.keep(message("a/200", b""), message("a/201", b"new"), message("a/new", b"x"))
    seen += [one.topic.decode() for one in rest_of(walk)]
    assert seen == [f"a/{number:03}" for number in range(250) if number not in (200, 201)]
    stored.engine.close()


def test_a_walk_goes_on_after_a_restart_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Q7: what changed or came since it began is not of it."""
    stored = OnRocks(tmp_path)
    stored.keep(*(message(f"a/{number:03}", b"x") for number in range(250)))
    newest = stored.store.newest()
    stored.keep(message("a/200", b""), message("a/201", b"new"), message("a/new", b"x"))
    stored.engine.close()
    again = OnRocks(tmp_path)
    assert again.store.newest() > newest
    rest = again.store.rest(parse_filter(b"a/#"), 0, b"a/120", newest)
    assert [one.topic.decode() for one in rest_of(rest)] == [
        f"a/{number:03}" for number in range(121, 250) if number not in (200, 201)
    ]
    assert again.store.at(b"a/120", newest) == message("a/120", b"x")
    assert again.store.at(b"a/200", newest) is None
    assert again.store.at(b"a/201", newest) is None
    again.engine.close()


def test_what_is_written_counts_as_older_than_a_walk_that_begins(tmp_path: Path) -> None:
    """Q7: it may be committed before the SUBACK is."""
    stored = OnRocks(tmp_path)
    stored.write(message("a", b"1"))
    written = stored.store.written()
    assert written > stored.store.newest()
    stored.store.keep(message("a", b"1"))
    assert stored.store.newest() == written
    assert [one.topic for one in rest_of(stored.store.rest(parse_filter(b"#"), 0, b"", written))] == [b"a"]
    stored.engine.close()


def test_a_record_that_cannot_be_decoded_is_skipped_and_counted(tmp_path: Path) -> None:
    """M3."""
    stored = OnRocks(tmp_path)
    stored.keep(message("a", b"1"), message("b", b"2"))
    changes = Changes()
    changes.into(RETAINED).put(retained_key(b"a"), b"\x01nonsense")
    stored.engine.write(stored.engine.written + 1, changes)
    assert stored.found("#") == stored.found("#") == ["b"]
    assert stored.store.get(b"a", 0) is None
    assert stored.store.unreadable == 1, "however often it is read"
    assert list(stored.store.undecodable()) == [b"a"]
    stored.engine.close()


def test_the_brokers_own_topics_are_found_and_never_stored(tmp_path: Path) -> None:
    stored = OnRocks(tmp_path)
    stored.keep(message("$SYS/broker/uptime", b"1"), message("a", b"2"))
    assert stored.found("$SYS/#") == ["$SYS/broker/uptime"]
    assert stored.found("#") == ["a"]
    stored.engine.close()
    again = OnRocks(tmp_path)
    assert again.found("$SYS/#") == []
    assert again.found("#") == ["a"]
    again.engine.close()
