"""Limits of queues in a journal: what is refused, what goes, and until when."""

from pathlib import Path

from holdfast.durable.queues.queue_store import NO_LIMITS, REFUSE
from tests.journal_world import JournalWorld, limits, pack


def test_a_full_queue_refuses_until_it_was_read_to_its_end_and_is_marked_once(tmp_path: Path) -> None:
    """S7."""
    world = JournalWorld(tmp_path)
    three = limits(3, on_full=REFUSE)
    first = world.append("c", 1, 2, 3, 4, 5, limits=three)
    assert (first.serials, first.refused, first.dropped) == ([1, 2, 3, 0, 0], 2, 0)
    assert world.journal.state("c").full
    path = world.folder("c") / "messages.00000001.log"
    marked_bytes = path.stat().st_size
    assert world.journal.read("c", 0, 2)[1].number == 2
    world.acknowledge("c", 1, 2)
    assert world.append("c", 6, limits=three).refused == 1
    assert path.stat().st_size == marked_bytes
    world.restart()
    assert world.append("c", 7, limits=three).refused == 1
    assert world.numbers("c") == [3]
    assert world.append("c", 8, limits=three).serials == [4]
    world.acknowledge("c", 3)
    assert not world.journal.state("c").full
    world.restart()
    assert world.numbers("c") == [8]


def test_over_the_limit_the_oldest_go_of_those_that_wait(tmp_path: Path) -> None:
    """T5 and S7 of the other kind: `drop_oldest`. What was read is in flight, also after a restart."""
    world = JournalWorld(tmp_path)
    world.append("c", 1, 2, 3)
    assert world.journal.read("c", 0, 1)[0].number == 1
    appended = world.append("c", 4, 5, limits=limits(2))
    assert (appended.serials, appended.dropped) == ([4, 5], 2)
    world.journal.close()
    world.restart()
    appended = world.append("c", *range(10, 20), limits=limits(2))
    assert (appended.serials[:8], appended.dropped) == ([0] * 8, 2 + 8)
    assert world.numbers("c") == [1, 18, 19]
    assert world.append("nothing", 1, limits=limits(0)).serials == [0]
    assert world.journal.append(pack("d", 1, 2, limits=limits(9, 11))).dropped == 1
    world.journal.flush(sync=True)
    assert world.numbers("d") == [2]
    world.journal._queue("c").check_invariants()


def test_no_queue_has_more_than_the_journal_allows_whatever_its_class_says(tmp_path: Path) -> None:
    """S7: `journal.max_queue_messages`, for both kinds of queues."""
    world = JournalWorld(tmp_path, max_queue_messages=3)
    refused = world.append("refusing", *range(1, 6), limits=limits(1000, on_full=REFUSE))
    assert (refused.serials, refused.refused, refused.dropped) == ([1, 2, 3, 0, 0], 2, 0)
    dropped = world.append("dropping", *range(1, 6), limits=limits(1000))
    assert (dropped.refused, dropped.dropped) == (0, 2)
    assert (world.numbers("refusing"), world.numbers("dropping")) == ([1, 2, 3], [3, 4, 5])


def test_a_message_beyond_the_limits_of_a_full_queue_leaves_it_full(tmp_path: Path) -> None:
    """S7: the notice that a queue is full has a place in it."""
    world = JournalWorld(tmp_path, max_queue_messages=2)
    two = limits(2, on_full=REFUSE)
    assert world.append("c", 1, 2, 3, limits=two).refused == 1
    assert world.append("c", 4, limits=NO_LIMITS).serials == [3]
    world.journal.read("c", 0, 2)
    assert world.append("c", 5, limits=two).refused == 1
    world.restart()
    assert world.append("c", 6, limits=two).refused == 1
    assert world.numbers("c") == [1, 2, 4]
    assert world.append("c", 7, limits=two).refused == 0
