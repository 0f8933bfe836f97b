"""An ordered log in memory: the model of the contract, with the faults of a real one on demand.

    fault                   how it is asked for
    ──────────────────────  ──────────────────────────────────────────────────────────────────────────────────────
    an append is slow       `hold_appends`; then `arrive` lets one of `held` arrive, in any order
    an answer is lost       `lose_answers`: so many of the next records are stored, and their outcome is unknown
    a record is lost        `lose_appends`: so many of the next records are not stored, and their outcome is unknown
    a record comes twice    `repeat_appends`: so many of the next records are stored twice
    a reader is behind      `hold_reads`; then `deliver` gives a reading its next entries
    a clock is wrong        `stamp_offset_us`: by how much stamps differ from the clock
    the log is full         `limit_bytes`
    the tail is lost        `lose_tail`: the last records are gone, and their sequences are given out again
    the log is another one  `replace`: an empty log under the same name, with another incarnation

Without a fault every append is answered inside the call, and readers are given the record before its answer. The last
two faults break the promises of the contract: they are what a node has to notice.
"""

from typing import Final

from holdfast.durable.ordered_log import (
    FIRST_SEQUENCE,
    Answered,
    LogEnds,
    LogEntry,
    LogReader,
    LogReading,
    OrderedLog,
    UnknownOutcome,
)
from holdfast.model.clock import Clock
from holdfast.model.errors import MisuseError
from holdfast.records.cluster.record import MAX_RECORD_BYTES


class MemoryReading(LogReading):
    """A reader, and the sequence that it gets next."""

    def __init__(self, log: "MemoryOrderedLog", next_sequence: int, reader: LogReader) -> None:
        self._log: Final = log
        self.reader: Final = reader
        self.next_sequence = next_sequence

    def close(self) -> None:
        self._log.forget(self)


class _HeldAppend:
    """An append on its way to the log."""

    def __init__(self, record: bytes, answered: Answered) -> None:
        self.record: Final = record
        self.answered: Final = answered


class MemoryOrderedLog(OrderedLog):
    """Survives: the nodes that use it, not the process.

    1. The entries have the sequences [first, last], without a gap.
    2. A reading is never given an entry twice, and never one below an earlier one.
    """

    def __init__(
        self, clock: Clock, incarnation: str = "memory-1", *, max_bytes: int = MAX_RECORD_BYTES, limit_bytes: int = 0
    ) -> None:
        """`limit_bytes` bounds the records together; 0 for no bound."""
        self._clock: Final = clock
        self._incarnation = incarnation
        self._max_bytes: Final = max_bytes
        self._entries: Final[list[LogEntry]] = []
        self._first = FIRST_SEQUENCE
        self._bytes = 0
        self._readings: Final[list[MemoryReading]] = []
        self.held: Final[list[_HeldAppend]] = []
        self.limit_bytes = limit_bytes
        self.hold_appends = False
        self.hold_reads = False
        self.lose_answers = 0
        self.lose_appends = 0
        self.repeat_appends = 0
        self.stamp_offset_us = 0

    # ---- the contract

    def append(self, record: bytes, answered: Answered) -> None:
        if not record or len(record) > self._max_bytes:
            raise MisuseError(f"a record has {len(record)} bytes; the log takes 1 to {self._max_bytes}")
        if self.hold_appends:
            self.held.append(_HeldAppend(record, answered))
        else:
            self._store(record, answered)

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        reading = MemoryReading(self, from_sequence, reader)
        if self._first <= from_sequence <= self._last() + 1:
            self._readings.append(reading)
            if not self.hold_reads:
                self.deliver(reading)
        else:
            reader.stopped(f"sequence {from_sequence} is not in [{self._first}, {self._last() + 1}]")
        return reading

    async def ends(self) -> LogEnds:
        return LogEnds(self._first, self._last(), self._incarnation, self._bytes)

    async def trim(self, before_sequence: int) -> None:
        if before_sequence > self._last():
            raise MisuseError(f"a trim before {before_sequence} would empty the log, whose last is {self._last()}")
        gone = before_sequence - self._first
        if gone > 0:
            self._bytes -= sum([len(entry.record) for entry in self._entries[:gone]])
            del self._entries[:gone]
            self._first = before_sequence
            self._stop_outside()

    # ---- faults

    def arrive(self, index: int = 0) -> None:
        """Let a held append arrive."""
        held = self.held.pop(index)
        self._store(held.record, held.answered)

    def deliver(self, reading: MemoryReading, limit: int = 0) -> None:
        """Give a reading what it has not got yet, at most `limit` entries; 0 for all."""
        start = reading.next_sequence - self._first
        entries = self._entries[start : start + limit] if limit else self._entries[start:]
        if entries:
            reading.next_sequence += len(entries)
            reading.reader.entries(entries)

    def lose_tail(self, count: int) -> None:
        """The last records are gone. Readings that were beyond the new end are stopped."""
        lost = self._entries[len(self._entries) - count :]
        del self._entries[len(self._entries) - count :]
        self._bytes -= sum([len(entry.record) for entry in lost])
        self._stop_outside()

    def replace(self, incarnation: str) -> None:
        """The log was deleted, and an empty one was made under its name."""
        self._incarnation = incarnation
        self._entries.clear()
        self._first = FIRST_SEQUENCE
        self._bytes = 0
        readings = list(self._readings)
        self._readings.clear()
        for reading in readings:
            reading.reader.stopped(f"the log is another one, {incarnation}")

    def readings(self) -> list[MemoryReading]:
        """The readings that go on."""
        return list(self._readings)

    def forget(self, reading: MemoryReading) -> None:
        """The reading is closed."""
        if reading in self._readings:
            self._readings.remove(reading)

    # ---- records

    def _last(self) -> int:
        return self._first + len(self._entries) - 1

    def _store(self, record: bytes, answered: Answered) -> None:
        if self.lose_appends:
            self.lose_appends -= 1
            answered(UnknownOutcome("no answer"))
            return
        if self.limit_bytes and self._bytes + len(record) > self.limit_bytes:
            answered(UnknownOutcome("the log is full"))
            return
        sequence = self._put(record)
        if self.repeat_appends:
            self.repeat_appends -= 1
            self._put(record)
        if not self.hold_reads:
            for reading in self.readings():
                self.deliver(reading)
        if self.lose_answers:
            self.lose_answers -= 1
            answered(UnknownOutcome("no answer"))
        else:
            answered(sequence)

    def _put(self, record: bytes) -> int:
        sequence = self._last() + 1
        self._entries.append(LogEntry(sequence, self._clock.wall_us() + self.stamp_offset_us, record))
        self._bytes += len(record)
        return sequence

    def _stop_outside(self) -> None:
        """Readings whose next sequence is neither there nor the next one to come."""
        outside = [
            reading for reading in self._readings if not self._first <= reading.next_sequence <= self._last() + 1
        ]
        for reading in outside:
            self._readings.remove(reading)
            reading.reader.stopped(f"sequence {reading.next_sequence} is not in the log")

    def check_invariants(self) -> None:
        """Raise MisuseError if a numbered invariant does not hold."""
        for offset, entry in enumerate(self._entries):
            if entry.sequence != self._first + offset:
                raise MisuseError(f"1: entry {entry.sequence} is at the place of {self._first + offset}")
        for reading in self._readings:
            if not self._first <= reading.next_sequence <= self._last() + 1:
                raise MisuseError(f"2: a reading is at {reading.next_sequence}, outside of the log")
