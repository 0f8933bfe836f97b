"""`verify` on commit pages and segments (L21): no position and no serial twice, none missing, a complete index."""

from collections.abc import Callable
from random import Random
from struct import pack_into, unpack_from

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.tails import POSITION
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.pages.commit_pages import CommitPage, encode_page
from holdfast.records.pages.segment_index import Directory, decode_directory, encode_directory
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MARKS, MESSAGES, POSTINGS, SEGMENTS
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.layouts.postings import encode_mark, read_mark
from holdfast.storage.rocks.layouts.segments import map_key, page_key
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.unit.storage.rocks.layouts.test_paged import fill
from tests.unit.storage.rocks.log.store import Store
from tests.unit.storage.rocks.log.test_segment_writer import FAMILY, SHARD, assert_sound

#: Messages of each of the two segments, and of the commits behind them.
SEGMENT, COMMITS = 900, [5, 7, 4]
_RUN_AT = 9


def write(store: Store, random: Random) -> None:
    """A commit whose segment has an index: a level of many tokens, and one of two that are on many pages."""
    store.clock.advance(1_000_000)
    topics = [b"plant/%d/%s" % (random.randrange(20), random.choice([b"temp", b"flow"])) for _message in range(SEGMENT)]
    store.write(*[Message(topic, random.randbytes(900), 1, ClientId("p"), store.clock.wall_us()) for topic in topics])
    store.settle()


class Stored:
    """What lies in a store, and a change of it behind the log's back."""

    def __init__(self, store: Store, first_commit: tuple[bytes, bytes]) -> None:
        self.store = store
        #: The commit page that the first segment was made of.
        self.first_commit = first_commit
        self.changes = Changes()
        self._segments = store.engine.family(FAMILY)
        self.directories = [
            decode_directory(int.from_bytes(key[1:], "big"), value)
            for key, value in self.items(SHARD, MARKS + b"\x00", SEGMENTS)
        ]
        self.commits = self.items(SHARD, MESSAGES, POSTINGS)

    def items(self, family: str, lo: bytes, hi: bytes) -> list[tuple[bytes, bytes]]:
        return list(scan_items(self.store.engine.family(family), lo, hi))

    def _in_segments(self, key: bytes) -> bytes:
        value = self._segments.get(key)
        assert isinstance(value, bytes)
        return value

    def page(self, number: int, segment: int = 0) -> bytes:
        return self._in_segments(page_key(self.directories[segment].number, number))

    def put_page(self, number: int, value: bytes) -> None:
        self.changes.into(FAMILY).put(page_key(self.directories[0].number, number), value)

    def map(self) -> bytearray:
        return bytearray(self._in_segments(map_key(self.directories[0].number)))

    def put_map(self, value: bytearray) -> None:
        self.changes.into(FAMILY).put(map_key(self.directories[0].number), bytes(value))

    def put_directory(self, **changed: object) -> None:
        known = self.directories[0]
        fields = ("first_us", "number", "messages", "pages", "first_serial", "serials", "last_us", "tokens")
        wanted = {name: changed.get(name, getattr(known, name)) for name in fields}
        value = encode_directory(Directory(**wanted))  # type: ignore[arg-type]
        self.changes.into(SHARD).put(MARKS + POSITION.pack(known.first_us), value)

    def problems(self) -> list[str]:
        self.store.log.write_own(self.changes)
        self.store.log.close()
        try:
            return [str(problem) for problem in verify_folder(self.store.folder).problems]
        finally:
            self.store._open()


@pytest.fixture
def stored(paged: Store) -> Stored:
    """Two segments with an index, and commits behind them."""
    random = Random(3)
    write(paged, random)
    ((key, value),) = scan_items(paged.engine.family(SHARD), MESSAGES, POSTINGS)
    write(paged, random)
    assert SegmentWriter(paged.log, SegmentSize(messages=SEGMENT)).write_all() == 2
    fill(paged, COMMITS)
    found = Stored(paged, (bytes(key), bytes(value)))
    assert min(directory.pages for directory in found.directories) > 8
    return found


def test_what_these_tests_damage_is_sound_before(stored: Stored) -> None:
    assert_sound(stored.store, 2 * SEGMENT + sum(COMMITS))


def bring_back_a_commit(stored: Stored) -> None:
    stored.changes.into(SHARD).put(*stored.first_commit)


def overlap(stored: Stored) -> None:
    stored.put_directory(last_us=stored.directories[1].first_us)


def lower_the_mark(stored: Stored) -> None:
    mark_us = read_mark(stored.store.engine.family(SHARD))
    stored.changes.into(SHARD).put(*encode_mark(mark_us - 1, []))


def raise_the_mark(stored: Stored) -> None:
    stored.changes.into(SHARD).put(*encode_mark(stored.directories[1].last_us + 1, []))


def lose_a_segment(stored: Stored) -> None:
    """Its index, too: else that would tell."""
    segment = POSITION.pack(stored.directories[0].first_us)
    stored.changes.into(SHARD).delete(MARKS + segment)
    for key, _value in stored.items(SHARD, POSTINGS, MARKS):
        if key.endswith(segment):
            stored.changes.into(SHARD).delete(key)


def lose_a_commit(stored: Stored) -> None:
    stored.changes.into(SHARD).delete(stored.commits[1][0])


def lose_the_last_commit(stored: Stored) -> None:
    stored.changes.into(SHARD).delete(stored.commits[-1][0])


def repeat_a_serial(stored: Stored) -> None:
    key, value = stored.commits[1]
    page = CommitPage(value)
    stored.changes.into(SHARD).put(key, encode_page(page.messages(0, page.count, 0), page.first_serial - 1))


def repeat_a_position(stored: Stored) -> None:
    """The second commit begins at the last position of the first one; serials go on as they should."""
    key, value = stored.commits[1]
    page = CommitPage(value)
    messages = page.messages(0, page.count, 0)
    before_us = CommitPage(stored.commits[0][1]).last_us()
    for number, message in enumerate(messages):
        message.position_us = before_us + number
    stored.changes.into(SHARD).delete(key)
    stored.changes.into(SHARD).put(MESSAGES + POSITION.pack(before_us), encode_page(messages, page.first_serial))


def swap_column(stored: Stored, column: str, *, copy: bool = False) -> None:
    """Exchange the ranks or the positions of the first two rows of a page, or give both those of the first."""
    value = bytearray(stored.page(3))
    at = int(getattr(SegmentPage(bytes(value)), column))
    first, second = unpack_from("<II", value, at)
    pack_into("<II", value, at, first if copy else second, first)
    stored.put_page(3, bytes(value))


def repeat_a_rank(stored: Stored) -> None:
    swap_column(stored, "ranks_at", copy=True)


def swap_positions(stored: Stored) -> None:
    swap_column(stored, "positions_at")


def mislead_the_map(stored: Stored) -> None:
    """The message of rank 0 is said to be on the page behind its own."""
    value = stored.map()
    runs = int.from_bytes(value[5:9], "little")
    at = _RUN_AT + 12 * runs
    value[at] = (value[at] + 1) % stored.directories[0].pages
    stored.put_map(value)


def shift_the_map(stored: Stored) -> None:
    """All positions are said to be one later."""
    value = stored.map()
    pack_into("<q", value, _RUN_AT, 1)
    stored.put_map(value)


def miscount_tokens(stored: Stored) -> None:
    tokens = list(stored.directories[0].tokens)
    tokens[1] += 1
    stored.put_directory(tokens=tokens)


def miscount_messages(stored: Stored) -> None:
    stored.put_directory(messages=SEGMENT - 1)


def miscount_pages(stored: Stored) -> None:
    """One page fewer: the messages on the last one could not be found."""
    stored.put_directory(pages=stored.directories[0].pages - 1)


def take_a_page_of_another(stored: Stored) -> None:
    stored.put_page(2, stored.page(2, segment=1))


def shorten_the_index(stored: Stored) -> None:
    """A token that is on several pages is said to end before the last of them."""
    segment = POSITION.pack(stored.directories[0].first_us)
    for key, value in stored.items(SHARD, POSTINGS, MARKS):
        first, last = unpack_from("<HH", value, 4)
        if key.endswith(segment) and last > first:
            changed = bytearray(value)
            pack_into("<H", changed, 6, last - 1)
            stored.changes.into(SHARD).put(key, bytes(changed))
            return
    pytest.fail("no token is on several pages")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (bring_back_a_commit, "is below the mark"),
        (overlap, "begins before the last one ends"),
        (lower_the_mark, "and the mark says"),
        (raise_the_mark, "and the mark says"),
        (lose_a_segment, f"messages 1 to {SEGMENT} of shard 0 are missing"),
        (lose_a_commit, "messages 1806 to 1812 of shard 0 are missing"),
        (lose_the_last_commit, "messages 1813 to 1816 are missing at its end"),
        (repeat_a_serial, "message 1805 of shard 0 comes behind 1805"),
        (repeat_a_position, "comes behind"),
        (repeat_a_rank, "which is of another message"),
        (swap_positions, "its positions do not follow the order of its serials"),
        (mislead_the_map, "the map does not lead to the message at"),
        (shift_the_map, "the map does not lead to the message at"),
        (miscount_tokens, "level 1 has 20 tokens, and its directory says otherwise"),
        (
            miscount_messages,
            f"messages of {SEGMENT}, and its directory says {SEGMENT - 1} of {SEGMENT}",
        ),
        (miscount_pages, f"and its directory says {SEGMENT} of {SEGMENT}"),
        (take_a_page_of_another, "belongs to another"),
        (shorten_the_index, "and the index does not say so"),
    ],
)
def test_what_is_wrong_with_pages_is_named(stored: Stored, damage: Callable[[Stored], None], said: str) -> None:
    """L21."""
    damage(stored)
    problems = stored.problems()
    assert any(said in problem for problem in problems), problems
