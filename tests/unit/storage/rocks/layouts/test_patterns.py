"""Patterns of the layout `paged`: learnt from segments, and from what is not in segments yet."""

from collections.abc import Iterator

import pytest

from holdfast.durable.segment_patterns import learn_patterns
from holdfast.durable.zones import Zone
from holdfast.history.patterns import learned_patterns
from holdfast.history.reader.reader import HistoryReader
from holdfast.storage.rocks.checking.overview import patterns_of
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, STRUCTURE
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.next_patterns import write_patterns
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.topics.learned import LearnedTopics
from tests.unit.storage.rocks.log.store import Store

SHARD = "log-00000-00000001"
NEXT_SHARD = "log-00000-00000002"


def fleet(first: int, count: int) -> Iterator[str]:
    for number in range(first, first + count):
        yield f"fleet/{number}/temp"
        yield f"fleet/{number}/speed"


def plants() -> list[str]:
    return [f"plant/{number}/load" for number in range(100)]


def stored(store: Store, family: str = SHARD) -> list[bytes]:
    return [value for _key, value in scan_items(store.engine.family(family), STRUCTURE, MESSAGES)]


def shown(store: Store) -> dict[str, int]:
    return {one.pattern: one.messages for one in patterns_of(store.engine) if "+" in one.pattern}


def test_segments_store_the_patterns_that_their_topics_follow(paged: Store) -> None:
    paged.publish(*fleet(0, 100))
    assert stored(paged) == [], "a commit looks nothing up"
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    assert {b"fleet/+/temp", b"fleet/+/speed"} <= set(stored(paged))


def test_the_next_segment_goes_on_with_what_is_known(paged: Store) -> None:
    paged.publish(*fleet(0, 100))
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    first = stored(paged)
    paged.reopen()
    paged.publish(*fleet(1_000, 50))
    paged.publish(*plants())
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    both = stored(paged)
    assert both[: len(first)] == first
    assert b"plant/+/load" in both
    assert not any(pattern.startswith(b"fleet/100") for pattern in both), "the level was known to vary"
    paged.log.close()
    assert verify_folder(paged.folder).problems == []
    paged._open()


def test_messages_are_counted_in_segments_and_behind_them(paged: Store) -> None:
    """L7: what `zones patterns` shows."""
    paged.publish(*fleet(0, 200))
    assert shown(paged) == {"fleet/+/temp": 190, "fleet/+/speed": 190}
    SegmentWriter(paged.log, SegmentSize(messages=400)).write_all()
    assert shown(paged) == {"fleet/+/temp": 190, "fleet/+/speed": 190}
    paged.publish(*fleet(500, 7))
    assert shown(paged) == {"fleet/+/temp": 197, "fleet/+/speed": 197}
    paged.reopen()
    assert shown(paged) == {"fleet/+/temp": 197, "fleet/+/speed": 197}


def test_a_reader_in_another_process_sees_the_same_patterns(paged: Store) -> None:
    paged.publish(*fleet(0, 200))
    SegmentWriter(paged.log, SegmentSize(messages=400)).write_all()
    paged.publish(*plants())
    paged.log.close()
    with HistoryReader.open(paged.folder) as reader:
        assert learned_patterns(reader) == ["fleet/+/speed", "fleet/+/temp", "plant/+/load"]
        counts = {one.text: one.messages for one in reader.patterns()}
        assert (counts["fleet/+/temp"], counts["plant/+/load"]) == (190, 90)
    paged._open()


@pytest.mark.parametrize("restart", [False, True])
def test_the_next_generation_begins_with_the_patterns_of_the_last_one(paged: Store, restart: bool) -> None:
    paged.publish(*fleet(0, 100))
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    if restart:
        paged.reopen()
    paged.rotate()
    assert stored(paged, NEXT_SHARD) == [b"fleet/+/speed", b"fleet/+/temp"]
    paged.publish(*fleet(0, 3))
    paged.rotate()
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    assert stored(paged, NEXT_SHARD) == [b"fleet/+/speed", b"fleet/+/temp"], "a sealed one learns nothing twice"


def test_no_generation_ends_early_because_of_patterns(paged: Store) -> None:
    """Messages are not placed by patterns, so a new generation would gain nothing."""
    paged.publish(*fleet(0, 500))
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    for _look in range(3):
        paged.clock.advance(3_600_000_000)
        paged.maintenance.tick()
    assert len(paged.zone_log().live) == 1


def test_a_zone_with_another_threshold_learns_by_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    zone = Zone("default", layout="paged", thresholds=(100, 100))
    store = Store(tmp_path_factory.mktemp("data"), default=zone)
    store.publish(*fleet(0, 90))
    SegmentWriter(store.log, SegmentSize(messages=100)).write_all()
    assert len(stored(store)) == 180, "ninety names are no reason yet"
    store.close()


def test_many_topics_are_sampled_and_their_messages_estimated() -> None:
    topics = {f"fleet/{number}/{name}".encode(): 3 for number in range(20_000) for name in ("temp", "speed", "fuel")}
    known = LearnedTopics()
    found = learn_patterns(known, topics)
    assert len(found.records) <= 33
    wide = {one.text: one.messages for one in known.patterns() if "+" in one.text}
    assert sorted(wide) == ["fleet/+/fuel", "fleet/+/speed", "fleet/+/temp"]
    for messages in wide.values():
        assert abs(messages - 60_000) < 6_000
    assert abs(sum(count for _stream, count in found.counts) - 180_000) < len(found.counts)


def test_a_generation_begins_with_patterns_that_it_is_given(paged: Store) -> None:
    """L9, L11: they are known before the first segment is."""
    write_patterns(paged.folder, {"default": ["fleet/+/temp", "fleet/+/speed"]})
    paged.maintenance.tick()
    assert stored(paged, NEXT_SHARD) == [b"fleet/+/temp", b"fleet/+/speed"]
    paged.publish(*fleet(0, 100))
    SegmentWriter(paged.log, SegmentSize(messages=200)).write_all()
    assert stored(paged, NEXT_SHARD) == [b"fleet/+/temp", b"fleet/+/speed"]
    assert shown(paged) == {"fleet/+/temp": 100, "fleet/+/speed": 100}
