"""A stored session as somebody looks at it who does not run it: by places in the log, without the messages.

It is read from a state of the database that does not change meanwhile. What a connected client was sent in the last
second may not be in it: progress is stored once a second.
"""

from typing import Final

from holdfast.history.reader import HistoryReader
from holdfast.records.sessions import (
    DONE,
    INFLIGHT,
    PROGRESS,
    RELEASED,
    REPLAY,
    SUBSCRIPTION,
    Progress,
    ReplayProgress,
    SessionRecord,
    StoredInflight,
    client_prefix,
    decode_progress,
    decode_replay,
    decode_session,
    decode_subscription,
    done_place,
    session_key,
    session_range,
)
from holdfast.storage.rocks.contents import SESSIONS
from holdfast.storage.rocks.layouts.scan import get_one, scan_items
from holdfast.topics.subscription import SubscriptionRecord

#: In front of the name under which a group is stored (`broker/subscriptions.py`).
_GROUP_PREFIX: Final = "\0group\0"

#: Shard and position.
Place = tuple[int, int]


class Flight:
    """A message that was sent, and what is missing for it to be done."""

    def __init__(self, packet_id: int, qos: int, *, released: bool) -> None:
        self.packet_id: Final = packet_id
        self.waits_for: Final = "PUBACK" if qos == 1 else "PUBCOMP" if released else "PUBREC"


class SessionView:
    """What is stored of one session."""

    def __init__(self, session_id: str, record: SessionRecord) -> None:
        self.session_id: Final = session_id
        self.record: Final = record
        self.subscriptions: Final[dict[bytes, SubscriptionRecord]] = {}
        self.replays: Final[dict[bytes, ReplayProgress]] = {}
        self.inflight: Final[dict[Place, Flight]] = {}
        #: Done above the progress.
        self.done: Final[set[Place]] = set()
        self.progress = Progress({}, [], 0)

    def has_passed(self, place: Place) -> bool:
        """Whether the session was sent everything up to a place, or is done with that one alone."""
        shard, position_us = place
        return place in self.done or position_us <= self.progress.sent.get(shard, 0)


def read_session(reader: HistoryReader, session_id: str) -> SessionView | None:
    """None if no such session is stored."""
    family = reader.family(SESSIONS)
    value = get_one(family, session_key(session_id))
    if value is None:
        return None
    view = SessionView(session_id, decode_session(value))
    at = len(client_prefix(session_id))
    flights: dict[int, StoredInflight] = {}
    released: set[int] = set()
    for key, stored in scan_items(family, *session_range(session_id)):
        kind = key[at]
        if kind == SUBSCRIPTION:
            view.subscriptions[key[at + 1 :]] = decode_subscription(key[at + 1 :], stored)
        elif kind == REPLAY:
            view.replays[key[at + 1 :]] = decode_replay(stored)
        elif kind == PROGRESS:
            view.progress = decode_progress(stored)
        elif kind == DONE:
            view.done.add(done_place(key))
        elif kind == INFLIGHT:
            flights[_packet_id(key)] = StoredInflight(stored)
        elif kind == RELEASED:
            released.add(_packet_id(key))
    for entry in view.progress.unacknowledged:
        if entry.qos == 1:
            view.inflight[entry.shard, entry.position_us] = Flight(entry.packet_id, 1, released=False)
    for packet_id, flight in flights.items():
        view.inflight[flight.shard, flight.position_us] = Flight(packet_id, 2, released=packet_id in released)
    return view


def read_group(reader: HistoryReader, record: SubscriptionRecord) -> SessionView | None:
    """The group of a shared subscription, which keeps its progress as a session does."""
    return read_session(reader, f"{_GROUP_PREFIX}$share/{record.filter.group}/{record.filter.inner().decode()}")


def _packet_id(key: bytes) -> int:
    return key[-2] << 8 | key[-1]
