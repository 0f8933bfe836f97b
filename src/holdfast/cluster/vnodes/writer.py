"""The writer of a node in one vnode: items become numbered records, and each item hears what became of it.

    filling ──seal──▶ sealed ──send──▶ on its way ──answered──▶ in the log ──applied here──▶ settled
                                        │      ▲
                                        └──────┘ without an answer, the same bytes again

1. Records have the numbers 1, 2, 3, … of the writer's epoch in this vnode, in the order in which items were added.
2. One record is on its way: the next is sent when it was answered with a sequence, or was read back, and a little later
   while the log is busy (`append_pace`). Meanwhile that one fills. A record is sealed when it is full, or when it is
   sent.
3. A record without an answer is sent again, byte for byte, after 2 s and then every 3 s; a large one after pauses that
   grow to 10 s, since all repetitions may be stored when the log goes on. An unknown outcome is no answer. The state
   machine passes over repetitions.
4. An item is settled by the outcome of its record on this node, and by nothing else: an answer of the log only says
   that the record is there. Items are settled in the order in which they were added, each once.
5. A record that was rejected because one before it is missing is sent again behind that one: writing goes back to the
   first record that is not settled.
6. When the epoch of the writer is closed, nothing that is not settled has counted or will count, and nothing more is
   written.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from holdfast.cluster.vnodes.append_pace import LARGE_BYTES, LONGEST_PAUSE_US, AppendPace
from holdfast.cluster.vnodes.applier import ApplierStop
from holdfast.cluster.vnodes.open_record import OpenRecord
from holdfast.durable.ordered_log import AppendResult, LogEntry, OrderedLog, UnknownOutcome
from holdfast.durable.state_machine.outcome import APPLIED, CLOSED_EPOCH, GAP, REPEATED, Outcome
from holdfast.model.clock import Clock
from holdfast.model.message import Message
from holdfast.records.cluster.items import Item
from holdfast.records.cluster.record import MAX_RECORD_BYTES, SessionEntry
from holdfast.records.cluster.rows import RegistrationRow

_log = structlog.get_logger()

#: Before a record without an answer is sent again; each time twice as long, up to the longest. A log that has a leader
#: again is not used before the pause is over: so long its clients wait for nothing.
FIRST_PAUSE_S: Final = 2.0
LONGEST_PAUSE_S: Final = 3.0
#: Of a record with more than `LARGE_BYTES`.
LONGEST_LARGE_PAUSE_S: Final = 10.0


class ItemOutcome:
    """What became of one item."""

    def __init__(self, outcome: Outcome | None, index: int) -> None:
        #: That of its record; None if this node will not see it. Nothing may be acknowledged then.
        self.outcome: Final = outcome
        self.index: Final = index

    @property
    def accepted(self) -> bool:
        """False for an item of a session: the session is fenced, and nothing may be acknowledged."""
        return self.outcome is not None and self.outcome.accepted[self.index]

    @property
    def revision(self) -> int:
        """Of a claim that was accepted; 0 otherwise."""
        return 0 if self.outcome is None else self.outcome.revisions.get(self.index, 0)

    @property
    def registration(self) -> RegistrationRow | None:
        """Of a read: who is registered. Of a claim that was refused: what stood in its way."""
        if self.outcome is None:
            return None
        found = self.outcome.reads.get(self.index)
        return found if found is not None else self.outcome.refused_claims.get(self.index)


Settled = Callable[[ItemOutcome], None]


class TimerHandle(Protocol):
    """A call that was asked for."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """Calls after a time. The event loop fits by shape."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle: ...


class _SealedRecord:
    """A record with its number, until it is settled."""

    def __init__(self, number: int, value: bytes, settled: list[Settled | None]) -> None:
        self.number: Final = number
        self.value: Final = value
        self.settled: Final = settled
        self.answered = False


class _FillingRecord:
    """A record without a number, and who waits for its items."""

    def __init__(self, limit_bytes: int) -> None:
        self.record: Final = OpenRecord(limit_bytes)
        self.settled: Final[list[Settled | None]] = []


class VnodeWriter:
    """An `OutcomeListener` by shape: the applier of the same vnode tells it every outcome."""

    def __init__(
        self,
        log: OrderedLog,
        cluster_id: bytes,
        node: int,
        epoch: int,
        clock: Clock,
        timers: Timers,
        seen_version: Callable[[], int],
        *,
        limit_bytes: int = MAX_RECORD_BYTES,
        longest_pause_us: int = LONGEST_PAUSE_US,
    ) -> None:
        """`seen_version` is the greatest version of a retained message that this node has seen in any vnode.

        `longest_pause_us` bounds what is left to a busy log between two records.
        """
        self._target: Final = log
        self._identity: Final = (cluster_id, node, epoch)
        self._clock: Final = clock
        self._timers: Final = timers
        self._seen_version: Final = seen_version
        self._limit_bytes: Final = limit_bytes
        self._number = 0
        self._filling: Final[deque[_FillingRecord]] = deque()
        #: Sealed and not settled, by number.
        self._unsettled: Final[deque[_SealedRecord]] = deque()
        self._on_its_way: _SealedRecord | None = None
        self._timer: TimerHandle | None = None
        self._pause_s = FIRST_PAUSE_S
        self._flushing = False
        self._pace: Final = AppendPace(longest_pause_us)
        #: When the record on its way was sent first, and before when the next one is not: monotonic.
        self._sent_us = 0
        self._not_before_us = 0
        self._pause_timer: TimerHandle | None = None
        #: When the last record was settled, or the first one sealed that is not: monotonic.
        self._waits_since_us = 0
        #: Items that are not settled yet, in bytes, for back-pressure.
        self.unsettled_bytes = 0
        #: The greatest sequence that a record was answered with.
        self.acknowledged = 0
        #: Why nothing is written any more; empty if it is.
        self.closed = ""

    def add(self, item: Item, settled: Settled | None = None, session: SessionEntry | None = None) -> None:
        """Add an item behind all others. `flush` sends it, or the record before it does when it is answered.

        Requires: `session` for a message or a session step; a message with its packet id and number is one item.
        MisuseError: it is larger than a record.
        """
        if self.closed:
            if settled is not None:
                settled(ItemOutcome(None, 0))
            return
        filling = self._filling[-1] if self._filling else None
        before = 0 if filling is None else filling.record.size_bytes
        if filling is None or not filling.record.add(item, session):
            filling, before = _FillingRecord(self._limit_bytes), 0
            filling.record.add(item, session)
            self._filling.append(filling)
        filling.settled.append(settled)
        self.unsettled_bytes += filling.record.size_bytes - before

    def add_message(
        self, session: SessionEntry, message: Message, packet_id: int, number: int, user: str | None
    ) -> None:
        """As `add` for a `MessageItem` with these fields, without the object."""
        if self.closed:
            return
        filling = self._filling[-1] if self._filling else None
        before = 0 if filling is None else filling.record.size_bytes
        if filling is None or not filling.record.add_message(session, message, packet_id, number, user):
            filling, before = _FillingRecord(self._limit_bytes), 0
            filling.record.add_message(session, message, packet_id, number, user)
            self._filling.append(filling)
        filling.settled.append(None)
        self.unsettled_bytes += filling.record.size_bytes - before

    def notify(self, settled: Settled) -> None:
        """Tell when everything that was added so far is settled, with the outcome of the last item.

        Requires: that item was added since the last `flush`, and nothing waits for it.
        """
        if self.closed:
            settled(ItemOutcome(None, 0))
        else:
            self._filling[-1].settled[-1] = settled

    def flush(self) -> None:
        """Send what was added, unless a record is on its way: then it follows that one."""
        if self._flushing:
            return  # a log that answers inside the call
        self._flushing = True
        try:
            while self._on_its_way is None and not self.closed:
                record = next((record for record in self._unsettled if not record.answered), None)
                if record is None and self._pauses():
                    break
                record = record or self._seal()
                if record is None:
                    break
                self._on_its_way = record
                self._pause_s = FIRST_PAUSE_S
                self._sent_us = self._clock.monotonic_us()
                self._send(record)
        finally:
            self._flushing = False

    def _pauses(self) -> bool:
        """Whether what fills waits for more; it is sent later then."""
        if not self._not_before_us or not self._filling:
            return False
        left_us = self._not_before_us - self._clock.monotonic_us()
        if left_us <= 0 or self._filling[0].record.size_bytes > LARGE_BYTES:
            self._not_before_us = 0
            return False
        if self._pause_timer is None:
            self._pause_timer = self._timers.call_later(left_us / 1e6, self._pause_over)
        return True

    def _pause_over(self) -> None:
        self._pause_timer = None
        self._not_before_us = 0
        self.flush()

    def waits_us(self) -> int:
        """For how long no record was settled, though one is sealed; 0 if none is."""
        return self._clock.monotonic_us() - self._waits_since_us if self._unsettled else 0

    def close(self) -> None:
        """Nothing more is written. What is not settled may count or not: its epoch has to be closed by another one."""
        self._end("the writer was closed")

    # ---- the way to the log

    def _seal(self) -> _SealedRecord | None:
        if not self._filling:
            return None
        filling = self._filling.popleft()
        self._number += 1
        value = filling.record.seal(*self._identity, self._number, self._clock.wall_us(), self._seen_version())
        record = _SealedRecord(self._number, value, filling.settled)
        if not self._unsettled:
            self._waits_since_us = self._clock.monotonic_us()
        self._unsettled.append(record)
        return record

    def _send(self, record: _SealedRecord) -> None:
        self._timer = self._timers.call_later(self._pause_s, self._send_again)
        self._target.append(record.value, lambda result: self._answered(record, result))

    def _send_again(self) -> None:
        record = self._on_its_way
        if record is not None:
            _log.warning("a record is sent again", number=record.number, after_s=self._pause_s)
            longest_s = LONGEST_PAUSE_S if len(record.value) <= LARGE_BYTES else LONGEST_LARGE_PAUSE_S
            self._pause_s = min(2 * self._pause_s, longest_s)
            self._send(record)

    def _answered(self, record: _SealedRecord, result: AppendResult) -> None:
        if isinstance(result, UnknownOutcome):
            return
        record.answered = True
        self.acknowledged = max(self.acknowledged, result)
        self._arrived(record)

    def _arrived(self, record: _SealedRecord) -> None:
        """A record is in the log. Answers of repetitions come late, and change nothing."""
        if self._on_its_way is record:
            self._on_its_way = None
            self._cancel_timer()
            now_us = self._clock.monotonic_us()
            self._pace.answered(now_us - self._sent_us, now_us)
            pause_us = self._pace.pause_us()
            self._not_before_us = now_us + pause_us if pause_us else 0
            self.flush()

    def _cancel_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # ---- outcomes

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        """An entry of the log was applied here, of any writer."""
        record = next((record for record in self._unsettled if record.value == entry.record), None)
        if record is None:
            return
        if outcome.verdict == APPLIED:
            self._settle(record, outcome)
        elif outcome.verdict == GAP:
            self._go_back(record)
        elif outcome.verdict == CLOSED_EPOCH:
            self._end("the epoch of this node is closed in this vnode")
        elif outcome.verdict == REPEATED:
            self._end(f"record {record.number} was applied before this node has seen its outcome")

    def stopped(self, stop: ApplierStop) -> None:
        """No outcome comes any more."""
        self._end(f"the vnode is applied no further: {stop.why}")

    def _settle(self, record: _SealedRecord, outcome: Outcome) -> None:
        # Records are applied in the order of their numbers: this is the first one.
        self._unsettled.popleft()
        self._waits_since_us = self._clock.monotonic_us()
        record.answered = True
        self.unsettled_bytes -= len(record.value)
        for index, settled in enumerate(record.settled):
            if settled is not None:
                settled(ItemOutcome(outcome, index))
        self._arrived(record)

    def _go_back(self, record: _SealedRecord) -> None:
        """A record before this one is missing in the log, though it was answered."""
        if self._unsettled[0] is record:
            self._end(f"record {record.number} is rejected as if the one before it had not counted")
            return
        _log.error("a record is missing in the log", number=self._unsettled[0].number, rejected=record.number)
        for unsettled in self._unsettled:
            unsettled.answered = False
        if self._on_its_way is not self._unsettled[0]:
            self._on_its_way = None
            self._cancel_timer()
            self.flush()

    def _end(self, why: str) -> None:
        if self.closed:
            return
        self.closed = why
        self._on_its_way = None
        self._cancel_timer()
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None
        left = [settled for record in self._unsettled for settled in record.settled]
        left += [settled for filling in self._filling for settled in filling.settled]
        self._unsettled.clear()
        self._filling.clear()
        self.unsettled_bytes = 0
        _log.warning("a vnode is written no further", why=why, items=len(left))
        for settled in left:
            if settled is not None:
                settled(ItemOutcome(None, 0))
