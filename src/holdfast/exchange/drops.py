"""What was dropped, refused or ended: counted by reason, and noted as an event, so that it can be explained.

    drop, note ─▶ open: one event for each reason, client, topic and shard ─ after a second ─▶ recent ─▶ take

1. Nothing here runs for a message that arrives. A flood costs a dictionary lookup for each message of it.
2. In one second each reason has at most `MAX_KINDS` events; what comes beyond is one more, without client and topic.
3. `recent` holds the newest `KEPT` events. A store may take them, once a second.
"""

from collections import deque
from typing import Final

from holdfast.model.message import Message
from holdfast.records.events import MAX_DETAIL_BYTES, MAX_NAME_BYTES, Event, cut

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
DROP_PURGED: Final = "purged"  # of a session that reads the log at most so many
DROP_NOT_RELAYED: Final = "not_relayed"  # QoS 0 that did not reach the other nodes of the cluster

# What is no message that was dropped, but explains why messages did not come. On disk and in commands: never change.
CONNECT_REFUSED: Final = "connect_refused"
SUBSCRIBE_REFUSED: Final = "subscribe_refused"
DISCONNECTED: Final = "disconnected"
TAKEOVER: Final = "takeover"
DAMAGED: Final = "damaged"
QUEUES_AWAY: Final = "queues_away"
QUEUES_BACK: Final = "queues_back"
ERASED: Final = "erased"
NOT_STORED: Final = "not_stored"
LAKE_AWAY: Final = "lake_away"

#: Every reason, and its description.
REASONS: Final = {
    DROP_DENIED: "the access rules do not allow it",
    DROP_EXPIRED: "its expiry interval had passed",
    DROP_NO_MEMBER: "no member of the group was there to take it",
    DROP_NO_ROOM: "the disk had no room for it",
    DROP_PAYLOAD: "it claimed to be UTF-8 text and was not",
    DROP_QUEUE: "the client's queue was full: the oldest went",
    DROP_QUOTA: "the client's queue was full, and takes nothing until it has been read",
    DROP_AWAY: "the backend of a client's queue did not answer",
    DROP_NOT_RELAYED: "QoS 0, and the other nodes of the cluster could not be reached",
    DROP_PURGED: "an administrator emptied the client's queue",
    DROP_UNREADABLE: "the client's queue could not be used",
    DROP_REFUSED: "the client answered with a reason of failure",
    DROP_RETAINED: "there are as many retained messages as may be",
    DROP_RETENTION: "retention removed it before the session came to it",
    DROP_SESSION_ENDED: "the session ended, and what it was owed with it",
    DROP_SLOW: "QoS 0, while the client did not read what it was sent",
    DROP_TOO_LARGE: "it is larger than the client takes",
    CONNECT_REFUSED: "a connection was refused",
    SUBSCRIBE_REFUSED: "a subscription was refused",
    DISCONNECTED: "the broker ended a connection",
    TAKEOVER: "a newer connection took the session over",
    DAMAGED: "stored data was damaged, and set aside",
    QUEUES_AWAY: "a queue backend does not answer",
    QUEUES_BACK: "a queue backend answers again",
    NOT_STORED: "the disk had no room: messages were delivered and not stored",
    LAKE_AWAY: "the lake could not be read: a replay went on with what the log has",
    ERASED: "messages were erased on purpose, and are not shown any more",
}

#: Events of one reason in one second.
MAX_KINDS: Final = 100
KEPT: Final = 2000
_WINDOW_US: Final = 1_000_000


class Counters:
    """Totals since the start. Plain attributes, because they are counted once per message."""

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
        #: Events that were begun, by reason: what repeats within a second is one.
        self.events: Final[dict[str, int]] = {}
        #: Connections and requests that were refused, by reason code.
        self.refusals: Final[dict[int, int]] = {}
        #: Connections that failed before they spoke MQTT: at their PROXY header, TLS or WebSocket handshake.
        self.handshakes_failed: Final[dict[str, int]] = {}

    def drop(self, why: str, count: int = 1) -> None:
        if count:
            self.drops[why] = self.drops.get(why, 0) + count

    def begin_event(self, reason: str) -> None:
        self.events[reason] = self.events.get(reason, 0) + 1

    def refuse(self, reason: int) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def fail_handshake(self, event: str) -> None:
        self.handshakes_failed[event] = self.handshakes_failed.get(event, 0) + 1


class Drops:
    """All of it, for one broker."""

    def __init__(self) -> None:
        self.counters: Final = Counters()
        self._open: dict[tuple[str, str, bytes, int], Event] = {}
        self._kinds: dict[str, int] = {}
        self._began_us = 0
        self.recent: Final[deque[Event]] = deque(maxlen=KEPT)
        self._untaken = 0

    def drop(self, why: str, client: str, message: Message, now_us: int, detail: str = "") -> None:
        """A message did not reach a client, or was not taken from one."""
        self.counters.drop(why)
        self.note(why, client, message.topic, now_us, 1, message.shard, message.position_us, detail)

    def lose(self, why: str, client: str, count: int, now_us: int, detail: str = "") -> None:
        """The same for messages that are not at hand."""
        if count:
            self.counters.drop(why, count)
            self.note(why, client, b"", now_us, count, 0, 0, detail)

    def note(
        self,
        reason: str,
        client: str,
        topic: bytes,
        now_us: int,
        count: int = 1,
        shard: int = 0,
        position_us: int = 0,
        detail: str = "",
    ) -> Event:
        """Note an event, and count nothing."""
        if now_us - self._began_us >= _WINDOW_US or now_us < self._began_us:
            self.close_window()
            self._began_us = now_us
        key = (reason, client, topic, shard)
        event = self._open.get(key)
        if event is None and self._kinds.get(reason, 0) >= MAX_KINDS:
            key = (reason, "", b"", 0)
            event = self._open.get(key)
            if event is None:
                self.counters.begin_event(reason)
                event = self._open[key] = Event(now_us, reason, "", "", count=0, detail="and others in this second")
        if event is None:
            self._kinds[reason] = self._kinds.get(reason, 0) + 1
            self.counters.begin_event(reason)
            event = self._open[key] = Event(
                now_us,
                reason,
                cut(client, MAX_NAME_BYTES),
                cut(topic.decode(errors="replace"), MAX_NAME_BYTES),
                shard=shard,
                from_us=position_us,
                to_us=position_us,
                count=0,
                detail=cut(detail, MAX_DETAIL_BYTES),
            )
        event.count += count
        if position_us and event.from_us:
            event.from_us = min(event.from_us, position_us)
            event.to_us = max(event.to_us, position_us)
        return event

    def close_window(self) -> None:
        """What was open is done: whatever follows is another event."""
        if self._open:
            self.recent.extend(self._open.values())
            self._untaken += len(self._open)
            self._open = {}
            self._kinds = {}

    def take(self) -> list[Event]:
        """What was noted since the last time, the oldest first, as far as it is kept."""
        self.close_window()
        count = min(self._untaken, len(self.recent))
        self._untaken = 0
        return list(self.recent)[len(self.recent) - count :] if count else []
