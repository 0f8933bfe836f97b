"""Stored sessions, read beside the broker: positions in the log, without the messages.

They are read from one state of the database. What a connected client was sent in the last second may be missing:
progress follows the messages, within a second at the latest.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.records.session.progress import Progress, decode_progress
from holdfast.records.session.session_keys import (
    INCOMING,
    INFLIGHT,
    PACKET_KINDS,
    PROGRESS,
    RELEASED,
    REPLAY,
    SESSION,
    SUBSCRIPTION,
    client_prefix,
    session_range,
)
from holdfast.records.session.session_record import SessionRecord, decode_session
from holdfast.records.session.sessions import (
    ReplayProgress,
    StoredInflight,
    decode_replay,
    decode_subscription,
    slot_of,
)
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.topics.subscription import SubscriptionRecord

#: Where the name of a session begins in its keys.
_NAME_AT: Final = len(client_prefix(""))

#: Shard and position.
Place = tuple[int, int]


class Flight:
    """A message in flight, and the acknowledgement it waits for."""

    def __init__(self, packet_id: int, qos: int, *, released: bool) -> None:
        self.packet_id: Final = packet_id
        self.qos: Final = qos
        self.waits_for: Final = "PUBACK" if qos == 1 else "PUBCOMP" if released else "PUBREC"


class SessionView:
    """The records of one session."""

    def __init__(self, session_id: str, record: SessionRecord) -> None:
        self.session_id: Final = session_id
        self.record: Final = record
        self.subscriptions: Final[dict[bytes, SubscriptionRecord]] = {}
        self.replays: Final[dict[bytes, ReplayProgress]] = {}
        self.inflight: Final[dict[Place, Flight]] = {}
        #: Messages in flight that have no place in the log: retained ones, and those of zones that are not stored.
        self.placeless: Final[list[Flight]] = []
        #: Packet ids of QoS 2 messages of the client that it has not released yet.
        self.incoming: Final[set[int]] = set()
        #: Acknowledged above the progress.
        self.done: Final[set[Place]] = set()
        self.progress = Progress({}, [], 0)

    @property
    def group(self) -> str:
        """`$share/…` if it is the record of a shared group, which is stored like a session; else empty."""
        return self.session_id[len(GROUP_PREFIX) :] if self.session_id.startswith(GROUP_PREFIX) else ""

    def has_passed(self, place: Place) -> bool:
        """Whether the session was sent all messages up to a position, or has acknowledged that one."""
        return place in self.done or self.progress.is_done(*place)


def read_session(reader: HistoryReader, session_id: str) -> SessionView | None:
    """The stored session; None if there is none."""
    items = reader.rows(SESSIONS, *session_range(session_id))
    return _view(session_id, items, len(client_prefix(session_id)))


def scan_sessions(reader: HistoryReader, lo: bytes, hi: bytes) -> Iterator[SessionView]:
    """The sessions and groups whose keys are in [lo, hi), which divides none."""
    for prefix, items in groupby(reader.rows(SESSIONS, lo, hi), key=lambda item: owner_of(item[0])):
        view = _view(prefix[_NAME_AT:].decode(errors="replace"), items, len(prefix))
        if view is None:
            raise PermanentError(f"{prefix!r} has stored records and no session; run: holdfast verify")
        yield view


def owner_of(key: bytes) -> bytes:
    """The common prefix of all keys of a session."""
    return key[: _NAME_AT + int.from_bytes(key[1:_NAME_AT], "big")]


def read_group(reader: HistoryReader, record: SubscriptionRecord) -> SessionView | None:
    """The group of a shared subscription, which keeps its progress as a session does."""
    return read_session(reader, f"{GROUP_PREFIX}$share/{record.filter.group}/{record.filter.inner().decode()}")


def _view(session_id: str, items: Iterable[tuple[bytes, bytes]], at: int) -> SessionView | None:
    """Build the view from the records of one session; `at` is the index of the kind in their keys."""
    view: SessionView | None = None
    flights: dict[int, StoredInflight] = {}
    released: set[int] = set()
    for key, stored in items:
        kind = key[at]
        if kind == SESSION:
            view = SessionView(session_id, decode_session(stored))
        elif view is None:
            return None
        elif kind == SUBSCRIPTION:
            view.subscriptions[key[at + 1 :]] = decode_subscription(key[at + 1 :], stored)
        elif kind == REPLAY:
            view.replays[key[at + 1 :]] = decode_replay(stored)
        elif kind == PROGRESS:
            view.progress = decode_progress(stored)
        elif kind in PACKET_KINDS:
            slot = slot_of(kind, key, stored)
            if slot.kind == INFLIGHT and slot.stored is not None:
                flights[slot.packet_id] = slot.stored
            elif slot.kind == RELEASED:
                released.add(slot.packet_id)
            elif slot.kind == INCOMING:
                view.incoming.add(slot.packet_id)
            else:
                view.done.add(slot.place)
    if view is not None:
        _add_flights(view, flights, released)
    return view


def _add_flights(view: SessionView, flights: dict[int, StoredInflight], released: set[int]) -> None:
    for entry in view.progress.unacknowledged:
        if entry.qos == 1:
            _add_flight(view, (entry.shard, entry.position_us), Flight(entry.packet_id, 1, released=False))
    for packet_id, stored in flights.items():
        flight = Flight(packet_id, stored.qos, released=packet_id in released)
        _add_flight(view, (stored.shard, stored.position_us), flight)


def _add_flight(view: SessionView, place: Place, flight: Flight) -> None:
    if place[1]:
        view.inflight[place] = flight
    else:
        view.placeless.append(flight)
