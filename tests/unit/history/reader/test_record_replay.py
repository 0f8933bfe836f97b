"""The replay of encoded messages: pages, counts, erasures and cursors, on parts of lists."""

from collections.abc import Iterator

import pytest

from holdfast.durable.erasures import Erasure, Erasures, no_erasures
from holdfast.history.reader import record_replay
from holdfast.history.reader.record_replay import RecordReplay
from holdfast.history.reader.view import Part
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import encode_message, stored_serial

FIRST = Part("default", 0, 1, 1, 11, 0, 10)
SECOND = Part("default", 1, 1, 1, 6, 0, 5)
THIRD = Part("default", 1, 2, 6, 9, 5, 8)


def records(part: Part, payload_bytes: int = 10) -> Iterator[bytes]:
    for serial in range(part.after_serial + 1, part.last_serial + 1):
        message = Message(b"a", bytes(payload_bytes), 1, ClientId("odd" if serial % 2 else "even"), 0)
        yield encode_message(message, serial, serial)


def replay(*parts: Part, erasures: Erasures | None = None, in_order: bool = True) -> RecordReplay:
    return RecordReplay(parts, records, erasures or no_erasures(), counted=True, in_order=in_order)


def test_a_page_is_of_one_part_and_says_when_the_shard_changes() -> None:
    pages = []
    reader = replay(FIRST, SECOND, THIRD)
    while not (page := reader.next(4)).at_end:
        pages.append((page.shard, [stored_serial(value) for value in page.messages], page.next_stream))
    assert pages == [
        (0, [1, 2, 3, 4], True),
        (0, [5, 6, 7, 8], False),
        (0, [9, 10], False),
        (1, [1, 2, 3, 4], True),
        (1, [5], False),
        (1, [6, 7, 8], False),
    ]


@pytest.mark.parametrize(("in_order", "done"), [(True, 4), (False, None)])
def test_a_cursor_is_behind_what_was_returned(done: int | None, *, in_order: bool) -> None:
    reader = replay(FIRST, SECOND, in_order=in_order)
    reader.next(4)
    assert reader.cursor().done.get(0) == done
    assert len(list(reader.records())) == 11
    assert reader.cursor().done == {0: 10, 1: 5}


def test_a_part_that_falls_short_is_an_error() -> None:
    reader = replay(FIRST._replace(last_serial=12))
    short = RecordReplay(
        [FIRST._replace(last_serial=12)], lambda _part: records(FIRST), no_erasures(), counted=True, in_order=True
    )
    assert len(list(reader.records())) == 12
    with pytest.raises(PermanentError, match="by their serials there are 12"):
        list(short.records())


def test_what_was_erased_is_counted_and_not_returned() -> None:
    erasures = Erasures([Erasure("odd", (), {0: 6}, 1, "test")])
    found = [stored_serial(value) for value in replay(FIRST, erasures=erasures).records()]
    assert found == [2, 4, 6, 7, 8, 9, 10]


def test_large_messages_make_small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_replay, "PAGE_BYTES", 250)
    reader = replay(FIRST)
    sizes = []
    while not (page := reader.next(100)).at_end:
        sizes.append(len(page.messages))
    assert sum(sizes) == 10
    assert max(sizes) <= 5


def test_large_messages_behind_small_ones_make_small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_replay, "PAGE_BYTES", 5_000)
    small, large = FIRST, FIRST._replace(after_serial=10, last_serial=40)
    values = [*records(small), *records(large, 1000)]
    reader = RecordReplay([FIRST], lambda _part: iter(values), no_erasures(), counted=False, in_order=True)
    pages = []
    while not (page := reader.next(100)).at_end:
        pages.append(page.messages)
    assert [value for page in pages for value in page] == values
    assert max(sum(map(len, page)) for page in pages) < 5_000 + len(values[-1])


def test_a_closed_replay_is_at_its_end() -> None:
    reader = replay(FIRST)
    reader.next(1)
    reader.close()
    assert reader.next(1).at_end
