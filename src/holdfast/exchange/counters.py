"""What happened, in numbers. Plain attributes, because they are counted once per message."""

from typing import Final

# Why something was not delivered or not taken. These are metric labels: never change them.
DROP_SLOW: Final = "slow_client"  # QoS 0 while the client's send buffer was full
DROP_QUEUE: Final = "queue_full"
DROP_EXPIRED: Final = "expired"
DROP_TOO_LARGE: Final = "packet_too_large"
DROP_DENIED: Final = "denied"
DROP_NO_MEMBER: Final = "no_group_member"
DROP_SESSION_ENDED: Final = "session_ended"
DROP_REFUSED: Final = "refused_by_client"
DROP_RETAINED: Final = "retained_full"
DROP_RETENTION: Final = "retention"  # at most so many: removed before their session came to them
DROP_NO_ROOM: Final = "no_room_to_store"
DROP_PAYLOAD: Final = "payload_not_utf8"
DROP_QUOTA: Final = "quota"
DROP_UNREADABLE: Final = "queue_unreadable"
DROP_AWAY: Final = "queue_away"


class Counters:
    """Totals since the start."""

    def __init__(self) -> None:
        self.messages_in = 0
        self.messages_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.packets_in = 0
        #: Connections that were accepted as sockets, and CONNECT packets that came over them.
        self.sockets = 0
        self.connects = 0
        self.batches = 0
        #: Numbered messages that came again, and were acknowledged and not taken.
        self.repeated = 0
        #: Messages of groups that rested too long with one member, and were given to another.
        self.stolen = 0
        #: Messages that were taken and delivered, though there was no room to store them.
        self.not_stored = 0
        #: Messages that did not reach a client, by reason.
        self.drops: Final[dict[str, int]] = {}
        #: Connections and requests that were refused, by reason code.
        self.refusals: Final[dict[int, int]] = {}

        #: Connections that failed before they spoke MQTT: at their PROXY header, TLS or WebSocket handshake.
        self.handshakes_failed: Final[dict[str, int]] = {}

    def drop(self, why: str, count: int = 1) -> None:
        if count:
            self.drops[why] = self.drops.get(why, 0) + count

    def refuse(self, reason: int) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def fail_handshake(self, event: str) -> None:
        self.handshakes_failed[event] = self.handshakes_failed.get(event, 0) + 1
