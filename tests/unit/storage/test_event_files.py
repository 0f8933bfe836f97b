"""Events on disk: bounded, readable meanwhile, and harmless when they cannot be written."""

from pathlib import Path

from structlog.testing import capture_logs

from holdfast.records.events import Event, decode_event, encode_event
from holdfast.storage.event_files import EventFiles, read_events

FULL = Event(7, "expired", "c\0d", "a/é", shard=3, from_us=11, to_us=12, count=4, detail='"why"')


def event(time_us: int, reason: str = "expired") -> Event:
    return Event(time_us, reason, f"client{time_us}", "a/b")


def test_an_event_is_a_line_of_json_and_comes_back_as_it_was() -> None:
    line = encode_event(FULL)
    assert line == (
        '{"time_us":7,"reason":"expired","count":4,"client":"c\\u0000d","topic":"a/é","detail":"\\"why\\"",'
        '"shard":3,"from_us":11,"to_us":12}\n'.encode()
    )
    assert decode_event(line) == FULL
    assert decode_event(b'{"time_us":1,"reason":"x","count":2,"later":[]}') == Event(1, "x", "", "", count=2)


def test_events_of_all_reasons_come_back_in_the_order_of_time(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    files.write([event(1), event(4, "denied")])
    files.write([event(3), event(2, "denied")])
    EventFiles(tmp_path).write([event(5)])
    assert [found.time_us for found in read_events(tmp_path)] == [1, 2, 3, 4, 5]
    assert read_events(tmp_path / "nowhere") == []


def test_a_reason_keeps_its_newest_events_within_its_size_and_costs_no_other_reason_anything(tmp_path: Path) -> None:
    files = EventFiles(tmp_path, max_file_bytes=2000)
    files.write([event(0, "damaged")])
    for number in range(1, 1001):
        files.write([event(number)])
    sizes = [path.stat().st_size for path in (tmp_path / "events").glob("expired*")]
    assert sum(sizes) < 2 * 2100
    found = [one.time_us for one in read_events(tmp_path)]
    assert found[0] == 0
    assert found[1:] == list(range(found[1], 1001))
    assert len(found) > 20


def test_a_torn_last_line_is_left_out_and_what_follows_is_whole(tmp_path: Path) -> None:
    """As a kill -9 in the middle of a write leaves it."""
    EventFiles(tmp_path).write([event(1), event(2)])
    path = tmp_path / "events" / "expired.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    EventFiles(tmp_path).write([event(3)])
    assert [found.time_us for found in read_events(tmp_path)] == [1, 3]


def test_lines_that_are_no_events_are_left_out(tmp_path: Path) -> None:
    EventFiles(tmp_path).write([event(1)])
    with (tmp_path / "events" / "expired.jsonl").open("ab") as file:
        file.write(b'[]\n\xff\n{"time_us":"1"}\n{"time_us":1,"reason":2}\n\n')
    EventFiles(tmp_path).write([event(2)])
    assert [found.time_us for found in read_events(tmp_path)] == [1, 2]


def test_a_file_that_is_read_while_it_becomes_the_old_one_counts_once(tmp_path: Path) -> None:
    EventFiles(tmp_path).write([event(1)])
    path = tmp_path / "events" / "expired.jsonl"
    path.with_name("expired.old.jsonl").write_bytes(path.read_bytes())
    assert len(read_events(tmp_path)) == 1


def test_events_are_there_also_when_the_newest_file_was_put_aside_just_now(tmp_path: Path) -> None:
    EventFiles(tmp_path, max_file_bytes=1).write([event(1)])
    assert [path.name for path in (tmp_path / "events").iterdir()] == ["expired.old.jsonl"]
    assert [found.time_us for found in read_events(tmp_path)] == [1]


def test_what_cannot_be_written_is_said_once_and_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file stands where the folder would be")
    files = EventFiles(tmp_path)
    with capture_logs() as lines:
        files.write([event(1)])
        files.write([event(2)])
    assert [line["event"] for line in lines] == ["events are not stored"]
