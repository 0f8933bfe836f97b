"""Admission of the HTTP server: which connections are open, which have a slot, and which have to be closed.

    accepted ──▶ waiting ──head is whole, token is known──▶ answering ──▶ waiting for the next request, or closed
                 a place                                    a place and a slot

1. A waiting connection has a place and no slot. Its TLS handshake and its head must be complete by its deadline, which
   no received byte extends.
2. There are more places than slots, so a new connection always gets one: if none is free, a waiting connection is
   closed for it, the oldest of the address that has the most.
3. A slot belongs to a request that may be answered, and an address has at most `slots_per_address` of them.

It knows no socket and no clock: connections are any objects, and the time is asked for.
"""

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, TypeVar

#: Seconds from the connection to the end of its first head, TLS included.
HEAD_S: Final = 10.0
#: Seconds from one response to the end of the head of the next request.
KEEP_ALIVE_S: Final = 30.0
#: Places beyond the slots, for connections that wait and requests that need no slot.
SPARE_PLACES: Final = 64

Connection = TypeVar("Connection", bound=Hashable)


class SlotDecision(Enum):
    """Whether a request gets a slot."""

    GRANTED = auto()
    ALL_TAKEN = auto()
    ADDRESS_FULL = auto()


class _Place:
    def __init__(self, address: str, deadline_s: float) -> None:
        self.address: Final = address
        #: Until when it may wait; None while it has a slot.
        self.deadline_s: float | None = deadline_s
        self.is_overdue = False


class HttpAdmission(Generic[Connection]):
    """May be used from any thread."""

    def __init__(self, slots: int, slots_per_address: int, now_s: Callable[[], float]) -> None:
        self.slots: Final = slots
        self.slots_per_address: Final = slots_per_address
        self._now_s: Final = now_s
        self._lock: Final = threading.Lock()
        #: The oldest first.
        self._places: Final[dict[Connection, _Place]] = {}

    def enter(self, connection: Connection, address: str) -> Connection | None:
        """Give a new connection a place. Returns the connection that lost its place and has to be closed, if any."""
        with self._lock:
            displaced = None
            if len(self._places) >= self.slots + SPARE_PLACES:
                displaced = self._displaced()
                del self._places[displaced]
            self._places[connection] = _Place(network_of(address), self._now_s() + HEAD_S)
            return displaced

    def begin(self, connection: Connection) -> SlotDecision:
        """The head of a request is complete and its token is right. After GRANTED, call `end`."""
        with self._lock:
            answering = [place for place in self._places.values() if place.deadline_s is None]
            place = self._places.get(connection)
            if place is None or len(answering) >= self.slots:
                return SlotDecision.ALL_TAKEN
            if sum(other.address == place.address for other in answering) >= self.slots_per_address:
                return SlotDecision.ADDRESS_FULL
            place.deadline_s = None
            return SlotDecision.GRANTED

    def end(self, connection: Connection) -> None:
        """A request was answered, with a slot or without; the next one may come."""
        with self._lock:
            place = self._places.get(connection)
            if place is not None:
                place.deadline_s = self._now_s() + KEEP_ALIVE_S

    def leave(self, connection: Connection) -> None:
        with self._lock:
            self._places.pop(connection, None)

    def overdue(self) -> list[Connection]:
        """Connections whose head is not complete in time; each is returned once."""
        now_s = self._now_s()
        with self._lock:
            found = []
            for connection, place in self._places.items():
                if place.deadline_s is not None and place.deadline_s <= now_s and not place.is_overdue:
                    place.is_overdue = True
                    found.append(connection)
            return found

    def is_overdue(self, connection: Connection) -> bool:
        with self._lock:
            place = self._places.get(connection)
            return place is not None and place.is_overdue

    def answering(self) -> int:
        """The number of slots in use."""
        with self._lock:
            return sum(place.deadline_s is None for place in self._places.values())

    def _displaced(self) -> Connection:
        waiting = {key: place for key, place in self._places.items() if place.deadline_s is not None}
        counts = Counter(place.address for place in waiting.values())
        most = max(counts.values())
        return next(key for key, place in waiting.items() if counts[place.address] == most)


def network_of(address: str) -> str:
    """What counts as one address: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))
