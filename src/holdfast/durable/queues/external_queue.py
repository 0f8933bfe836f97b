"""The external queue of one client, as the path of messages sees it: a piece of it in memory, the rest in its backend.

    serial      41     42     43     44     45     46     47
              open    open  ┊ buffer ──────────┊  away: read page by page, when the buffer has run out
                            ↑ cursor           ↑ top

Nothing here waits. What has to be asked of the store is noted with the queue's `QueueBackend`; the append worker looks
there, and comes back with `appended`, `page` and `confirmed`.

A client that is caught up gets messages from memory, when their append was answered. One that is behind, or away, costs
no memory for what it is owed.
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.queues.client_queue import BacklogEnd, EntryQueue, RunStart
from holdfast.durable.queues.queue_store import QueueEntry, QueueLimits
from holdfast.durable.sessions.session_store import StoredSession
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued
from holdfast.records.session.progress import ProgressEntry

#: What a queue keeps in memory of what was not sent yet: beyond that it is read from the store when it is needed.
_BUFFER: Final = 1000
_BUFFER_BYTES: Final = 1 << 20
#: Entries of the first page, of any page, and the bytes that a page should have, by the size of the last ones.
_FIRST_PAGE: Final = 32
_PAGE: Final = 256
_PAGE_BYTES: Final = 1 << 20
#: Above every serial.
_UNKNOWN_SERIAL: Final = 2**62


def queue_name(session_id: str) -> str:
    """What a store knows a queue by: the client id, without the U+0000 that it has behind a mount point."""
    return session_id.replace("%", "%25").replace("\0", "%00")


def session_of(name: str) -> str:
    """The session id whose queue has a name."""
    return name.replace("%00", "\0").replace("%25", "%")


class QueueBackend:
    """What the queues of one backend have to ask of their store."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        #: Keys alone count, and they are in order.
        self.reads: Final[dict[ExternalQueue, None]] = {}
        self.acknowledged: Final[dict[ExternalQueue, list[int]]] = {}
        self.released: Final[dict[ExternalQueue, list[int]]] = {}
        #: How many acknowledgements have gathered.
        self.gathered = 0
        #: The store does not answer at the moment.
        self.away = False
        self._worker: Callable[[], None] | None = None

    def attach(self, worker: Callable[[], None]) -> None:
        """Call `worker` when there is something to ask that was not there before. Until then what is asked waits."""
        self._worker = worker

    def call_worker(self) -> None:
        """There is something to ask."""
        if self._worker is not None:
            self._worker()


class ExternalQueue(EntryQueue):
    """Survives: what its backend survives, and the session's progress.

    1. Entries are handed out in the order of their serials, each once per run of the broker.
    2. `buffer` follows the cursor without a gap; while `complete`, it reaches to the end of the queue.
    3. A serial is open from when it was handed out until the store has confirmed that it is forgotten.
    4. Everything up to `settled()` is forgotten by the store, and never read again.
    5. What an earlier run of the broker handed out or finished is not handed out again, whatever pages and answers
       show: they may be older than what the store was told since. It is remembered until the cursor has passed it.
    """

    def __init__(self, session_id: str, backend: QueueBackend, limits: QueueLimits, begun: int) -> None:
        self.session_id: Final = session_id
        self.name: Final = queue_name(session_id)
        self.backend: Final = backend
        self.limits: Final = limits
        #: Entries with a number below it are of an earlier session with the same id.
        self.begun: Final = begun
        #: The session has ended.
        self.ended = False
        #: How often the store has lost the queue: serials of an earlier incarnation mean nothing in this one.
        self.incarnation = 0
        #: When the store last refused a message because the queue is full, µs; 0 once it was read to its end.
        self.full_us = 0
        #: Nothing was asked of the store for this session yet.
        self.fresh = True
        self._online = False
        #: The last serial that is known to be given out; and up to where an earlier run had everything forgotten.
        self._last = 0
        self._settled = 0
        self._cursor = 0
        self._top = 0
        self._buffer: list[OwedQueued] = []
        self._buffer_bytes = 0
        self._complete = False
        self._open: Final[dict[int, None]] = {}
        #: Done before the last restart, though the store may not know yet.
        self._done: set[int] = set()
        #: Handed out or done before the last restart, until the cursor has passed the last of them.
        self._earlier: set[int] = set()
        self._earlier_up_to = 0
        #: Sent before the last restart, perhaps: what has a number below this, and what has a serial up to the last of
        #: these, which were not acknowledged. With their packet ids.
        self._repeated_below = 0
        self._sent: dict[int, int] = {}
        self._sent_up_to = 0
        #: A page is being read; since it was asked for, something was appended, or it is not what is wanted any more.
        self._reading = False
        self._outdated = False
        self._stale = False
        self._page = _FIRST_PAGE

    # ---- life

    def resume(self, stored: StoredSession, crashed: RunStart | None) -> None:
        progress = stored.progress
        entries = [] if progress is None else progress.unacknowledged
        self.continue_from(
            0 if progress is None else progress.sent.get(QUEUE_SHARD, 0),
            {position for shard, position in stored.done if shard == QUEUE_SHARD},
            [owed.serial for owed in stored.inflight.values() if isinstance(owed, OwedQueued)],
            {entry.position_us: entry.packet_id for entry in entries if entry.shard == QUEUE_SHARD},
            0 if crashed is None else crashed.number,
        )

    def continue_from(
        self, settled: int, done: set[int], in_flight: list[int], sent: dict[int, int], repeated_below: int
    ) -> None:
        """Go on where an earlier run of the broker stopped."""
        self.fresh = False
        self._cursor = self._top = settled
        self._done = set(done)
        self._sent = sent
        self._sent_up_to = max(sent) if sent else 0
        self._repeated_below = repeated_below
        for serial in in_flight:
            if serial:
                self._open[serial] = None
        self._earlier = {serial for serial in (*done, *in_flight) if serial > settled}
        self._earlier_up_to = max(self._earlier, default=0)
        self._last = max([settled, *done, *in_flight, *sent])
        self._settled = settled

    def online(self) -> None:
        """A connection takes what there is."""
        self.fresh = False
        self._online = True

    def offline(self) -> None:
        """No connection is there: what was not handed out is read again when one is."""
        self._online = False
        self._let_go()

    def _let_go(self) -> None:
        self._buffer = []
        self._buffer_bytes = 0
        self._top = self._cursor
        self._complete = False
        self._stale = True
        self.backend.reads.pop(self, None)

    def set_aside(self) -> None:
        """The store has lost the queue and begins a new one, perhaps with the same serials."""
        self.incarnation += 1
        self._last = self._settled = self._cursor = 0
        self._let_go()
        self._open.clear()
        self._done = set()
        self._earlier = set()
        self._earlier_up_to = 0
        self._sent = {}
        self._sent_up_to = 0
        self.backend.acknowledged.pop(self, None)
        self.backend.released.pop(self, None)

    # ---- what the store has answered

    def was_lost(self, serial: int, *, again: bool) -> bool:
        """Whether the store must have lost the queue: it answers with a place that was given out before.

        `again` if the message may have been appended by an earlier run of the broker: then it has its old place.
        """
        return 0 < serial <= (self._settled if again else self._last)

    def appended(self, entries: list[tuple[int, Owed]]) -> bool:
        """Messages with the serials that they got, in order; whether there is something to send."""
        self._outdated = True
        for serial, _owed in entries:
            self._last = max(self._last, serial)
        if self.ended or not self._online or not self._complete:
            return False
        for serial, owed in entries:
            if serial <= self._top:
                continue
            if serial in self._earlier:
                self._skip(serial)
                continue
            if len(self._buffer) >= _BUFFER or self._buffer_bytes >= _BUFFER_BYTES:
                self._complete = False
                break
            self._put(owed, serial)
        self._pass()
        return len(self._buffer) > 0

    def refused(self, now_us: int) -> bool:
        """The queue is full, and takes nothing until it was read to its end; whether it was not known to be."""
        before = self.full_us
        self.full_us = max(1, now_us)
        self.in_doubt()  # a page tells the store how far it was read
        return before == 0

    def in_doubt(self) -> None:
        """It is not known what of an append the queue has: what is there has to be read."""
        self._complete = False
        self._outdated = True

    def page_after(self) -> int:
        """Where the page begins that is wanted. Requires: the caller reads it now."""
        self._reading = True
        self._outdated = self._stale = False
        return self._top

    def page_limit(self) -> int:
        return self._page

    def page(self, entries: list[QueueEntry], limit: int) -> bool:
        """A page that was read; whether there is something to send."""
        self._reading = False
        if self.ended or not self._online:
            return False
        if self._stale:
            if not self._buffer:
                self._ask()
            return False
        size_bytes = 0
        for entry in entries:
            owed = entry.owed
            size_bytes += owed.size_bytes
            if owed.serial <= self._top:
                continue
            if entry.number < self.begun or entry.released:
                self._top = owed.serial
                self._forget(owed.serial)
            elif owed.serial in self._earlier:
                self._skip(owed.serial)
            else:
                queued = self._put(owed, owed.serial, self._sent.get(owed.serial, 0))
                queued.repeated = entry.number < self._repeated_below or owed.serial <= self._sent_up_to
        self._pass()
        self._complete = len(entries) < limit and not self._outdated
        if self._complete:
            self.full_us = 0
        if entries:
            mean_bytes = max(1, size_bytes // len(entries))
            self._page = max(1, min(_PAGE, _PAGE_BYTES // mean_bytes))
        if not self._buffer and not self._complete:
            self._ask()
        return len(self._buffer) > 0

    def page_failed(self) -> None:
        """Nothing was read: the page is still wanted."""
        self._reading = False
        if self._online and not self.ended:
            self._ask()

    def confirmed(self, serials: list[int]) -> None:
        """The store has forgotten entries."""
        for serial in serials:
            self._open.pop(serial, None)
            self._done.discard(serial)

    def settled(self) -> int:
        """Nothing up to here has to be read again."""
        return min(min(self._open) - 1, self._cursor) if self._open else self._cursor

    # ---- the queue

    def append(self, messages: list[Owed]) -> int:
        """What comes here is in no outbox, as a QoS 0 message that a subscription made more of: it is not kept."""
        return len(messages)

    def read(self, after: int, limit: int) -> list[Owed]:  # noqa: ARG002 (the contract's: the cursor is here, too)
        found: list[Owed] = []
        if not self._buffer:
            if not self._complete:
                self._ask()
            return found
        for owed in self._buffer[:limit]:
            self._open[owed.serial] = None
            self._buffer_bytes -= owed.size_bytes
            self._cursor = owed.serial
            if self._sent:
                self._sent.pop(owed.serial, None)
            found.append(owed)
        del self._buffer[:limit]
        self._pass()
        if not self._buffer and not self._complete:
            self._ask()
        return found

    def at_end(self) -> bool:
        """A page that is on its way comes by itself: there is nothing to be asked for again."""
        return not self._buffer

    def acknowledge(self, serial: int) -> None:
        if serial in self._open:
            self._forget(serial)

    def release(self, serial: int) -> None:
        if serial in self._open:
            self.backend.released.setdefault(self, []).append(serial)
            self.backend.call_worker()

    def count(self) -> int:
        """An estimate: what is in memory of it."""
        return len(self._open) + len(self._buffer)

    def drop(self) -> None:
        self.ended = True
        self.offline()
        self.backend.acknowledged.pop(self, None)
        self.backend.released.pop(self, None)

    # ---- progress

    def sent(self) -> dict[int, int] | None:
        return {QUEUE_SHARD: self.settled()}

    def sent_before(self) -> list[ProgressEntry]:
        """They keep their packet ids over another restart [MQTT-4.4.0-1]."""
        if self._sent:
            self._sent = {serial: packet_id for serial, packet_id in self._sent.items() if serial > self._cursor}
        return [ProgressEntry(packet_id, 1, QUEUE_SHARD, serial) for serial, packet_id in self._sent.items()]

    def backlog_end(self) -> BacklogEnd:
        return BacklogEnd({}, _UNKNOWN_SERIAL)

    def has_sent(self, end: BacklogEnd, cursor: int) -> bool:
        """Where the backlog ends is known when the queue has been read to its end."""
        return cursor >= end.serial

    def waits(self) -> bool:
        """Whether more is on its way from the store, or has to be asked for."""
        return not self._complete

    # ---- inside

    def _skip(self, serial: int) -> None:
        """An earlier run handed it out; what that run finished, the store may have to be told."""
        self._top = serial
        if serial in self._done:
            self._forget(serial)

    def _pass(self) -> None:
        """The cursor passes what was skipped, as nothing before it waits to be handed out."""
        if not self._buffer:
            self._cursor = self._top
        if self._earlier_up_to and self._cursor >= self._earlier_up_to:
            self._earlier = set()
            self._earlier_up_to = 0

    def _put(self, owed: Owed, serial: int, packet_id: int = 0) -> OwedQueued:
        queued = OwedQueued(
            owed.message, owed.qos, retain=owed.retain, identifiers=owed.identifiers, serial=serial, packet_id=packet_id
        )
        self._buffer.append(queued)
        self._buffer_bytes += queued.size_bytes
        self._top = serial
        return queued

    def _forget(self, serial: int) -> None:
        self._open[serial] = None
        self.backend.acknowledged.setdefault(self, []).append(serial)
        self.backend.gathered += 1
        self.backend.call_worker()

    def _ask(self) -> None:
        if not self._reading and self._online and self not in self.backend.reads:
            self.backend.reads[self] = None
            self.backend.call_worker()

    def check_invariants(self) -> None:
        serials = [owed.serial for owed in self._buffer]
        assert serials == sorted(set(serials))
        assert not serials or (self._cursor < serials[0] and serials[-1] <= self._top)
        assert self._cursor <= self._top
        assert self._buffer_bytes == sum(owed.size_bytes for owed in self._buffer)
