"""The faults that the model of an ordered log has on demand."""

import pytest

from holdfast.durable.memory_ordered_log import MemoryOrderedLog, MemoryReading
from holdfast.durable.ordered_log import AppendResult, LogEnds, LogEntry, LogReader, UnknownOutcome
from holdfast.model.clock import ManualClock
from holdfast.model.errors import MisuseError
from tests.unit.durable.takeover.lagging_registry import at_once

T = ManualClock().wall_us()


class Seen:
    """A reader that notes everything."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.why: list[str] = []

    def entries(self, entries: list[LogEntry]) -> None:
        self.records += [entry.record for entry in entries]

    def stopped(self, why: str) -> None:
        self.why.append(why)


def a_log(limit_bytes: int = 0) -> MemoryOrderedLog:
    return MemoryOrderedLog(ManualClock(), limit_bytes=limit_bytes)


def append(log: MemoryOrderedLog, record: bytes) -> list[AppendResult]:
    """The answers so far."""
    answers: list[AppendResult] = []
    log.append(record, answers.append)
    return answers


def reading(log: MemoryOrderedLog, reader: LogReader) -> MemoryReading:
    found = log.read(1, reader)
    assert isinstance(found, MemoryReading)
    return found


def test_held_appends_arrive_in_any_order() -> None:
    log, seen = a_log(), Seen()
    log.read(1, seen)
    log.hold_appends = True
    first, second = append(log, b"a"), append(log, b"b")
    assert (first, second, seen.records) == ([], [], [])
    log.arrive(1)
    log.arrive()
    assert (first, second, seen.records) == ([2], [1], [b"b", b"a"])


def test_a_record_whose_answer_is_lost_is_stored() -> None:
    """A4."""
    log, seen = a_log(), Seen()
    log.read(1, seen)
    log.lose_answers = 1
    assert append(log, b"a") == [UnknownOutcome("no answer")]
    assert append(log, b"a") == [2]
    assert seen.records == [b"a", b"a"]


def test_a_lost_record_is_not_stored() -> None:
    log, seen = a_log(), Seen()
    log.read(1, seen)
    log.lose_appends = 1
    assert append(log, b"a") == [UnknownOutcome("no answer")]
    assert append(log, b"a") == [1]
    assert seen.records == [b"a"]


def test_a_repeated_record_has_two_places() -> None:
    log, seen = a_log(), Seen()
    log.read(1, seen)
    log.repeat_appends = 1
    assert append(log, b"a") == [1]
    assert append(log, b"b") == [3]
    assert seen.records == [b"a", b"a", b"b"]


def test_a_reader_that_is_behind_gets_what_it_missed() -> None:
    log, seen = a_log(), Seen()
    log.hold_reads = True
    behind = reading(log, seen)
    for record in (b"a", b"b", b"c"):
        append(log, record)
    log.deliver(behind, 2)
    assert seen.records == [b"a", b"b"]
    log.deliver(behind)
    log.deliver(behind)
    assert seen.records == [b"a", b"b", b"c"]


def test_stamps_are_wrong_on_demand() -> None:
    log = a_log()
    log.stamp_offset_us = -7
    append(log, b"a")
    stamps: list[int] = []
    seen = Seen()
    seen.entries = lambda entries: stamps.extend(entry.stamp_us for entry in entries)  # type: ignore[method-assign]
    log.read(1, seen)
    assert stamps == [T - 7]


def test_a_full_log_takes_records_again_when_it_was_trimmed() -> None:
    """A11."""
    log = a_log(limit_bytes=4)
    assert append(log, b"abc") == [1]
    assert append(log, b"de") == [UnknownOutcome("the log is full")]
    assert append(log, b"d") == [2]
    at_once(log.trim(2))
    assert append(log, b"efg") == [3]
    log.check_invariants()


def test_a_lost_tail_stops_readers_that_were_beyond_it_and_gives_sequences_again() -> None:
    """A10, A19."""
    log, ahead, behind = a_log(), Seen(), Seen()
    log.hold_reads = True
    log.deliver(reading(log, ahead))
    waiting = reading(log, behind)
    for record in (b"a", b"b", b"c"):
        append(log, record)
    log.deliver(log.readings()[0])
    log.lose_tail(2)
    assert (len(ahead.why), len(behind.why)) == (1, 0)
    assert at_once(log.ends()) == LogEnds(1, 1, "memory-1", 1)
    assert append(log, b"x") == [2]
    log.deliver(waiting)
    assert behind.records == [b"a", b"x"]
    log.check_invariants()


def test_a_log_that_was_made_again_is_empty_and_has_another_incarnation() -> None:
    """A19."""
    log, seen = a_log(), Seen()
    log.read(1, seen)
    append(log, b"a")
    log.replace("memory-2")
    assert len(seen.why) == 1
    assert at_once(log.ends()) == LogEnds(1, 0, "memory-2")
    assert append(log, b"b") == [1]
    assert seen.records == [b"a"]


def test_a_trim_stops_readers_that_it_overtakes() -> None:
    log, seen = a_log(), Seen()
    log.hold_reads = True
    reading(log, seen)
    append(log, b"a")
    append(log, b"b")
    at_once(log.trim(2))
    assert len(seen.why) == 1
    with pytest.raises(MisuseError):
        at_once(log.trim(3))
