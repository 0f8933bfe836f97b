"""What was in flight when a session was stored, with its messages: from its own records, or from the log.

1. What retention removed, or was erased, is not sent again. With QoS 2 after PUBREC its packet id is still needed.
2. What is stored whole and was erased does not stay: `StoredSession.erased` has the steps that remove it.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

import structlog

from holdfast.durable.sessions.session_store import DropInflight, KeepInflight, StoredSession
from holdfast.model.ids import ClientId
from holdfast.model.message import Message, archived_message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued
from holdfast.records.session.sessions import StoredInflight
from holdfast.topics.names import SEPARATOR

_log = structlog.get_logger()

#: The message at a place in the log that a filter matches; None if it is gone.
Find = Callable[[int, tuple[bytes, ...], int], Message | None]
#: The message that is retained under a topic, if it is the one that a change, or one before it, has left there.
FindRetained = Callable[[bytes, int], Message | None]
#: Told of a message in flight that is gone: the client, and its place in the log.
Gone = Callable[[str, int, int], None]
#: Whether a message is erased: its place in the log, its topic and its publisher.
Hides = Callable[[int, int, bytes, str], bool]

#: Filters that are tried one by one to find a message, before everything is looked through.
_MAX_FILTERS: Final = 8
#: In place of a message that is gone, where only its packet id is needed.
_GONE: Final = Message(b"gone", b"", 2, ClientId(""), 0)


class InflightFinder:
    """Finds the messages of sessions that are loaded."""

    def __init__(self, find: Find, find_retained: FindRetained, gone: Gone | None, hides: Hides | None) -> None:
        """`hides` is asked for messages that sessions have whole; `find` leaves erased ones out itself."""
        self._find: Final = find
        self._find_retained: Final = find_retained
        self._gone: Final = gone
        self._hides: Final = hides
        #: Messages that were gone when they were needed again.
        self.missing = 0

    def find(self, client_id: str, session: StoredSession, inflight: list[tuple[int, StoredInflight]]) -> None:
        """Fill in what was in flight. Requires: everything else of the session is there."""
        self._put_in_order(client_id, session, inflight)
        self._find_unacknowledged(client_id, session)

    def _put_in_order(self, client_id: str, session: StoredSession, inflight: list[tuple[int, StoredInflight]]) -> None:
        """Entries in the order of sending. What is gone cannot be sent again, unless PUBREL is due."""
        for packet_id, stored in sorted(inflight, key=lambda entry: entry[1].order):
            session.last_order = stored.order
            released = packet_id in session.released
            if self._is_erased(stored):
                if released:
                    # At its place, and without anything of it.
                    owed = Owed(archived_message(_GONE, stored.shard, stored.position_us), 2)
                    session.inflight[packet_id] = owed
                    session.erased.append(KeepInflight(client_id, packet_id, owed, stored.order))
                else:
                    session.erased.append(DropInflight(client_id, packet_id, 0, 0))
                    self._miss(client_id, packet_id, stored.shard, stored.position_us)
                continue
            found = self._owed(stored)
            if found is not None:
                session.inflight[packet_id] = found
            elif released:
                session.inflight[packet_id] = stored.owed(_GONE) if stored.revision else Owed(_GONE, 2)
            else:
                self._miss(client_id, packet_id, stored.shard, stored.position_us)

    def _is_erased(self, stored: StoredInflight) -> bool:
        """Whether it is stored whole, and no reader of the log is shown it any more."""
        message = stored.message
        if message is None or self._hides is None or not stored.position_us or stored.shard == QUEUE_SHARD:
            return False
        return self._hides(stored.shard, stored.position_us, message.topic, message.publisher)

    def _owed(self, stored: StoredInflight) -> Owed | None:
        """What is in flight; None if retention has removed it."""
        if stored.shard == QUEUE_SHARD and stored.message is not None:
            return OwedQueued(
                stored.message, 2, retain=stored.retain, identifiers=stored.identifiers, serial=stored.position_us
            )
        levels = tuple(stored.topic.split(SEPARATOR))
        message = stored.message or self._find(stored.shard, levels, stored.position_us)
        if message is None:
            return None
        return stored.owed(message)

    def _find_unacknowledged(self, client_id: str, session: StoredSession) -> None:
        """Messages of QoS 1 that were sent and not acknowledged, as far as retention has left them."""
        if session.progress is None:
            return
        # The subscription may be gone; then everything is looked through.
        different = {record.filter.levels: None for record in islice(session.subscriptions.values(), _MAX_FILTERS)}
        filters = list(different)
        for entry in session.progress.unacknowledged:
            if entry.qos == 2 or entry.shard == QUEUE_SHARD:
                continue  # what lies in a queue comes from there
            if entry.retained is not None:
                # Gone is as it should be: what has taken its place comes as a live message.
                retained = self._find_retained(entry.retained.topic, entry.retained.newest)
                if retained is not None:
                    session.unacknowledged[entry.packet_id] = retained
                continue
            for levels in [*filters, ()]:
                message = self._find(entry.shard, levels, entry.position_us)
                if message is not None:
                    session.unacknowledged[entry.packet_id] = message
                    break
            else:
                self._miss(client_id, entry.packet_id, entry.shard, entry.position_us)

    def _miss(self, client_id: str, packet_id: int, shard: int, position_us: int) -> None:
        self.missing += 1
        _log.warning("a message in flight is gone", client=client_id, packet_id=packet_id)
        if self._gone is not None:
            self._gone(client_id, shard, position_us)
