"""Layout `paged` against `timeline`: commits of every size, whatever their messages have."""

from random import Random

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.erasures import Erasure, Erasures
from holdfast.durable.log import NO_END
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.pages.commit_pages import CommitPage
from holdfast.storage.rocks.checking.verification import verify_folder
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.storage.rocks.layouts.layout import MESSAGES, POSTINGS
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from holdfast.storage.rocks.shipments.parallel_layout import LayoutStructure, ParallelLayoutWriter
from tests.unit.storage.rocks.layouts.store import record
from tests.unit.storage.rocks.log.store import Store, drain, places

FAMILY = "log-00000-00000001"
FILTERS = ("#", "plant/7/#", "plant/+/temp", "plant/7/temp", "+/+/flow", "$own/#", "nothing/#")


def messages(count: int, random: Random, received_us: int) -> list[Message]:
    """On many topics, of all kinds: properties, expiry, retained, QoS 0, clocks that were set back."""
    return [
        Message(
            random.choice([b"plant/%d/temp", b"plant/%d/flow", b"$own/%d"]) % random.randrange(20),
            random.randbytes(random.randrange(40)),
            random.randrange(3),
            ClientId(f"publisher-{random.randrange(5)}"),
            received_us - random.choice([0, 0, 5_000_000_000]),
            retain=random.random() < 0.1,
            properties=random.choice([b"", b"", b"\x01\x01"]),
            expires_us=random.choice([0, 0, received_us + 7_000_000]),
        )
        for _number in range(count)
    ]


def fill(store: Store, sizes: list[int]) -> None:
    random = Random(1)
    for size in sizes:
        store.clock.advance(1_000_000)
        store.write(*messages(size, random, store.clock.wall_us()))
    store.settle()


def contents(found: list[Message]) -> list[tuple[int, int, Message]]:
    return [(message.shard, message.position_us, message) for message in found]


@pytest.mark.parametrize(
    "sizes",
    [[1] * 30, [2, 1, 2, 3], [500, 1, 500], pytest.param([66_000, 1, 3], marks=pytest.mark.slow)],
    ids=lambda sizes: f"commits of {max(sizes)}",
)
def test_every_filter_finds_what_a_timeline_has(paged: Store, timeline: Store, sizes: list[int]) -> None:
    """L4, L5: read from memory, and from the disk after a restart; from any position on."""
    fill(paged, sizes)
    fill(timeline, sizes)
    for _open in range(2):
        for text in FILTERS:
            wanted = contents(timeline.read(text))
            assert contents(paged.read(text)) == wanted
            if wanted:
                since_us = wanted[len(wanted) // 3][1]
                until_us = wanted[2 * len(wanted) // 3][1]
                assert contents(paged.read(text, since_us, until_us)) == contents(
                    timeline.read(text, since_us, until_us)
                )
        paged.reopen()
        timeline.reopen()
    paged.log.close()
    report = verify_folder(paged.folder)
    assert report.problems == []
    assert report.messages == sum(sizes)
    paged._open()


def test_a_commit_is_one_value(paged: Store) -> None:
    fill(paged, [1, 500, 3])
    pages = [CommitPage(value) for _key, value in scan_items(paged.engine.family(FAMILY), MESSAGES, POSTINGS)]
    assert [page.count for page in pages] == [1, 500, 3]
    assert [page.first_serial for page in pages] == [1, 2, 502]


@pytest.mark.parametrize("limit", [1, 7, 128, 1_000])
def test_a_reader_may_stop_inside_of_a_page(paged: Store, limit: int) -> None:
    """L3: what was read ahead is neither lost nor given twice, also when it has to let go meanwhile."""
    fill(paged, [300, 2, 400])
    paged.reopen()
    replay = paged.replay("plant/#")
    found: list[Message] = []
    for number in range(10_000):
        page = replay.next(limit)
        found += page.messages
        if number % 3 == 0:
            paged.reader.revoke()
        if page.at_end:
            break
    assert places(found) == places(paged.expected("plant/#"))


def test_a_single_message_is_found_by_its_position(paged: Store) -> None:
    fill(paged, [50])
    paged.reopen()
    for message in paged.written:
        assert paged.reader.at(message.shard, (), message.position_us) == message
    assert paged.reader.at(0, (b"no", b"such"), paged.written[3].position_us) is None


@pytest.mark.parametrize("segments", [0, 1, 2])
def test_erased_messages_are_not_shown(paged: Store, segments: int) -> None:
    """In commit pages, in segments, and where an erasure ends in the middle of one."""
    fill(paged, [40, 40])
    assert SegmentWriter(paged.log, SegmentSize(messages=80 // segments if segments else 81)).write_all() == segments
    paged.reopen()
    last_us = paged.written[59].position_us
    paged.reader.hide(Erasures([Erasure("publisher-1", (), {0: last_us}, 1, "test")]))
    shown = [m for m in paged.expected() if m.publisher != "publisher-1" or m.position_us > last_us]
    for limit in (1, 13, 500):
        assert places(drain(paged.replay(), limit)[0]) == places(shown)


def test_a_generation_that_was_dropped_is_reported_as_lost(paged: Store) -> None:
    fill(paged, [10])
    replay = paged.replay()
    assert len(replay.next(4).messages) == 4
    paged.rotate()
    fill(paged, [5])
    paged.drop_oldest()
    found, lost = drain(replay)
    assert len(found) == 5
    assert [one.at_most for one in lost] == [10]


def test_damage_is_named_and_not_taken_for_the_end(paged: Store) -> None:
    """L21: a page that cannot be decoded ends a read with an error; `verify` names its key."""
    fill(paged, [5, 5, 5])
    first = paged.written[5].position_us
    changes = Changes()
    changes.into(FAMILY).put(MESSAGES + first.to_bytes(8, "big"), b"\x01broken")
    paged.log.write_own(changes)
    paged.reopen()
    with pytest.raises(PermanentError, match="a commit page has 7 bytes"):
        paged.read()
    paged.log.close()
    (problem, *_more) = verify_folder(paged.folder).problems
    assert "a commit page has 7 bytes" in str(problem)
    paged._open()


def test_a_page_under_another_key_is_noticed(paged: Store) -> None:
    fill(paged, [5])
    family = paged.engine.family(FAMILY)
    ((key, value),) = scan_items(family, MESSAGES, POSTINGS)
    changes = Changes()
    changes.into(FAMILY).delete(key)
    changes.into(FAMILY).put(key[:-1] + bytes([key[-1] ^ 1]), value)
    paged.log.write_own(changes)
    paged.log.close()
    assert any("lies under a key of another" in str(problem) for problem in verify_folder(paged.folder).problems)
    paged._open()


def test_a_reader_that_finds_nothing_pauses_as_with_other_layouts(
    paged: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five pages of 20,000 messages are 100 stretches without a match: more than one call looks through."""
    fill(paged, [20_000] * 5)
    paged.reopen()
    opened: list[bytes] = []

    def counted(value: bytes) -> CommitPage:
        opened.append(value)
        return CommitPage(value)

    monkeypatch.setattr("holdfast.storage.rocks.layouts.paged.CommitPage", counted)
    scan = paged.reader.scan(0, (b"nothing", b"#"), 0)
    assert scan.next(100, NO_END) == []
    assert len(opened) <= 2
    for _call in range(20):
        scan.next(100, NO_END)
    assert scan.from_us > paged.written[-1].position_us, "it comes to the end all the same"


def test_readers_that_wait_hold_no_pages(paged: Store) -> None:
    """A thousand clients that never acknowledge would else hold a page each, of up to 4 MiB."""
    fill(paged, [1_000])
    paged.reopen()
    scan = paged.reader.scan(0, (), 0)
    found = scan.next(5, NO_END)
    assert (scan._source, scan._read_ahead) == (None, [])
    while more := scan.next(300, NO_END):
        found += more
    assert places(found) == places(paged.written)


def test_records_of_a_job_become_pages_without_gaps_in_their_serials(paged: Store) -> None:
    """Loaded and relaid messages come encoded; erased ones are left out."""
    writer = ParallelLayoutWriter(LayoutStructure("paged", {}))
    for serial in (1, 2, 3, 7, 8):
        writer.put(b"a", 10 * serial, record(b"a", 10 * serial, serial=serial))
    pages = [CommitPage(value) for _key, value in writer.take()]
    assert [(page.first_serial, page.first_us, page.count) for page in pages] == [(1, 10, 3), (7, 70, 2)]
    assert writer.take() == []
