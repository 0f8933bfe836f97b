"""Pages as columns: the same rows as their message records give, whichever are wanted."""

from pathlib import Path
from random import Random

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from holdfast.durable.log import NO_END
from holdfast.durable.segments import build_segment
from holdfast.durable.zones import Zone
from holdfast.history.arrow.message_batches import COLUMNS, record_batch
from holdfast.history.arrow.page_batches import page_batch
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.messages import EXPIRES, stored_topic
from holdfast.records.pages.commit_pages import CommitPage, encode_page
from holdfast.records.pages.segment_pages import SegmentPage
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.layouts.topic_check import filter_check
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.unit.storage.rocks.layouts.test_paged import FILTERS, fill, messages
from tests.unit.storage.rocks.log.store import Store, levels

START_US = 1_700_000_000_000_000


def pages(count: int) -> list[bytes]:
    """Of a segment with messages of all kinds."""
    written = messages(count, Random(7), START_US)
    for number, message in enumerate(written):
        message.position_us = START_US + number
    return build_segment([encode_page(written, 1)]).pages


def opened(values: list[bytes]) -> list[SegmentPage]:
    return [SegmentPage(value) for value in values]


@pytest.mark.parametrize("text", FILTERS)
def test_a_batch_of_pages_is_that_of_their_records(text: str) -> None:
    values = pages(3_000)
    assert len(values) > 1
    lo_us, hi_us = START_US + 100, START_US + 2_500
    check = filter_check(levels(text))
    records: list[bytes] = []
    for value in values:
        page = SegmentPage(value)
        records += [record for record in page.records(lo_us, hi_us) if check(stored_topic(record))]
    assert page_batch(opened(values), 3, lo_us, hi_us, levels(text)) == record_batch(records, 3)


def commit_pages(*, follow: bool) -> list[CommitPage]:
    """Of commits of several sizes; with positions of their own, if they do not follow each other."""
    random = Random(3)
    at_us, serial = START_US, 1
    found = []
    for size in (1, 200, 1, 2, 700):
        written = messages(size, random, at_us)
        for message in written:
            at_us += 1 if follow else random.randrange(1, 9)
            message.position_us = at_us
        found.append(CommitPage(encode_page(written, serial)))
        at_us += 50
        serial += size
    return found


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("text", FILTERS)
def test_a_batch_of_commit_pages_is_that_of_their_records(text: str, *, follow: bool) -> None:
    values = commit_pages(follow=follow)
    assert any(page.positions_at for page in values) is not follow
    lo_us, hi_us = values[1].position_us(20), values[-1].position_us(600)
    check = filter_check(levels(text))
    records = [record for page in values for record in page.records(page.row_from(lo_us), page.row_from(hi_us))]
    wanted = [record for record in records if check(stored_topic(record))]
    assert page_batch(values, 3, lo_us, hi_us, levels(text)) == record_batch(wanted, 3)
    assert page_batch(values, 3, lo_us, hi_us) == record_batch(records, 3)


def test_damage_of_a_commit_page_is_named() -> None:
    value = commit_pages(follow=True)[1].value
    with pytest.raises(PermanentError, match="names a topic that it does not have"):
        page_batch([CommitPage(value[:46] + b"\xff\xff" + value[48:])], 0, 0, NO_END)


def test_a_message_that_expires_without_a_time_is_damage() -> None:
    message = Message(b"a", b"", 1, ClientId("c"), START_US)
    message.position_us = START_US
    value = encode_page([message], 1)
    flags_at = CommitPage(value).flags_at
    damaged = CommitPage(value[:flags_at] + bytes([value[flags_at] | EXPIRES]) + value[flags_at + 1 :])
    with pytest.raises(PermanentError, match="the page has no column for that"):
        page_batch([damaged], 0, 0, NO_END, columns=("expires_at",))


def test_all_rows_and_only_some_columns() -> None:
    values = pages(500)
    batch = page_batch(opened(values), 3, 0, NO_END, columns=("topic", "serial"))
    assert batch.schema.names == ["topic", "serial"]
    assert sorted(batch.column("serial").to_pylist()) == list(range(1, 501))


def test_damage_is_named() -> None:
    (value,) = pages(30)
    topics = len(SegmentPage(value).topics)
    publisher_at, flags_at = 46 + 4 * topics, 46 + 4 * topics + 2 * 30
    with pytest.raises(PermanentError, match="a publisher that it does not have"):
        page_batch(opened([value[:publisher_at] + b"\xff\xff" + value[publisher_at + 2 :]]), 0, 0, NO_END)
    with pytest.raises(PermanentError, match="flags that no version wrote"):
        page_batch(opened([value[:flags_at] + b"\xff" + value[flags_at + 1 :]]), 0, 0, NO_END)


@pytest.mark.parametrize("rows", [7, 16_384])
def test_the_history_gives_the_same_rows_in_any_order(tmp_path: Path, rows: int) -> None:
    """Of segments and of the commit pages behind them."""
    store = Store(tmp_path, default=Zone("default", layout="paged", store_qos0=True))
    fill(store, [300] * 5)
    assert SegmentWriter(store.log, SegmentSize(messages=400)).write_all() == 2
    reader = HistoryReader(tmp_path)
    try:
        (part,) = reader.parts(0, NO_END)
        for text in ("", *FILTERS):
            wanted = levels(text) if text else ()
            ordered = list(reader.batches(part, wanted, rows=rows))
            found = list(reader.batches(part, wanted, rows=rows, in_order=False))
            assert all(batch.num_rows <= rows for batch in found)
            if not ordered:
                assert not found
                continue
            table = pa.Table.from_batches(found).sort_by("offset")
            assert table.to_pylist() == pa.Table.from_batches(ordered).to_pylist()
            assert table.schema.names == list(COLUMNS)
    finally:
        reader.close()
        store.close()
