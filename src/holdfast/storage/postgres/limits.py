"""What a pack does to a queue that has limits: which entries are stored, under which serials, and what has to go."""

from typing import Final

from holdfast.durable.queue_store import REFUSE, Entry, QueueLimits

_SECOND_US: Final = 1_000_000


class QueueState:
    """A row of `session_context`, being changed."""

    def __init__(self, client_id: str) -> None:
        self.client_id: Final = client_id
        self.is_new = True
        self.serial = 0
        self.number = 0
        self.read = 0
        self.waiting = 0
        self.waiting_bytes = 0
        self.full = False


class Placed:
    """An entry that gets a row, and its place in the pack."""

    def __init__(self, entry: Entry, place: int, serial: int, expires_us: int) -> None:
        self.entry: Final = entry
        self.place: Final = place
        self.serial: Final = serial
        self.expires_us: Final = expires_us


class Placement:
    """What becomes of a pack, as far as limits do not concern older messages."""

    def __init__(self, state: QueueState, limits: QueueLimits) -> None:
        self.state: Final = state
        self.limits: Final = limits
        self.serials: Final[list[int]] = []
        self.stored: list[Placed] = []
        #: Places of entries that were given before: where they are has to be looked up.
        self.repeated: Final[list[int]] = []
        self.dropped = 0
        self.refused = 0

    def over(self) -> bool:
        """Whether something has to go."""
        return self.state.waiting > self.limits.max_messages or self.state.waiting_bytes > self.limits.max_bytes

    def drop_own(self) -> None:
        """The older ones of the pack itself go, until the rest fits. They have had their serials."""
        first = 0
        while first < len(self.stored) and self.over():
            going = self.stored[first]
            self.serials[going.place] = 0
            self.state.waiting -= 1
            self.state.waiting_bytes -= going.entry.owed.size_bytes
            self.dropped += 1
            first += 1
        del self.stored[:first]


def place(state: QueueState, entries: list[Entry], limits: QueueLimits, now_us: int, bad: set[int]) -> Placement:
    """Give the entries their serials. `bad` are places of those that cannot be stored."""
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
        expires_us = expiry(entry, limits)
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
        placement.stored.append(Placed(entry, index, state.serial, expires_us))
    return placement


def expiry(entry: Entry, limits: QueueLimits) -> int:
    """Its own, or the queue's; 0 for never."""
    if entry.expires_us or not limits.ttl_s:
        return entry.expires_us
    return entry.message.received_us + limits.ttl_s * _SECOND_US


def is_tight(state: QueueState, entries: list[Entry], limits: QueueLimits) -> bool:
    """Whether a pack may meet a limit, or a queue that is full: then what has expired has to go first."""
    size_bytes = sum(entry.owed.size_bytes for entry in entries)
    return (
        state.full
        or state.waiting + len(entries) > limits.max_messages
        or state.waiting_bytes + size_bytes > limits.max_bytes
    )
