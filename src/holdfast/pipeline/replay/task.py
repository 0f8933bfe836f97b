"""The work of one connection of a replay, in a worker of Spark: rows come in order, and go out when they are due.

    rows ──▶ MessageCopier ──▶ wait until due ──▶ client ──▶ broker
                                                     └─ settled ──▶ note, twice a second

1. A connection has the client id `spark-replay-<id>-<connection>`. Of two processes that are at the same one, because
   the first was given up and is still running, the broker keeps the newer.
2. All connections of a replay with a speed run at the same time, and begin when the last of them is ready.
3. What is late is sent at once. Distances are kept from the start, not from the message before: being late does not
   add up.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark import BarrierTaskContext, TaskContext

from holdfast.client.blocking_client import BlockingClient
from holdfast.model.errors import TransientError
from holdfast.model.time import SECOND_US
from holdfast.pipeline.replay.rows import MessageCopier, ReplayRow, read_rows
from holdfast.pipeline.replay.schedule import ReplaySchedule, ReplayStart, agree_on_start
from holdfast.pipeline.replay.state import ConnectionProgress, write_note
from holdfast.pipeline.sink.broker_client import KEEP_ALIVE_S, open_client
from holdfast.pipeline.sink.write_options import WriteOptions

#: Between two notes.
_NOTE_S: Final = 0.5
#: Messages between two looks at the clock, of a replay without a speed.
_LOOK: Final = 100
#: Waits that are not worth it: a process sleeps longer than that anyway.
_SHORT_US: Final = 500
#: The longest rest without a word to the broker.
_REST_S: Final = KEEP_ALIVE_S / 2

#: What a task returns, one row: its note, and of this run how much was sent, how late, from when on.
RESULT: Final = pa.schema(
    [
        pa.field("connection", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("messages", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("sent", pa.int64()),
        pa.field("late_us", pa.int64()),
        pa.field("start_us", pa.int64()),
        pa.field("first_us", pa.int64()),
    ]
)


@dataclass(frozen=True)
class ReplayTask:
    """What every connection of a replay needs."""

    id: str
    to: WriteOptions
    prefix: str
    #: By connection.
    notes: tuple[ConnectionProgress, ...]
    folder: str
    #: None: as fast as can be.
    speed: Fraction | None
    #: None: to be agreed on.
    beginning: ReplayStart | None


def replay_rows(task: ReplayTask, batches: Iterator[Any]) -> Iterator[Any]:
    """For `mapInArrow`; with a speed, in barrier mode."""
    context = TaskContext.get()
    assert context is not None
    connection = context.partitionId()
    found = read_rows(batches, task.notes[connection].number)
    # The first row is there when all are sorted.
    first = next(found, None)
    beginning = task.beginning
    if task.speed is not None and beginning is None:
        beginning = _agreed(None if first is None else first.offset_us)
    schedule = None if task.speed is None or beginning is None else ReplaySchedule(beginning, task.speed)
    copier = ReplayConnection(task, connection, schedule)
    if first is not None:
        copier.run(chain((first,), found))
    start_us, first_us = beginning or (0, 0)
    values = (connection, *copier.note, copier.sent, copier.late_us, start_us, first_us)
    yield pa.RecordBatch.from_pylist([dict(zip(RESULT.names, values, strict=True))], schema=RESULT)


def _agreed(first_us: int | None) -> ReplayStart:
    """Ensures: all connections are ready."""
    own = f"{time.time_ns() // 1000} {'' if first_us is None else first_us}"
    given = [text.partition(" ") for text in BarrierTaskContext.get().allGather(own)]
    return agree_on_start((int(ready), int(first) if first else None) for ready, _space, first in given)


class ReplayConnection:
    """Publishes the rows of one connection, and keeps its note."""

    def __init__(
        self,
        task: ReplayTask,
        connection: int,
        schedule: ReplaySchedule | None,
        *,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        sleep: Callable[[float], None] = time.sleep,
        client: BlockingClient | None = None,
    ) -> None:
        self.note = task.notes[connection]
        self.sent = 0
        #: The latest that a message was sent after it was due.
        self.late_us = 0
        self._schedule: Final = schedule
        self._folder: Final = Path(task.folder)
        self._connection: Final = connection
        self._copies: Final = MessageCopier(task.prefix, task.to.qos)
        self._now_us: Final = now_us
        self._sleep: Final = sleep
        client_id = f"spark-replay-{task.id}-{connection}"
        self._client: Final = client or open_client(task.to, client_id)
        #: Sent, and not in the note yet: number and bytes.
        self._open: Final[deque[tuple[int, int]]] = deque()
        self._settled = 0
        self._noted_us = now_us()

    def run(self, found: Iterator[ReplayRow]) -> None:
        """Ensures: everything is acknowledged, and noted."""
        client = self._client
        try:
            for row in found:
                if self._schedule is not None:
                    self._wait(self._schedule.due_us(row.offset_us))
                message = self._copies.message(row, self._schedule)
                client.send(message)
                self.sent += 1
                self._open.append((row.number, len(message.topic) + len(message.payload)))
                if self.sent % _LOOK == 0:
                    self._keep_note()
            client.settle()
        finally:
            client.close()
            self._take_note()
            self._write_note()

    def _wait(self, due_us: int) -> None:
        while (left_us := due_us - self._now_us()) > _SHORT_US:
            self._client.flush()
            self._keep_note()
            self._sleep(min(left_us / SECOND_US, _REST_S))
            if left_us > _REST_S * SECOND_US:
                self._client.ping()
        self.late_us = max(self.late_us, -left_us)

    def _keep_note(self) -> None:
        if self._now_us() - self._noted_us >= _NOTE_S * SECOND_US:
            self._take_note()
            self._write_note()

    def _take_note(self) -> None:
        number, messages, size = self.note
        for _message in range(self._client.settled - self._settled):
            number, own_size = self._open.popleft()
            messages += 1
            size += own_size
        self._settled = self._client.settled
        self.note = ConnectionProgress(number, messages, size)

    def _write_note(self) -> None:
        self._noted_us = self._now_us()
        try:
            write_note(self._folder, self._connection, self.note)
        except TransientError:
            # On a machine without this folder. The driver will have it when the round is done.
            return
