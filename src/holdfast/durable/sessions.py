"""Sessions as they are stored: small records, so that a step rewrites one of them and not the session.

    session         expiry, connected or since when not, will
    subscription    one per filter
    in flight       one per outgoing QoS 2 packet id: stored before its PUBLISH is sent
    incoming        one per QoS 2 packet id that was taken and not released: stored with its message

A session is changed by steps. Steps go into the batch under way, together with the messages that caused them, and
are stored when it is: there is no other way to write. Sessions that end with their connection leave no steps,
except for a will, which has to outlive the broker.
"""

from typing import Final, Protocol

from holdfast.model.owed import Owed
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.packets import Will


class SessionRecord:
    """What is kept of a session besides its lists. Never changes; a step replaces it."""

    def __init__(
        self, *, expiry_s: int, disconnected_us: int, will: Will | None = None, will_mount: bytes = b""
    ) -> None:
        self.expiry_s: Final = expiry_s
        #: Wall time at which its last connection ended; 0 while it has one.
        self.disconnected_us: Final = disconnected_us
        #: To be published unless the client says goodbye or is back in time, and what stands in front of its topic.
        self.will: Final = will
        self.will_mount: Final = will_mount

    def _fields(self) -> tuple[int, int, Will | None, bytes]:
        return (self.expiry_s, self.disconnected_us, self.will, self.will_mount)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionRecord) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"SessionRecord(expiry_s={self.expiry_s}, disconnected_us={self.disconnected_us}, will={self.will!r})"


class StoredSession:
    """A session as it was stored last."""

    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.subscriptions: Final[dict[bytes, SubscriptionRecord]] = {}
        #: Outgoing QoS 2 by packet id, in the order of sending, and those of them that PUBREC has come for.
        self.inflight: Final[dict[int, Owed]] = {}
        self.released: Final[set[int]] = set()
        self.incoming: Final[set[int]] = set()


# ---- steps


class Step:
    """One change of one session."""

    def __init__(self, client_id: str) -> None:
        self.client_id: Final = client_id


class KeepSession(Step):
    """Store the session itself; what it has stays."""

    def __init__(self, client_id: str, record: SessionRecord) -> None:
        super().__init__(client_id)
        self.record: Final = record


class DropSession(Step):
    """Everything of the session goes."""


class KeepSubscription(Step):
    """Add or replace a subscription."""

    def __init__(self, client_id: str, record: SubscriptionRecord) -> None:
        super().__init__(client_id)
        self.record: Final = record


class DropSubscription(Step):
    """Remove a subscription."""

    def __init__(self, client_id: str, raw: bytes) -> None:
        super().__init__(client_id)
        self.raw: Final = raw


class PacketStep(Step):
    """A step that concerns one packet id."""

    def __init__(self, client_id: str, packet_id: int) -> None:
        super().__init__(client_id)
        self.packet_id: Final = packet_id


class KeepInflight(PacketStep):
    """A QoS 2 message is about to be sent."""

    def __init__(self, client_id: str, packet_id: int, owed: Owed) -> None:
        super().__init__(client_id, packet_id)
        self.owed: Final = owed


class ReleaseInflight(PacketStep):
    """PUBREC came: from now on PUBREL is what is sent again."""


class DropInflight(PacketStep):
    """It is done."""


class KeepIncoming(PacketStep):
    """A QoS 2 message was taken under this packet id."""


class DropIncoming(PacketStep):
    """PUBREL came: the packet id may be used again."""


class SessionStore(Protocol):
    """Sessions, as of the last batch that was written.

    1. A subscription, an entry in flight or an incoming id belongs to a session that is stored.
    """

    def load(self, client_id: str) -> StoredSession | None:
        """The session of a client id; None if none is stored. The caller may keep and change what it gets."""
        ...

    def expiring(self, before_us: int, limit: int) -> list[str]:
        """Client ids of sessions without a connection that end before a moment, soonest first."""
        ...

    def connected(self, after: str, limit: int) -> list[str]:
        """Client ids above `after` of sessions that are stored as connected, in order: who was here at a crash."""
        ...

    def count(self) -> int:
        """How many are stored."""
        ...
