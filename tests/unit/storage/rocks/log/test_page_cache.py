"""Pages that several readers share: less work, the same messages."""

import random

import pytest

from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.storage.rocks.log.page_cache import PageCache, PageKey
from tests.unit.storage.rocks.log.store import Store, drain, places

_KEY: PageKey = (0, (b"#",), 1)
_FOR_EVER = 2**62


def page(*positions: int, payload_bytes: int = 0, topic: bytes = b"t", properties: bytes = b"") -> list[Message]:
    messages = []
    for position_us in positions:
        messages.append(Message(topic, bytes(payload_bytes), 1, ClientId("p"), 0, properties=properties))
        messages[-1].position_us = position_us
    return messages


def on_disk(store: Store, count: int) -> None:
    store.publish(*["a"] * count)
    store.reopen()


def test_readers_that_follow_each_other_read_the_disk_once(store: Store) -> None:
    on_disk(store, 100)
    for _ in range(3):
        assert places(drain(store.replay(), 10)[0]) == places(store.written)
    assert store.reader.pages.hits >= 15


def test_an_end_inside_a_shared_page_cuts_it(store: Store) -> None:
    """A page was read by somebody who wanted more."""
    on_disk(store, 20)
    drain(store.replay(), 10)
    until_us = store.written[4].position_us
    assert places(store.read("#", 0, until_us)) == places(store.written[:4])
    assert places(drain(store.replay("#", 0, until_us), 10)[0]) == places(store.written[:4])
    assert places(drain(store.replay(), 10)[0]) == places(store.written)


def test_a_merging_reader_leaves_shared_pages_whole(store: Store) -> None:
    """It takes messages out of what it has read ahead, which must be its own."""
    on_disk(store, 20)
    for by_time in (True, True, False):
        assert places(drain(store.replay(by_time=by_time), 10)[0]) == places(store.written)


def test_a_reader_may_do_with_its_page_what_it_likes(store: Store) -> None:
    on_disk(store, 20)
    for _ in range(3):
        replay = store.replay()
        messages = replay.next(10).messages
        assert places(messages) == places(store.written[:10])
        messages.clear()


def test_readers_with_any_limit_share(store: Store) -> None:
    on_disk(store, 50)
    dice = random.Random(1)
    for _ in range(30):
        replay = store.replay("#", 0, store.written[dice.randrange(50)].position_us + dice.randrange(2))
        found = []
        while True:
            page = replay.next(dice.choice([1, 2, 3, 7, 20]))
            found.extend(page.messages)
            if page.at_end:
                break
        assert places(found) == places([message for message in store.written if message.position_us < replay._until_us])
    assert store.reader.pages.hits > 30


def test_a_longer_page_takes_the_place_of_a_shorter_one() -> None:
    pages = PageCache()
    pages.put(_KEY, page(1, 2))
    assert pages.get(_KEY, 3, _FOR_EVER) is None, "there may be more"
    pages.put(_KEY, page(1, 2, 3))
    pages.put(_KEY, page(1))
    found = pages.get(_KEY, 3, _FOR_EVER)
    assert found is not None
    assert [message.position_us for message in found] == [1, 2, 3]


def test_a_short_page_is_enough_for_who_ends_inside_it() -> None:
    pages = PageCache()
    pages.put(_KEY, page(1, 5))
    assert pages.get(_KEY, 10, 6) is None
    found = pages.get(_KEY, 10, 5)
    assert found is not None
    assert [message.position_us for message in found] == [1]
    assert pages.get(_KEY, 10, 1) == []


def test_memory_is_bounded_and_counted() -> None:
    pages = PageCache(max_bytes=20_000)
    for position_us in range(1, 100):
        pages.put((0, (b"#",), position_us), page(position_us, payload_bytes=1_000))
        pages.put((0, (b"#",), position_us), page(position_us, position_us + 1, payload_bytes=500))
        assert pages.size_bytes <= 20_000
    assert pages.get((0, (b"#",), 99), 2, _FOR_EVER) is not None
    assert pages.get((0, (b"#",), 1), 1, _FOR_EVER) is None
    pages.put((0, (b"#",), 1), page(1, payload_bytes=100_000))
    assert pages.size_bytes == 0
    pages.put(_KEY, page(1))
    pages.clear()
    assert pages.size_bytes == 0


@pytest.mark.parametrize("kind", ["topic", "payload", "properties"])
def test_all_bytes_of_a_message_count(kind: str) -> None:
    """Topics of 60 KB, or user properties of megabytes, are memory as payloads are."""
    made = {
        "topic": lambda: page(1, topic=bytes(1_000)),
        "payload": lambda: page(1, payload_bytes=1_000),
        "properties": lambda: page(1, properties=bytes(1_000)),
    }
    pages = PageCache()
    pages.put(_KEY, made[kind]())
    assert 1_000 < pages.size_bytes < 2_000
