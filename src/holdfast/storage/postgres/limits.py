"""Limits of a queue: which entries of a batch are stored, with which serials, and what is dropped. No I/O."""

from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from holdfast.durable.queues.queue_store import REFUSE, QueueEntry, QueueLimits


@dataclass
class PostgresQueueState:
    """A row of `session_context`, being changed; fields in the order of `statements.STATE`."""

    client_id: str
    serial: int = 0
    number: int = 0
    read: int = 0
    waiting: int = 0
    waiting_bytes: int = 0
    full: bool = False
    _: KW_ONLY
    is_new: bool = True


class PlacedEntry(NamedTuple):
    """An entry that gets a row, and its index in the batch."""

    entry: QueueEntry
    place: int
    serial: int
    expires_us: int


class Placement:
    """The result of placing a batch, before older messages are dropped."""

    def __init__(self, state: PostgresQueueState, limits: QueueLimits) -> None:
        self.state: Final = state
        self.limits: Final = limits
        self.serials: Final[list[int]] = []
        self.stored: list[PlacedEntry] = []
        #: Indexes of entries that were stored before: their serials must be looked up.
        self.repeated: Final[list[int]] = []
        self.dropped = 0
        self.refused = 0

    def over(self) -> bool:
        """Whether messages must be dropped."""
        return self.state.waiting > self.limits.max_messages or self.state.waiting_bytes > self.limits.max_bytes

    def drop_own(self) -> None:
        """Drop the oldest entries of the batch itself until the rest fits. Their serials stay used."""
        first = 0
        while first < len(self.stored) and self.over():
            going = self.stored[first]
            self.serials[going.place] = 0
            self.state.waiting -= 1
            self.state.waiting_bytes -= going.entry.owed.size_bytes
            self.dropped += 1
            first += 1
        del self.stored[:first]


def place(
    state: PostgresQueueState, entries: list[QueueEntry], limits: QueueLimits, now_us: int, bad: set[int]
) -> Placement:
    """Give the entries their serials. `bad` are indexes of those that cannot be stored."""
    placement = Placement(state, limits)
    refusing = limits.on_full == REFUSE
    if not state.waiting:
        state.full = False
    for index, entry in enumerate(entries):
        placement.serials.append(0)
        if entry.number <= state.number:
            placement.repeated.append(index)
            continue
        state.number = entry.number
        expires_us = limits.expiry_us(entry.message, entry.expires_us)
        if index in bad or 0 < expires_us <= now_us:
            continue
        size_bytes = entry.owed.size_bytes
        if refusing:
            no_room = state.waiting >= limits.max_messages or state.waiting_bytes + size_bytes > limits.max_bytes
            if state.full or no_room:
                state.full = True
                placement.refused += 1
                continue
        state.serial += 1
        state.waiting += 1
        state.waiting_bytes += size_bytes
        placement.serials[index] = state.serial
        placement.stored.append(PlacedEntry(entry, index, state.serial, expires_us))
    return placement


def is_tight(state: PostgresQueueState, entries: list[QueueEntry], limits: QueueLimits) -> bool:
    """Whether a batch may reach a limit or the queue is full: then expired messages are removed first."""
    size_bytes = sum(entry.owed.size_bytes for entry in entries)
    return (
        state.full
        or state.waiting + len(entries) > limits.max_messages
        or state.waiting_bytes + size_bytes > limits.max_bytes
    )
