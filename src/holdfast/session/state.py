"""A session: what the broker keeps for one client across connections. Rules only, no I/O.

    begun ──CONNECT──▶ connected ──lost──▶ waiting ──CONNECT──▶ connected …
                                             └──expiry──▶ ended

MQTT 3 says "clean session" where MQTT 5 says "clean start" plus an expiry interval. Here everything is an
interval: 0 ends the session with its connection, NEVER keeps it.
"""

from typing import Final

from holdfast.model.errors import PeerError
from holdfast.model.protocol import MAX_U32, V5
from holdfast.model.reasons import PROTOCOL_ERROR
from holdfast.model.will import StoredWill
from holdfast.records.session.assignments import DoneAssignments
from holdfast.records.session.session_record import SessionRecord
from holdfast.session.inflight import Window
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.packets import Connect

#: A session expiry interval that never passes [MQTT-3.1.2-23].
NEVER: Final = MAX_U32


class SessionState:
    """Everything of a session that outlives a connection.

    1. `incoming` holds packet ids of QoS 2 messages that were taken and not released yet.
    2. `disconnected_us` is 0 while a client is connected.
    """

    def __init__(self, client_id: str) -> None:
        self.client_id: Final = client_id
        #: The user whose it is, empty for a client without a user name; None if an earlier version began it.
        self.user: str | None = None
        #: Whether the last `publish-number` of its messages is its user's alone, and not one for all of its client id.
        self.own_numbers = False
        #: In a cluster: the revision of the claim that began it. 0 if that is not known.
        self.revision = 0
        self.expiry_s = 0
        self.disconnected_us = 0
        self.subscriptions: Final[dict[bytes, SubscriptionRecord]] = {}
        self.window: Final = Window()
        #: Keys alone count, as in the window: a set would take three times as much. None for none.
        self.incoming: dict[int, None] | None = None
        #: In a cluster, by the vnode of groups: which of their assignments are done. None for none, or not here yet.
        self.assignments: dict[int, DoneAssignments] | None = None
        #: The record of it that is stored, or about to be; it has to go when the session ends.
        self.record: SessionRecord | None = None
        self._order = 0

    def persistent(self) -> bool:
        """Whether it outlives its connection."""
        return self.expiry_s > 0

    def take(self, packet_id: int) -> None:
        """A QoS 2 message was taken under a packet id."""
        if self.incoming is None:
            self.incoming = {}
        self.incoming[packet_id] = None

    def release(self, packet_id: int) -> bool:
        """PUBREL came for a packet id; whether a message was taken under it."""
        if self.incoming is None or packet_id not in self.incoming:
            return False
        del self.incoming[packet_id]
        return True

    def next_order(self) -> int:
        """A number above all that were given out before, for what has to be found again in the order of sending."""
        self._order += 1
        return self._order

    def order_behind(self, order: int) -> None:
        """Go on behind the numbers that an earlier connection gave out, as far as one of them is still stored."""
        self._order = max(self._order, order)

    def ends_us(self) -> int:
        """Wall time at which a waiting session ends; -1 if it never does, or is connected."""
        if self.disconnected_us == 0 or self.expiry_s == NEVER:
            return -1
        return self.disconnected_us + self.expiry_s * 1_000_000

    def check_invariants(self) -> None:
        self.window.check_invariants()
        assert all(record.filter.raw == raw for raw, record in self.subscriptions.items())
        assert all(1 <= packet_id <= 65_535 for packet_id in self.incoming or ())


def expiry_asked(connect: Connect, most_s: int) -> int:
    """The session expiry interval a CONNECT asks for, in seconds, within the server's maximum."""
    if connect.version != V5:
        return 0 if connect.clean_start else min(NEVER, most_s)
    return min(connect.properties.session_expiry_interval or 0, most_s)


def expiry_at_disconnect(session: SessionState, asked_s: int | None, most_s: int) -> int:
    """The interval after a DISCONNECT that may change it."""
    if asked_s is None:
        return session.expiry_s
    if session.expiry_s == 0 and asked_s > 0:
        raise PeerError(PROTOCOL_ERROR, "DISCONNECT may not give an expiry to a session that began with 0")
    return min(asked_s, most_s)


def will_delay_s(will: StoredWill, expiry_s: int) -> int:
    """How long to wait before publishing the will: its delay, or the end of the session if that comes first."""
    return min(will.delay_s, expiry_s)  # [MQTT-3.1.3-9]
