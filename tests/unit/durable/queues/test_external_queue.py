"""A queue outside the log, as the path of messages sees it: what is handed out, whatever order answers come in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.durable.queues.external_queue import ExternalQueue, QueueBackend, queue_name, session_of
from holdfast.durable.queues.queue_store import QueueEntry, QueueLimits
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed

pytestmark = pytest.mark.compiled


def owed(serial: int, *, qos: int = 1) -> Owed:
    return Owed(Message(b"a", b"%d" % serial, qos, ClientId("p"), 1), qos, serial=serial)


def entries(*serials: int, released: bool = False) -> list[QueueEntry]:
    return [QueueEntry(100 + serial, owed(serial), released=released) for serial in serials]


def new_queue(begun: int = 0) -> ExternalQueue:
    queue = ExternalQueue("c", QueueBackend("journal"), QueueLimits(100, 1000), begun)
    queue.online()
    return queue


def got(queue: ExternalQueue, limit: int = 100) -> list[int]:
    return [each.serial for each in queue.read(0, limit)]


def caught_up(queue: ExternalQueue) -> ExternalQueue:
    assert got(queue) == []
    queue.backend.reads.clear()
    queue.page_after()
    queue.page([], 10)
    return queue


def test_a_page_is_asked_for_once_and_followed_by_the_next() -> None:
    queue = new_queue()
    assert (got(queue), got(queue), list(queue.backend.reads)) == ([], [], [queue])
    queue.backend.reads.clear()
    assert queue.page_after() == 0
    assert got(queue) == []
    assert not queue.backend.reads
    assert queue.page(entries(1, 2), 2)
    assert got(queue) == [1, 2]
    assert list(queue.backend.reads) == [queue]
    assert queue.page_after() == 2


def test_who_has_caught_up_is_fed_from_memory() -> None:
    queue = caught_up(new_queue())
    assert queue.appended([(1, owed(0)), (0, owed(0)), (2, owed(0))])
    assert got(queue) == [1, 2]
    assert not queue.backend.reads
    queue.check_invariants()


def test_a_page_of_an_earlier_connection_leaves_no_gap() -> None:
    queue = new_queue()
    got(queue)
    queue.page_after()
    queue.page(entries(1, 2, 3), 3)
    assert got(queue, 1) == [1]
    queue.backend.reads.clear()
    assert queue.page_after() == 3
    queue.offline()
    queue.online()
    assert not queue.page(entries(4, 5), 100)
    assert list(queue.backend.reads) == [queue]
    assert queue.page_after() == 1
    queue.page(entries(2, 3, 4, 5), 100)
    assert got(queue) == [2, 3, 4, 5]


def test_what_was_appended_while_a_page_was_read_is_not_taken_for_the_end() -> None:
    queue = new_queue()
    got(queue)
    queue.page_after()
    assert not queue.appended([(2, owed(0))])
    queue.backend.reads.clear()
    queue.page(entries(1), 100)
    assert got(queue) == [1]
    assert list(queue.backend.reads) == [queue]
    queue.page_after()
    queue.page(entries(2), 100)
    assert got(queue) == [2]


def test_nothing_is_settled_before_the_store_has_forgotten_it() -> None:
    """Q1: a note that a QoS 2 message is done may go only then."""
    queue = caught_up(new_queue())
    queue.appended([(1, owed(0)), (2, owed(0)), (3, owed(0))])
    got(queue)
    assert queue.settled() == 0
    queue.acknowledge(2)
    queue.acknowledge(1)
    assert queue.settled() == 0
    assert queue.backend.acknowledged == {queue: [2, 1]}
    queue.confirmed([2])
    assert queue.settled() == 0
    queue.confirmed([1])
    assert queue.settled() == 2


def test_what_is_not_for_the_session_is_forgotten_unread() -> None:
    """T9, T8: of an earlier session, done before a crash, or released."""
    queue = new_queue(begun=102)
    queue.continue_from(0, {3}, [4], {5: 77}, 0)
    got(queue)
    queue.page_after()
    queue.page([*entries(1, 2, 3, 4, 5), *entries(6, released=True)], 100)
    found = queue.read(0, 100)
    assert [(each.serial, each.repeated) for each in found] == [(2, True), (5, True)]
    assert queue.backend.acknowledged == {queue: [1, 3, 6]}
    assert queue.settled() == 0


def test_messages_that_an_earlier_run_may_have_sent_say_so() -> None:
    queue = new_queue()
    queue.continue_from(0, set(), [], {}, 103)
    got(queue)
    queue.page_after()
    queue.page(entries(1, 2, 3), 100)
    assert [each.repeated for each in queue.read(0, 100)] == [True, True, False]


def test_memory_is_bounded_for_who_does_not_take_its_messages() -> None:
    queue = caught_up(new_queue())
    for serial in range(1, 3001):
        queue.appended([(serial, owed(0))])
    assert queue.count() <= 1000
    large = [QueueEntry(1, Owed(Message(b"a", b"x" * 200_000, 1, ClientId("p"), 1), 1, serial=1))]
    queue = new_queue()
    got(queue)
    queue.page_after()
    queue.page(large, 32)
    assert queue.page_limit() <= 6


def test_a_store_knows_a_queue_by_a_name_without_nul() -> None:
    names = ["c", "m/\0c", "m/%00c", "%", "%25"]
    assert [queue_name(name) for name in names] == ["c", "m/%00c", "m/%2500c", "%25", "%2525"]
    assert not any("\0" in queue_name(name) for name in names)
    assert [session_of(queue_name(name)) for name in names] == names


def resumed(*in_flight: int, done: frozenset[int] = frozenset()) -> ExternalQueue:
    """A queue that a restarted broker goes on with, and whose client is back; its first page is wanted."""
    queue = ExternalQueue("c", QueueBackend("journal"), QueueLimits(100, 1000), 0)
    queue.continue_from(0, set(done), list(in_flight), {}, 0)
    queue.online()
    assert got(queue) == []
    queue.backend.reads.clear()
    assert queue.page_after() == 0
    return queue


def forgotten(queue: ExternalQueue, *serials: int) -> None:
    """The client acknowledges entries, and the store has forgotten them."""
    for serial in serials:
        queue.acknowledge(serial)
    queue.backend.acknowledged.clear()
    queue.confirmed(list(serials))


def test_a_page_read_before_the_store_forgot_entries_hands_none_of_them_out_again() -> None:
    """Q1: they were in flight when the broker was killed, and complete while the page is on its way."""
    queue = resumed(1, 2, 3)
    forgotten(queue, 1, 2, 3)
    queue.page(entries(1, 2, 3, 4), 100)
    assert got(queue) == [4]
    queue.check_invariants()


def test_a_page_read_before_the_store_forgot_finished_entries_hands_none_of_them_out_again() -> None:
    """Q1: an earlier run finished them; a page tells the store so, a second one was read before it knew."""
    queue = resumed(done=frozenset({1, 2}))
    queue.page(entries(1), 1)
    assert (got(queue), queue.backend.acknowledged) == ([], {queue: [1]})
    queue.offline()
    queue.online()
    got(queue)
    queue.page_after()
    forgotten(queue, 1)
    queue.page(entries(1, 2, 3), 100)
    assert got(queue) == [3]
    assert queue.backend.acknowledged == {queue: [2]}


def test_a_late_answer_to_a_repeated_append_hands_out_nothing_of_an_earlier_run() -> None:
    """Q1, T13: the outbox gives a message to its queue once more; the answer comes after the store forgot it."""
    queue = resumed(1, 2, 3)
    forgotten(queue, 1, 2, 3)
    queue.page([], 100)
    assert not queue.appended([(1, owed(0)), (2, owed(0)), (3, owed(0))])
    assert got(queue) == []
    assert queue.appended([(4, owed(0))])
    assert got(queue) == [4]
    queue.check_invariants()


def test_a_repeated_append_of_a_finished_entry_has_the_store_forget_it() -> None:
    """T13: no page shows it any more, so that nothing else would."""
    queue = resumed(done=frozenset({1}))
    queue.page([], 100)
    assert not queue.appended([(1, owed(0))])
    assert queue.backend.acknowledged == {queue: [1]}
    assert queue.settled() == 0
    queue.confirmed([1])
    assert queue.settled() == 1


def test_progress_passes_entries_that_are_skipped_without_a_new_message() -> None:
    """What an earlier run finished need not be remembered when the store has forgotten it and it was passed."""
    queue = resumed(1, 2)
    queue.page(entries(1, 2), 100)
    assert queue.settled() == 0
    forgotten(queue, 1, 2)
    assert queue.settled() == 2


@settings(max_examples=300)
@given(
    st.sets(st.integers(1, 6)),
    st.lists(
        st.sampled_from(["ask", "page", "again", "answer", "read", "finish", "tell", "told", "leave", "new"]),
        min_size=10,
        max_size=60,
    ),
)
def test_what_an_earlier_run_handed_out_never_comes_again(before: set[int], acts: list[str]) -> None:
    """Q1, T13: whatever the order in which pages, repeated appends and acknowledgements are asked for and answered."""
    stored = [1, 2, 3, 4, 5, 6]
    in_flight = sorted(serial for serial in before if serial % 2)
    queue = ExternalQueue("c", QueueBackend("journal"), QueueLimits(100, 1000), 0)
    queue.continue_from(0, {serial for serial in before if not serial % 2}, in_flight, {}, 0)
    queue.online()
    pages: list[list[QueueEntry]] = []
    answers: list[list[tuple[int, Owed]]] = []
    telling: list[list[int]] = []
    out: list[int] = []

    def act(what: str) -> None:
        if what == "ask" and not pages:
            out.extend(got(queue, 1))
            if queue.backend.reads:
                queue.backend.reads.clear()
                after = queue.page_after()
                pages.append(entries(*[serial for serial in stored if serial > after][:3]))
        elif what == "page" and pages:
            queue.page(pages.pop(), 3)
        elif what == "again":
            queue.in_doubt()
            answers.append([(serial if serial in stored else 0, owed(0)) for serial in range(1, 7)])
        elif what == "new":
            last = max([6, *stored, *out])
            stored.append(last + 1)
            answers.append([(last + 1, owed(0))])
        elif what == "answer" and answers:
            queue.appended(answers.pop(0))
        elif what == "read":
            out.extend(got(queue, 2))
        elif what == "finish":
            while in_flight:
                queue.acknowledge(in_flight.pop())
        elif what == "tell" and queue.backend.acknowledged:
            telling.append(queue.backend.acknowledged.pop(queue))
            stored[:] = [serial for serial in stored if serial not in telling[-1]]
        elif what == "told" and telling:
            queue.confirmed(telling.pop(0))
        elif what == "leave":
            queue.offline()
            queue.online()
        queue.check_invariants()

    for what in acts:
        act(what)
    for _round in range(60):
        for what in ("answer", "read", "ask", "page", "read"):
            act(what)
    assert out == [serial for serial in range(1, max([6, *stored]) + 1) if serial not in before]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(["append", "answer", "ask", "page", "read", "leave", "doubt"]), max_size=40))
def test_every_message_is_handed_out_once_and_in_order(acts: list[str]) -> None:
    """L13: whatever comes between the question for a page and its answer."""
    queue = new_queue()
    stored: list[int] = []
    unanswered: list[int] = []
    asked: list[int] = []
    out: list[int] = []
    pages: list[tuple[list[QueueEntry], int]] = []

    def act(what: str) -> None:
        if what == "append":
            stored.append(len(stored) + 1)
            unanswered.append(stored[-1])
        elif what == "answer" and unanswered:
            queue.appended([(serial, owed(0)) for serial in unanswered])
            unanswered.clear()
        elif what == "ask" and queue.backend.reads and not pages:
            queue.backend.reads.clear()
            after = queue.page_after()
            asked.append(after)
            pages.append((entries(*[serial for serial in stored if serial > after][:3]), 3))
        elif what == "page" and pages:
            queue.page(*pages.pop())
        elif what == "read":
            out.extend(got(queue, 2))
        elif what == "leave":
            queue.offline()
            queue.online()
        elif what == "doubt":
            queue.in_doubt()
        queue.check_invariants()

    for what in acts:
        act(what)
    for _round in range(4 * len(stored) + 4):
        for what in ("answer", "read", "ask", "page", "read"):
            act(what)
    assert out == stored
