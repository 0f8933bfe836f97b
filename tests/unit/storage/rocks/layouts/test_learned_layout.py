"""The learned layout: one put per message, postings behind it, and readers with and without the writer's memory."""

from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.records.messages import stored_position
from holdfast.storage.rocks.layouts.build import Parameters, make_layout
from holdfast.storage.rocks.layouts.layout import MARKS, MESSAGES, POSTINGS, STRUCTURE
from holdfast.storage.rocks.layouts.postings import NOTHING_INDEXED, read_counts, read_mark
from tests.unit.storage.rocks.layouts.counting import CountingFamily
from tests.unit.storage.rocks.layouts.store import END_US, Log, Store

PARAMETERS: Parameters = {"thresholds": [20, 0], "cycle_messages": 10}


def learned_log(store: Store) -> Log:
    return Log(store, make_layout("learned", PARAMETERS))


def fleet(count: int) -> list[bytes]:
    """The topics of 100 devices, one message each in turn."""
    return [b"plant/%d/temp" % (i % 100) for i in range(count)]


def test_a_message_of_a_known_pattern_is_one_put() -> None:
    layout = make_layout("learned", PARAMETERS)
    layout.put(b"plant/1/temp", 1, b"", Changes().into("log"))
    changes = Changes()
    layout.put(b"plant/2/temp", 2, b"value", changes.into("log"))
    ((key, value),) = changes.into("log").operations
    assert key[:1] == MESSAGES
    assert value == b"value"


def test_a_new_pattern_is_in_the_commit_of_the_message_that_made_it() -> None:
    """L10"""
    changes = Changes()
    make_layout("learned", PARAMETERS).put(b"plant/1/temp", 1, b"", changes.into("log"))
    assert [key[:1] for key, _value in changes.into("log").operations] == [STRUCTURE, MESSAGES]
    assert changes.into("log").operations[0] == (b"\x00\x00\x00\x00\x00", b"plant/+/+")


def test_what_was_inherited_is_stored_with_the_first_message(store: Store) -> None:
    """L11"""
    first = learned_log(store)
    first.put(*fleet(5))
    learned = first.layout.learned()
    assert learned is not None
    second = Log(store, make_layout("learned", {"thresholds": [20]}, learned.inherit()))
    second.put(b"other")
    reader = make_layout("learned", {"thresholds": [20]})
    reader.load(second.cells)
    found = reader.learned()
    assert found is not None
    assert [pattern.text for pattern in found.patterns()] == ["other", "plant/+/+"]


def test_an_inheritance_that_was_not_stored_before_a_crash_is_kept(store: Store) -> None:
    """L11: the new generation is empty, and its writer is given the inheritance again."""
    first = learned_log(store)
    first.put(*fleet(5))
    learned = first.layout.learned()
    assert learned is not None
    second = Log(store, make_layout("learned", {}, learned.inherit()))
    second.layout.load(second.cells)
    second.put(b"plant/1/temp")
    assert second.read("plant/1/temp") == [1]
    after = second.layout.learned()
    assert after is not None
    assert [pattern.text for pattern in after.patterns()] == ["plant/+/+"]


def test_writing_behind_waits_for_a_full_cycle_and_keeps_to_its_limit(store: Store) -> None:
    log = learned_log(store)
    log.put(*fleet(9))
    assert log.write_behind() == 0
    log.put(b"plant/9/temp")
    # Ten devices and one metric: eleven postings, and the mark.
    assert [log.write_behind(5) for _turn in range(4)] == [5, 5, 2, 0]
    assert read_mark(log.cells) == 10


def test_the_mark_comes_after_the_blocks_it_speaks_of(store: Store) -> None:
    """L10: a crash between them leaves blocks without a mark, never a mark without blocks."""
    log = learned_log(store)
    log.put(*fleet(10))
    changes = Changes()
    while log.layout.write_behind(changes.into(log.family), 3):
        pass
    tags = [key[:1] for key, _value in changes.into(log.family).operations]
    assert tags == [POSTINGS] * 11 + [MARKS]


def test_a_tail_is_kept_until_its_blocks_are_seen_in_the_database(store: Store) -> None:
    """L4: blocks handed to a commit are not readable before it is written."""
    log = learned_log(store)
    log.put(*fleet(10))
    pending = Changes()
    while log.layout.write_behind(pending.into(log.family), 500):
        pass
    log.layout.settle(log.cells)
    assert log.read("plant/3/temp") == [4]
    log.put(*fleet(10))
    assert log.write_behind() == 0, "the next cycle waits for the one before"
    store.write(pending)
    log.layout.settle(log.cells)
    assert log.read("plant/3/temp") == [4, 14]
    assert log.write_behind() == 12


def test_a_reader_under_way_is_not_disturbed_by_a_cycle(store: Store) -> None:
    """L4: what it took from the tail is its own."""
    log = learned_log(store)
    log.put(*fleet(200))
    reading = log.layout.read(log.cells, (b"plant", b"7", b"temp"), 0, END_US)
    assert stored_position(next(reading)) == 8
    log.write_whole_index()
    assert [stored_position(value) for value in reading] == [108]


def test_after_a_crash_only_what_is_behind_the_mark_is_read(store: Store) -> None:
    """L10"""
    log = learned_log(store)
    log.put(*fleet(500))
    log.write_whole_index()
    log.put(*fleet(20))
    log.layout = make_layout("learned", PARAMETERS)
    cells = CountingFamily(log.cells)
    log.layout.load(cells)
    assert cells.moves < 30
    assert log.read("plant/7/temp") == [8, 108, 208, 308, 408, 508]


def test_a_cycle_cut_short_by_a_crash_is_repeated(store: Store) -> None:
    """L10: its blocks are written again under the same keys, so nothing is doubled."""
    log = learned_log(store)
    log.put(*fleet(210))
    assert log.write_behind(50) == 50
    assert read_mark(log.cells) == NOTHING_INDEXED
    log.layout = make_layout("learned", PARAMETERS)
    log.layout.load(log.cells)
    log.put(*fleet(90))
    log.write_whole_index()
    for device in (0, 7, 99):
        assert log.read(f"plant/{device}/temp") == [
            position for position in range(1, 301) if ((position - 1) % 210) % 100 == device
        ]


def test_large_postings_are_cut_into_the_same_blocks_after_a_crash(store: Store) -> None:
    """L10: also when the second cycle is longer than the first, and the posting is of many topics."""
    log = learned_log(store)
    log.put(*fleet(9_000))
    assert log.write_behind(60) > 0
    log.layout = make_layout("learned", PARAMETERS)
    log.layout.load(log.cells)
    log.put(*fleet(9_000))
    log.write_whole_index()
    assert log.read("+/+/temp") == list(range(1, 18_001))
    assert log.read("plant/+/temp", 8_000, 10_000) == list(range(8_000, 10_000))
    assert log.read("plant/5/temp") == list(range(6, 18_001, 100))


def test_counts_survive_a_crash(store: Store) -> None:
    """L10: counted up to the mark, and the rest is counted again."""
    log = learned_log(store)
    log.put(*fleet(25))
    log.write_whole_index()
    log.put(*fleet(7))
    log.layout = make_layout("learned", PARAMETERS)
    log.layout.load(log.cells)
    for _twice in range(2):
        learned = log.layout.learned()
        assert learned is not None
        assert [(pattern.text, pattern.messages) for pattern in learned.patterns()] == [("plant/+/+", 32)]
    assert [count for _stream, count in read_counts(log.cells)] == [25]


def test_a_device_is_found_without_reading_the_others(store: Store) -> None:
    """L4, L8: from blocks, from memory, and where a common token stands beside a rare one."""
    log = Log(store, make_layout("learned", {"thresholds": [20, 0]}))
    log.put(*fleet(3_000))
    for _round in range(2):
        cells = CountingFamily(log.cells)
        found = log.layout.read(cells, (b"plant", b"7", b"temp"), 0, END_US)
        assert [stored_position(value) for value in found] == list(range(8, 3_000, 100))
        assert cells.gets + cells.moves < 60
        log.write_whole_index()


def test_topics_that_share_a_token_come_in_time_order(store: Store) -> None:
    """L4: from the tail, where each topic has positions of its own, and from the blocks that are made of them."""
    log = Log(store, make_layout("learned", {"thresholds": [0]}))
    log.put(b"a/x", b"b/x", b"a/x", b"c/y", b"b/x", b"a/x")
    for _round in range(2):
        assert log.read("+/x") == [1, 2, 3, 5, 6]
        log.write_whole_index()


def test_a_reader_in_another_process_is_right_at_every_moment(store: Store, tmp_path: Path) -> None:
    """L4, L19: it has no tail, and streams, blocks and mark move under it."""
    log = learned_log(store)
    log.put(b"first/x/y")
    database, cells = store.secondary(tmp_path, log.family)
    reader = make_layout("learned", PARAMETERS)
    topics = [b"first/x/y"]
    for new in (fleet(30), [b"new/1/2", *fleet(15)], [b"$s/a/b"]):
        log.put(*new)
        topics += new
        log.write_behind(20)
        log.layout.settle(log.cells)
        database.try_catch_up_with_primary()
        for levels in ((b"#",), (b"plant", b"3", b"temp"), (b"new", b"+", b"2"), (b"$s", b"#")):
            found = [stored_position(value) for value in reader.read(cells, levels, 0, END_US) if value]
            assert found == log.read("/".join(level.decode() for level in levels))
            assert found or topics[-1] == b"plant/14/temp" or len(topics) < 40
    cells.close()
    database.close()


@pytest.mark.parametrize("bits", [0, 1, 64])
def test_tokens_of_one_fingerprint_do_not_mix(store: Store, bits: int) -> None:
    """L5"""
    log = Log(store, make_layout("learned", {"thresholds": [0], "hash_bits": bits}))
    log.put(*[b"%d/x" % (i % 7) for i in range(50)])
    for _round in range(2):
        assert log.read("3/x") == list(range(4, 51, 7))
        assert log.read("3/x", 5, 25) == [11, 18]
        log.write_whole_index()
