"""Writers that repeat what they have no answer for, and what a log has to hold afterwards."""

from __future__ import annotations

import asyncio

from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.durable.ordered_log import LogEntry
from tests.conformance.ordered_logs import append


class Writer:
    """Appends numbered records, one after the other, as a node does: the same bytes again until there is an answer."""

    def __init__(self, log: NatsOrderedLog, name: str) -> None:
        self._log = log
        self._name = name
        self.confirmed: dict[int, bytes] = {}
        self.unknown = 0
        self._changed = asyncio.Event()

    async def write(self, number: int) -> None:
        record = f"{self._name}:{number}".encode() * 20
        while True:
            result = await append(self._log, record)
            if isinstance(result, int):
                assert result not in self.confirmed, f"sequence {result} was given out twice"
                self.confirmed[result] = record
                self._changed.set()
                return
            self.unknown += 1
            await asyncio.sleep(0.02)

    async def write_all(self, numbers: range) -> None:
        for number in numbers:
            await self.write(number)

    async def until(self, confirmed: int) -> None:
        while len(self.confirmed) < confirmed:
            self._changed.clear()
            await self._changed.wait()


def check_history(writers: list[Writer], *readers: list[LogEntry]) -> None:
    """What is confirmed is there, once under its sequence; sequences are dense; the readers agree."""
    first = readers[0]
    for other in readers[1:]:
        assert [(entry.sequence, entry.record) for entry in other] == [(e.sequence, e.record) for e in first]
    assert [entry.sequence for entry in first] == list(range(1, len(first) + 1))
    stored = {entry.sequence: entry.record for entry in first}
    for one in writers:
        for sequence, record in one.confirmed.items():
            assert stored[sequence] == record
    given_out = [sequence for one in writers for sequence in one.confirmed]
    assert len(set(given_out)) == len(given_out)
