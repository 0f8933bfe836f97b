"""Commit pages that cannot be read: their messages are reported as lost, once, and all others are read (L21)."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.log import NO_END
from holdfast.durable.replay import LogReplay
from holdfast.durable.segments import build_segment
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.model.message import Message
from holdfast.pipeline.source.partitions import lost_behind
from holdfast.records.messages import stored_position
from holdfast.records.pages.lost_pages import LostPages, parse_lost
from holdfast.records.pages.page_columns import HEADER_BYTES
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.published_heads import Head
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.unit.storage.rocks.log.store import Store, drain, levels, places
from tests.unit.storage.rocks.log.test_segment_writer import SHARD, commit_pages, directories

SIZES = [50, 40, 30, 20, 10]
#: What makes every commit page due.
DUE = SegmentSize(messages=1)
ALL = SegmentSize(messages=1_000)


def fill(store: Store, sizes: list[int]) -> None:
    random = Random(1)
    for size in sizes:
        store.clock.advance(1_000_000)
        topics = [f"plant/{random.randrange(20)}/temp" for _message in range(size)]
        store.write(*[store.message(topic, payload=random.randbytes(20)) for topic in topics])
    store.settle()


def pages(store: Store, family: str = SHARD) -> list[tuple[bytes, bytes]]:
    return list(scan_items(store.engine.family(family), MESSAGES, POSTINGS))


def damage(store: Store, *numbers: int, how: str = "cut", family: str = SHARD) -> list[bytes]:
    """Damage commit pages; the bytes that lie there now."""
    changes = Changes()
    damaged: list[bytes] = []
    for number in numbers:
        key, value = pages(store, family)[number]
        if how == "cut":
            value = value[:-1]
        elif how == "a topic that is not there":
            value = value[:HEADER_BYTES] + b"\xff\xff" + value[HEADER_BYTES + 2 :]
        elif how == "another count":
            value = value[:2] + (len(value)).to_bytes(4, "little") + value[6:]
        else:
            value = b""
        changes.into(family).put(key, value)
        damaged.append(value)
    store.log.write_own(changes)
    return damaged


def commit(store: Store, number: int) -> list[Message]:
    """What the test wrote with one commit."""
    first = sum(SIZES[:number])
    return store.written[first : first + SIZES[number]]


def left(store: Store, *numbers: int) -> list[Message]:
    return [message for number in range(len(SIZES)) if number not in numbers for message in commit(store, number)]


def lost_of(store: Store) -> list[LostPages]:
    return store.zone_log().live[0].record.lost_pages(0)


@pytest.mark.parametrize("how", ["cut", "a topic that is not there", "another count", "empty"])
@pytest.mark.parametrize("size", [DUE, ALL], ids=["a segment a commit", "one segment"])
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_a_damaged_page_is_reported_and_everything_else_is_read(
    paged: Store, number: int, size: SegmentSize, how: str
) -> None:
    """Before, behind and between other pages, whatever is wrong with it; from memory nothing is read."""
    fill(paged, SIZES)
    (bytes_found,) = damage(paged, number, how=how)
    paged.reopen()
    piece = paged.zone_log().live[0].by_shard[0]
    piece.suspect()  # as a reader does that fails
    SegmentWriter(paged.log, size).write_all()
    gone = commit(paged, number)
    following = [message.position_us for message in paged.written if message.position_us > gone[-1].position_us]
    end_us = following[0] if following else gone[-1].position_us + 1
    first_serial = sum(SIZES[:number]) + 1
    assert lost_of(paged) == [LostPages(0, gone[0].position_us, end_us - 1, first_serial, len(gone))]
    rest = left(paged, number)
    for _open in range(2):
        found, lost = drain(paged.replay())
        assert places(found) == places(rest)
        assert [(one.from_us, one.to_us, one.at_most) for one in lost] == [(gone[0].position_us, end_us, len(gone))]
        paged.reopen()
    (kept,) = (paged.folder / "quarantine").glob("*/*.page")
    assert kept.read_bytes() == bytes_found
    (report,) = json.loads((kept.parent / "report.json").read_text())
    assert f"messages {first_serial} to {first_serial + len(gone) - 1} of shard 0 are lost" in report["detail"]
    fill(paged, [7])
    assert places(drain(paged.replay())[0]) == places([*rest, *paged.written[-7:]])


def test_each_page_is_a_loss_of_its_own_unless_they_follow_each_other(paged: Store) -> None:
    fill(paged, SIZES)
    damage(paged, 0, 2, 3)
    paged.reopen()
    paged.zone_log().live[0].by_shard[0].suspect()
    SegmentWriter(paged.log, ALL).write_all()
    assert [(one.first_serial, one.messages) for one in lost_of(paged)] == [(1, 50), (91, 50)]
    found, lost = drain(paged.replay())
    assert places(found) == places(left(paged, 0, 2, 3))
    assert [one.at_most for one in lost] == [50, 50]
    assert len(list((paged.folder / "quarantine").glob("*/*.page"))) == 3


@pytest.mark.parametrize("number", [0, 2, 4])
def test_verify_reports_a_damaged_page_before_and_after(paged: Store, number: int) -> None:
    fill(paged, SIZES)
    damage(paged, number)
    paged.reopen()
    paged.log.close()
    (problem,) = verify_folder(paged.folder).problems
    assert "a commit page has" in problem.what
    paged._open()
    paged.zone_log().live[0].by_shard[0].suspect()
    SegmentWriter(paged.log, DUE).write_all()
    paged.log.close()
    report = verify_folder(paged.folder)
    paged._open()
    first = sum(SIZES[:number]) + 1
    (problem,) = report.problems
    assert f"messages {first} to {first + SIZES[number] - 1} of shard 0 are lost" in problem.what
    assert "quarantine" in problem.advice
    assert report.messages == sum(SIZES) - SIZES[number]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_history_reports_a_damaged_page_before_and_after(paged: Store, number: int, *, sealed: bool) -> None:
    """Before, a read fails. After, parts lie around it, and hold what their serials say."""
    fill(paged, SIZES)
    damage(paged, number)
    if sealed:
        paged.rotate()
        fill(paged, [3])
    with HistoryReader.open(paged.folder) as reader:
        with pytest.raises(PermanentError, match="a commit page has"):
            list(reader.start_replay(reader.parts(0, NO_END)).records())
        assert reader.lost(0, 0, NO_END) is None
        paged.zone_log().live[0].by_shard[0].suspect()
        SegmentWriter(paged.log, DUE).write_all()
        reader.refresh()
        rest = [*left(paged, number), *paged.written[sum(SIZES) :]]
        for in_order in (True, False):
            replay = reader.start_replay(reader.parts(0, NO_END), in_order=in_order)
            assert sorted(map(stored_position, replay.records())) == [message.position_us for message in rest]
        rows = [batch.num_rows for part in reader.parts() for batch in reader.batches(part, in_order=False)]
        assert sum(rows) == len(rest)
        lost = reader.lost(0, 0, NO_END)
        assert lost is not None
        gone = commit(paged, number)
        assert (lost.from_us, lost.at_most) == (gone[0].position_us, len(gone))
        assert reader.lost(0, lost.to_us, NO_END) is None


def test_a_reader_that_fails_has_the_page_set_aside(paged: Store) -> None:
    """Long before there is enough for a segment. What fails again is no commit page, and makes no more segments."""
    fill(paged, SIZES)
    damage(paged, 2)
    paged.reopen()
    writer = SegmentWriter(paged.log, SegmentSize())
    assert writer.next_stretch() is None
    replay = paged.replay()
    found = [message for _page in range(4) for message in replay.next(25).messages]
    with pytest.raises(PermanentError, match="a commit page has"):
        replay.next(25)
    assert places(found) == places(paged.written[:90]), "what comes before it was read"
    assert writer.next_stretch() is not None
    writer.write_all()
    behind, lost = drain(replay)
    assert places(behind) == places(paged.written[120:]), "the same reader goes on behind it"
    assert [one.at_most for one in lost] == [30]
    assert writer.next_stretch() is None


def test_a_page_that_cannot_even_be_counted_at_a_start_is_set_aside_soon(paged: Store) -> None:
    fill(paged, SIZES)
    damage(paged, 2, how="empty")
    paged.reopen()
    SegmentWriter(paged.log, SegmentSize()).write_all()
    assert [one.first_serial for one in lost_of(paged)] == [91]


@pytest.mark.parametrize("by_time", [False, True])
def test_what_was_found_before_the_damage_is_returned_first(paged: Store, *, by_time: bool) -> None:
    """A replay that fails has returned everything that it is past, also of several filters."""
    fill(paged, SIZES)
    damage(paged, 2)
    paged.reopen()
    filters = [levels("plant/+/temp"), levels("#")]
    replay = LogReplay(paged.reader, lambda _shard: filters, 0, by_time=by_time)
    found: list[Message] = []
    with suppress(PermanentError):
        for _page in range(100):
            found += replay.next(17).messages
    assert places(found) == places(paged.written[:90])
    SegmentWriter(paged.log, ALL).write_all()
    behind, lost = drain(replay)
    assert places(behind) == places(paged.written[120:])
    assert [one.at_most for one in lost] == [30]


def test_a_deletion_never_covers_a_page_that_was_not_read(paged: Store) -> None:
    """L21: the segment before it ends before it, and it lies there until its copy is on disk."""
    fill(paged, SIZES)
    damage(paged, 2)
    writer = SegmentWriter(paged.log, ALL)
    paged.zone_log().live[0].by_shard[0].suspect()
    stretch = writer.next_stretch()
    assert stretch is not None
    with pytest.raises(PermanentError):
        build_segment([value for values in writer.read(stretch) for value in values])
    writer.note_damage(stretch, "damage")
    stretch = writer.next_stretch()
    assert stretch is not None
    values = [value for values in writer.read(stretch) for value in values]
    assert len(values) == 2
    assert stretch.last_us == paged.written[89].position_us
    assert commit_pages(paged) == 5
    assert not (paged.folder / "quarantine").exists()


def test_what_is_lost_goes_with_its_generation(paged: Store) -> None:
    fill(paged, SIZES)
    damage(paged, 1)
    paged.rotate()
    SegmentWriter(paged.log, DUE).write_all()
    fill(paged, [5])
    paged.drop_oldest()
    paged.reopen()
    found, lost = drain(paged.replay("#", paged.written[60].position_us))
    assert places(found) == places(paged.written[-5:])
    assert [one.at_most for one in lost] == [150], "by retention, and only once"
    paged.log.close()
    assert verify_folder(paged.folder).problems == []
    paged._open()


def test_a_generation_with_losses_is_continued_after_a_restart(paged: Store) -> None:
    fill(paged, SIZES)
    damage(paged, 1)
    paged.zone_log().live[0].by_shard[0].suspect()
    SegmentWriter(paged.log, DUE).write_all()
    paged.reopen()
    assert len(paged.zone_log().live) == 1
    assert directories(paged) != []


def test_a_source_of_spark_is_told_of_pages_lost_behind_its_offset(paged: Store) -> None:
    """Offsets know serials: what is missing right behind one is not all that may be missing."""
    fill(paged, SIZES)
    damage(paged, 2)
    paged.zone_log().live[0].by_shard[0].suspect()
    SegmentWriter(paged.log, DUE).write_all()
    with HistoryReader.open(paged.folder) as reader:
        head = reader.heads()[0]
        for read in (10, 90, 120):
            last = paged.written[read - 1]
            lost = lost_behind(reader, 0, Head(last.position_us, read), head)
            assert (0 if lost is None else lost.at_most) == (30 if read < 120 else 0)


def test_random_pages_are_lost_and_all_others_are_found(tmp_path: Path, paged: Store) -> None:
    random = Random(5)
    sizes = [random.randrange(1, 40) for _commit in range(60)]
    fill(paged, sizes)
    gone = sorted(random.sample(range(60), 20))
    damage(paged, *gone)
    paged.reopen()
    paged.zone_log().live[0].by_shard[0].suspect()
    SegmentWriter(paged.log, SegmentSize(messages=100)).write_all()
    paged.rotate()
    SegmentWriter(paged.log, SegmentSize(messages=100)).write_all()
    starts = [sum(sizes[:number]) for number in range(60)]
    rest = [
        message
        for number, start in enumerate(starts)
        if number not in gone
        for message in paged.written[start : start + sizes[number]]
    ]
    paged.reopen()
    found, lost = drain(paged.replay(), 17)
    assert places(found) == places(rest)
    assert sum(one.at_most for one in lost) == sum(sizes[number] for number in gone)
    with HistoryReader.open(paged.folder) as reader:
        positions = list(map(stored_position, reader.start_replay(reader.parts(0, NO_END)).records()))
    assert positions == [message.position_us for message in rest]


def test_a_record_that_does_not_name_ranges_is_damaged() -> None:
    assert parse_lost("3:10:19:5:2") == [LostPages(3, 10, 19, 5, 2)]
    for text in ("", "1:2:3:4", "1:2:3:4:x", "1:2:3:4:5;"):
        with pytest.raises(PermanentError, match="which is no range"):
            parse_lost(text)
