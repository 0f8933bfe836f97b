"""Segments against `timeline`: every filter finds the same before, while and after commit pages become segments."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from holdfast.durable.changes import Changes, RangeEnd
from holdfast.durable.log import NO_END
from holdfast.durable.segments import build_segment
from holdfast.durable.zones import Zone
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import MisuseError, PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import stored_position
from holdfast.records.pages.segment_index import decode_directory
from holdfast.storage.rocks.backup import create_backup, restore_backup
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MARKS, MESSAGES, POSTINGS, SEGMENTS
from holdfast.storage.rocks.layouts.paged import PagedLayout, SegmentSize
from holdfast.storage.rocks.layouts.postings import read_mark
from holdfast.storage.rocks.layouts.segments import page_key
from holdfast.storage.rocks.log.segment_writer import SegmentWriter, Stretch
from tests.unit.storage.rocks.layouts.test_paged import FILTERS, contents, fill, messages
from tests.unit.storage.rocks.log.store import Store, places

SHARD = "log-00000-00000001"
FAMILY = "segments-00000-00000001"
SMALL = SegmentSize(messages=400, commits=60)


def assert_same(paged: Store, timeline: Store) -> None:
    for text in FILTERS:
        wanted = contents(timeline.read(text))
        assert contents(paged.read(text)) == wanted, text
        if wanted:
            since_us, until_us = wanted[len(wanted) // 3][1], wanted[2 * len(wanted) // 3][1]
            some = contents(timeline.read(text, since_us, until_us))
            assert contents(paged.read(text, since_us, until_us)) == some, text


def assert_sound(store: Store, count: int) -> None:
    """`verify` reads every page, proves that serials are dense, positions unique and the index complete."""
    store.log.close()
    report = verify_folder(store.folder)
    assert report.problems == []
    assert report.messages == count
    store._open()


def directories(store: Store, shard: str = SHARD) -> list[tuple[int, int, int]]:
    """Number, messages and pages of each segment."""
    found = [
        decode_directory(int.from_bytes(key[1:], "big"), value)
        for key, value in scan_items(store.engine.family(shard), MARKS + b"\x00", SEGMENTS)
    ]
    return [(one.number, one.messages, one.pages) for one in found]


def commit_pages(store: Store, family: str = SHARD) -> int:
    return sum(1 for _item in scan_items(store.engine.family(family), MESSAGES, POSTINGS))


@pytest.mark.parametrize(
    "sizes", [[1] * 300, [50] * 30, [500, 1, 500, 2, 700]], ids=lambda sizes: f"commits of {max(sizes)}"
)
def test_every_filter_finds_what_a_timeline_has(paged: Store, timeline: Store, sizes: list[int]) -> None:
    """L4, L5: with segments and commit pages behind them, from memory and after a restart."""
    for store in (paged, timeline):
        fill(store, sizes)
    made = SegmentWriter(paged.log, SMALL).write_all()
    assert made >= 2
    assert len(directories(paged)) == made
    for _open in range(2):
        assert_same(paged, timeline)
        paged.reopen()
        timeline.reopen()
    assert_sound(paged, sum(sizes))


def test_a_sealed_generation_becomes_segments_to_its_end(paged: Store, timeline: Store) -> None:
    for store in (paged, timeline):
        fill(store, [30] * 5)
        store.rotate()
        fill(store, [3])
    assert SegmentWriter(paged.log, SMALL).write_all() == 1
    assert commit_pages(paged) == 0
    assert commit_pages(paged, "log-00000-00000002") == 1
    assert read_mark(paged.engine.family(SHARD)) == paged.written[149].position_us
    paged.reopen()
    timeline.reopen()
    assert_same(paged, timeline)
    assert SegmentWriter(paged.log, SMALL).write_all() == 0, "nothing is left to do"
    assert_sound(paged, 153)


def test_two_shards_share_the_family_of_segments(tmp_path: Path) -> None:
    store = Store(tmp_path, default=Zone("default", layout="paged", shards=2, store_qos0=True))
    fill(store, [60] * 20)
    assert SegmentWriter(store.log, SMALL).write_all() >= 2
    numbers = [number for shard in (SHARD, "log-00001-00000001") for number, *_rest in directories(store, shard)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), "no two segments have one number"
    store.reopen()
    for text in ("#", "plant/7/#", "plant/+/temp"):
        assert sorted(places(store.read(text))) == sorted(places(store.expected(text)))
    assert_sound(store, 1_200)
    store.close()


class Steps:
    """One segment, stored batch by batch."""

    def __init__(self, store: Store, size: SegmentSize = SMALL) -> None:
        self.writer = SegmentWriter(store.log, size)
        stretch = self.writer.next_stretch()
        assert stretch is not None
        self.stretch: Stretch = stretch
        self.segment = build_segment([value for values in self.writer.read(stretch) for value in values])

    def batches(self) -> Iterator[Callable[[], None]]:
        for number, page in enumerate(self.segment.pages):
            yield lambda number=number, page=page: self.writer.store_pages(self.stretch, number, [page])  # type: ignore[misc]
        yield self.finish

    def finish(self) -> None:
        self.writer.finish(self.stretch, self.segment.directory, self.segment.map, self.segment.index)


def wide(store: Store, count: int = 420) -> None:
    """Messages whose segment has several pages."""
    store.clock.advance(1_000_000)
    random = Random(3)
    topics = [b"plant/%d/temp" % random.randrange(20) for _number in range(count)]
    store.write(*[Message(topic, random.randbytes(900), 1, ClientId("p"), store.clock.wall_us()) for topic in topics])
    store.settle()


def test_a_reader_sees_the_same_between_any_two_batches_of_a_segment(paged: Store, timeline: Store) -> None:
    """L4, L5; a reader that began before goes on where it was."""
    for store in (paged, timeline):
        wide(store)
        fill(store, [5])
    paged.reopen()
    timeline.reopen()
    early = paged.replay()
    found = early.next(100).messages
    steps = Steps(paged)
    assert len(steps.segment.pages) > 5
    for batch in steps.batches():
        assert_same(paged, timeline)
        found += early.next(30).messages
        batch()
    assert_same(paged, timeline)
    while not (page := early.next(30)).at_end:
        found += page.messages
    assert places(found + page.messages) == places(timeline.read())


@pytest.mark.parametrize("done", range(7))
def test_a_segment_that_was_cut_short_is_nobodys(paged: Store, timeline: Store, done: int) -> None:
    """L20, L21: after a crash between its batches all messages are there once, and a new segment is made."""
    for store in (paged, timeline):
        wide(store)
    steps = Steps(paged)
    for _number, batch in zip(range(done), steps.batches(), strict=False):
        batch()
    paged.reopen()
    timeline.reopen()
    assert_same(paged, timeline)
    assert commit_pages(paged) == 1
    assert SegmentWriter(paged.log, SMALL).write_all() == 1
    assert commit_pages(paged) == 0
    assert [number for number, _messages, _pages in directories(paged)] == [2 if done else 1]
    assert_same(paged, timeline)
    assert_sound(paged, 420)


def test_ranges_of_deletions_are_disjoint_and_no_page_is_written_twice(
    paged: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested ranges of one start cost RocksDB seconds and hundreds of megabytes; a key that comes back is merged."""
    ranges: dict[str, list[tuple[bytes, bytes]]] = {}
    pages: list[bytes] = []
    write_own = paged.log.write_own

    def noted(changes: Changes) -> None:
        for name, family in changes.families():
            for key, value in family.operations:
                if isinstance(value, RangeEnd):
                    ranges.setdefault(name, []).append((key, value.key))
                elif key[:1] == SEGMENTS:
                    pages.append(key)
        write_own(changes)

    monkeypatch.setattr(paged.log, "write_own", noted)
    for _round in range(3):
        fill(paged, [30, 7] * 6)
        SegmentWriter(paged.log, SegmentSize(commits=1)).write_all()
    paged.rotate()
    SegmentWriter(paged.log, SMALL).write_all()
    assert len(ranges[SHARD]) == 36
    assert len(ranges[FAMILY]) >= 2 * 8, "of segments that became one"
    for found in ranges.values():
        assert all(end <= begin for (_begin, end), (begin, _end) in pairwise(sorted(found)))
    assert ranges[SHARD] == sorted(ranges[SHARD]), "each begins behind the last one"
    assert len(set(pages)) == len(pages)
    assert [key for key in pages if not key.endswith(b"\xff\xff")] == sorted(
        key for key in pages if not key.endswith(b"\xff\xff")
    ), "they only grow"


def test_a_message_is_found_by_its_position(paged: Store) -> None:
    """What is in flight is stored by its position: directory, map and page lead to it."""
    fill(paged, [50, 1, 400, 3])
    SegmentWriter(paged.log, SegmentSize(messages=100)).write_all()
    paged.reopen()
    for message in paged.written:
        assert paged.reader.at(message.shard, (), message.position_us) == message
    assert paged.reader.at(0, (b"no", b"such"), paged.written[3].position_us) is None
    between_us = paged.written[49].position_us + 7
    assert paged.reader.at(0, (), between_us) is None


def test_large_messages_are_pages_alone_and_held_by_no_reader(paged: Store) -> None:
    random = Random(5)
    sizes = [10, 40_000, 20, 300_000, 33_000, 5]
    paged.write(
        *[Message(b"plant/%d" % (i % 2), random.randbytes(size), 1, ClientId("p"), 1) for i, size in enumerate(sizes)]
    )
    paged.settle()
    SegmentWriter(paged.log, SegmentSize(messages=1)).write_all()
    ((_number, count, pages),) = directories(paged)
    assert (count, pages) == (6, 5)
    paged.reopen()
    for text in ("#", "plant/0", "plant/1"):
        assert contents(paged.read(text)) == contents(paged.expected(text))
        assert contents(paged.read(text, paged.written[2].position_us)) == contents(
            paged.expected(text, paged.written[2].position_us)
        )
    assert paged.log.segments._rows.size_bytes < 10_000
    assert_sound(paged, 6)


def test_a_narrow_filter_reads_few_pages(paged: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the rarest token decides."""
    random = Random(2)
    topics = [b"plant/%d/d%d/temp" % (n % 3, n % 200) for n in range(3_000)]
    paged.write(*[Message(topic, random.randbytes(500), 1, ClientId("p"), 1) for topic in topics])
    paged.settle()
    SegmentWriter(paged.log, SegmentSize(messages=1)).write_all()
    ((_number, _messages, pages),) = directories(paged)
    assert pages > 20
    paged.reopen()
    read: list[bytes] = []
    made = page_key

    def counted(number: int, page: int) -> bytes:
        read.append(made(number, page))
        return read[-1]

    monkeypatch.setattr("holdfast.storage.rocks.layouts.segments.page_key", counted)
    assert len(paged.read("plant/+/d17/temp")) == 15
    assert len(read) <= 4
    read.clear()
    assert paged.read("plant/1/d17/temp/more") == []
    assert paged.read("plant/1/none/temp") == []
    assert read == []


def test_the_history_reads_segments_while_they_are_made(paged: Store) -> None:
    """A secondary sees commit pages, or the segment: after any catch-up each message once."""
    for _commit in range(14):
        wide(paged, 30)
    fill(paged, [40])
    steps = Steps(paged)
    reader = HistoryReader(paged.folder)
    try:
        for in_order in (True, False):
            assert history_places(reader, in_order=in_order) == places(paged.written)
        (part,) = reader.parts(0, NO_END)
        begun = reader.start_replay([part])
        first = list(map(stored_position, begun.next(10).messages))
        for batch in steps.batches():
            batch()
            reader.refresh()
            assert history_places(reader, in_order=False) == places(paged.written)
        assert history_places(reader, in_order=True) == places(paged.written)
        rest = list(map(stored_position, begun.records()))
        assert first + rest == [message.position_us for message in paged.written], "it keeps the state it began with"
    finally:
        reader.close()


def history_places(reader: HistoryReader, *, in_order: bool) -> list[tuple[int, int]]:
    replay = reader.start_replay(reader.parts(0, NO_END), in_order=in_order)
    found = [(0, stored_position(value)) for value in replay.records()]
    return found if in_order else sorted(found)


def test_a_stretch_whose_generation_is_dropped_meanwhile_is_thrown_away(paged: Store) -> None:
    wide(paged)
    steps = Steps(paged)
    next(steps.batches())()
    paged.rotate()
    fill(paged, [2])
    paged.drop_oldest()
    assert not steps.writer.can_store(steps.stretch)
    assert FAMILY not in paged.engine.families()
    assert SHARD not in paged.engine.families()
    paged.reopen()
    assert places(paged.read()) == places(paged.written[420:])


@pytest.mark.parametrize("what", ["page", "map", "index", "directory"])
def test_verify_names_what_is_wrong_with_a_segment(paged: Store, what: str) -> None:
    wide(paged, 900)
    SegmentWriter(paged.log, SegmentSize(messages=10)).write_all()
    family = {"page": FAMILY, "map": FAMILY, "index": SHARD, "directory": SHARD}[what]
    tag = {"page": SEGMENTS, "map": SEGMENTS, "index": POSTINGS, "directory": MARKS + b"\x00"}[what]
    keys = [key for key, _value in scan_items(paged.engine.family(family), tag, b"\x05")]
    key = keys[-1] if what == "map" else keys[0]
    changes = Changes()
    changes.into(family).delete(key)
    paged.log.write_own(changes)
    paged.log.close()
    problems = " ".join(str(problem) for problem in verify_folder(paged.folder).problems)
    paged._open()
    said = {"page": "page 0", "map": "the map", "index": "the index does not say so", "directory": "no such segment"}
    assert said[what] in problems


def test_rows_that_are_remembered_are_bounded(paged: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    for _segment in range(6):
        paged.write(*messages(400, random, paged.clock.wall_us()))
    paged.settle()
    SegmentWriter(paged.log, SMALL).write_all()
    paged.reopen()  # what is in memory is not looked up in segments
    rows = paged.log.segments._rows
    monkeypatch.setattr(rows, "_max_bytes", 100_000)
    for text in FILTERS:
        for _reader in range(2):
            assert contents(paged.read(text)) == contents(paged.expected(text))
    assert 0 < rows.size_bytes <= 100_000
    assert rows.size_bytes == sum(kept.size_bytes for kept in rows._rows.values())


def test_two_readers_that_open_a_segment_at_once_are_counted_once(paged: Store) -> None:
    fill(paged, [500])
    SegmentWriter(paged.log, SMALL).write_all()
    paged.reopen()
    rows = paged.log.segments._rows
    family = paged.engine.family(SHARD)
    layout = paged.zone_log().live[0].by_shard[0].layout
    reads = [layout.read_messages(family, (), 0, NO_END, 0) for _reader in range(2)]
    pages = [list(batch) for both in zip(*reads, strict=True) for batch in both]
    assert sum(map(len, pages)) == 2 * 500
    assert rows.size_bytes == sum(kept.size_bytes for kept in rows._rows.values()) > 0


def test_a_backlog_from_before_a_restart_becomes_segments(paged: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a log is opened, not all that waits is counted."""
    monkeypatch.setattr("holdfast.storage.rocks.layouts.paged.SEGMENT_SIZE", SegmentSize(messages=50))
    fill(paged, [10] * 40)
    paged.reopen()
    assert SegmentWriter(paged.log, SegmentSize(messages=50)).write_all() == 8
    assert commit_pages(paged) == 0
    sink = paged.zone_log().live[0].by_shard[0].layout.sink
    assert (sink.pages, sink.messages, sink.weight_bytes, sink.has_uncounted) == (0, 0, 0, False)
    fill(paged, [10] * 6)
    assert SegmentWriter(paged.log, SegmentSize(messages=50)).write_all() == 1
    assert (sink.pages, sink.messages) == (1, 10)


def test_what_is_counted_and_not_written_yet_ends_no_segments(paged: Store) -> None:
    """Batches may have to wait for RocksDB: there is nothing to read then, and more later."""
    writer = SegmentWriter(paged.log, SegmentSize(messages=50))
    sink = paged.zone_log().live[0].by_shard[0].layout.sink
    sink.count(6, 60, 600)
    stretch = writer.next_stretch()
    assert stretch is not None
    assert list(writer.read(stretch)) == []
    assert writer.next_stretch() is None
    fill(paged, [10] * 6)
    assert writer.write_all() == 1


def test_an_answer_that_is_not_the_segment_of_its_stretch_deletes_nothing(paged: Store) -> None:
    wide(paged)
    steps = Steps(paged)
    for batch in list(steps.batches())[:-2]:
        batch()
    with pytest.raises(PermanentError, match="was built as"):
        steps.finish()
    assert commit_pages(paged) == 1


def test_a_layout_that_does_not_know_its_segments_refuses_to_read_short(paged: Store) -> None:
    fill(paged, [50])
    SegmentWriter(paged.log, SegmentSize(messages=1)).write_all()
    with pytest.raises(MisuseError, match="where segments are"):
        list(PagedLayout().read_messages(paged.engine.family(SHARD), (), 0, NO_END, 0))


@pytest.mark.parametrize("length", [5, 13])
def test_a_damaged_mark_does_not_keep_the_broker_from_starting(paged: Store, length: int) -> None:
    fill(paged, [50])
    changes = Changes()
    changes.into(SHARD).put(MARKS, bytes(length))
    paged.log.write_own(changes)
    paged.reopen()
    with pytest.raises(PermanentError, match=f"a mark has {length} bytes"):
        paged.read()


def small_segments(*stores: Store) -> None:
    """Eight, of two commits each."""
    for store in stores:
        fill(store, [30, 7] * 8)


def test_eight_small_segments_become_one(paged: Store, timeline: Store) -> None:
    """Small commits make small segments: a filter would have to look at each of them."""
    small_segments(paged, timeline)
    writer = SegmentWriter(paged.log, SegmentSize(commits=1))
    assert writer.write_all() == 17, "sixteen of a commit each, and one of the last eight"
    found = directories(paged)
    assert [count for _number, count, _pages in found] == [30, 7] * 4 + [148]


@pytest.mark.parametrize("done", range(4))
def test_small_segments_become_one_between_two_reads_or_crashes(paged: Store, timeline: Store, done: int) -> None:
    """L4, L5, L20: before, between and behind its batches; and after a crash at any of these points."""
    small_segments(paged, timeline)
    paged.reopen()
    timeline.reopen()
    writer = SegmentWriter(paged.log, SegmentSize(commits=2))
    for _segment in range(8):
        stretch = writer.next_stretch()
        assert stretch is not None
        assert not stretch.small
        writer.store(stretch, build_segment([value for values in writer.read(stretch) for value in values]))
    merged = writer.next_stretch()
    assert merged is not None
    assert len(merged.small) == 8
    segment = build_segment([value for values in writer.read(merged) for value in values])
    paged.reader.revoke()
    early = paged.replay("plant/#")
    found = early.next(10).messages
    if done > 0:
        writer.store_pages(merged, 0, segment.pages[:1])
        assert_same(paged, timeline)
    if done > 1:
        writer.store_pages(merged, 1, segment.pages[1:])
        assert_same(paged, timeline)
    if done > 2:
        writer.finish(merged, segment.directory, segment.map, segment.index)
        assert [count for _number, count, _pages in directories(paged)] == [37 * 8]
        numbers = {key[1:9] for key, _value in scan_items(paged.engine.family(FAMILY), SEGMENTS, b"\x05")}
        assert len(numbers) == 1, "the pages of the small ones are gone"
    while not (page := early.next(30)).at_end:
        found += page.messages
    assert places(found + page.messages) == places(timeline.read("plant/#"))
    paged.reopen()
    timeline.reopen()
    assert_same(paged, timeline)
    for message in paged.written[::7]:
        assert paged.reader.at(0, (), message.position_us) == message
    assert_sound(paged, 37 * 8)


def test_a_backup_between_two_batches_of_a_segment_is_whole(paged: Store, tmp_path: Path) -> None:
    wide(paged)
    steps = Steps(paged)
    for number, batch in enumerate(steps.batches()):
        batch()
        if number in (0, 3) or batch == steps.finish:
            create_backup(paged.engine, tmp_path / f"backup-{number}")
            restore_backup(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}")
            restored = Store(tmp_path / f"restored-{number}", default=Zone("default", layout="paged", store_qos0=True))
            assert places(restored.read()) == places(paged.written)
            restored.close()
            assert verify_folder(restored.folder).problems == []
