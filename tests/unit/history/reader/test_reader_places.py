"""Where messages are, told by segments: the first one behind a position, and where a part is best divided."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.durable.log import NO_END
from holdfast.durable.zones import Zone
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.records.messages import stored_position, stored_serial
from holdfast.storage.rocks.layouts.paged import SegmentSize
from holdfast.storage.rocks.layouts.segments import SegmentReader
from holdfast.storage.rocks.log.segment_writer import SegmentWriter
from tests.unit.storage.rocks.layouts.test_paged import fill
from tests.unit.storage.rocks.log.store import Store


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[HistoryReader]:
    """Two segments of 600 and 400 messages, and a commit page behind them."""
    store = Store(tmp_path, default=Zone("default", layout="paged", store_qos0=True))
    fill(store, [300, 300, 150, 250, 100])
    assert SegmentWriter(store.log, SegmentSize(messages=400)).write_all() == 2
    with HistoryReader(tmp_path) as reader:
        yield reader
    store.close()


def stored(reader: HistoryReader) -> list[tuple[int, int]]:
    (part,) = reader.parts(0, NO_END)
    return [(stored_position(value), stored_serial(value)) for value in reader.stored(part)]


def test_the_first_message_behind_any_position_is_found(reader: HistoryReader) -> None:
    (part,) = reader.parts(0, NO_END)
    places = stored(reader)
    for number, (at_us, _serial) in enumerate(places):
        assert reader.first(part._replace(lo_us=at_us)) == places[number]
        following = places[number + 1] if number + 1 < len(places) else None
        assert reader.first(part._replace(lo_us=at_us + 1)) == following
        assert reader.first(part._replace(lo_us=at_us - 1, hi_us=at_us)) in (None, places[max(0, number - 1)])


def test_no_page_is_read_for_the_first_message_of_a_segment(
    reader: HistoryReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    (part,) = reader.parts(0, NO_END)
    places = stored(reader)
    monkeypatch.setattr(reader, "_as_stored", None)
    assert reader.first(part._replace(lo_us=places[700][0])) == places[700]


def test_a_part_is_divided_where_segments_begin(reader: HistoryReader) -> None:
    (part,) = reader.parts(0, NO_END)
    places = stored(reader)
    assert reader.cuts(part) == [places[0], places[600]]
    assert reader.cuts(part._replace(lo_us=places[0][0])) == [places[600]]
    assert reader.cuts(part._replace(lo_us=places[600][0])) == []
    assert reader.cuts(part._replace(hi_us=places[600][0])) == [places[0]]


def test_a_damaged_map_costs_time_and_no_messages(reader: HistoryReader, monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = reader.parts(0, NO_END)
    places = stored(reader)
    monkeypatch.setattr(SegmentReader, "page_map", damaged_map)
    assert reader.first(part._replace(lo_us=places[700][0])) == places[700]


def damaged_map(*_given: object) -> None:
    raise PermanentError("the map of a segment has 3 bytes")
