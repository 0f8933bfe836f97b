"""Messages in flight to a client: packet ids, the window, and what to send again after a reconnect.

    QoS 1     PUBLISH ──▶ ◀── PUBACK      done
    QoS 2     PUBLISH ──▶ ◀── PUBREC      released: the content is theirs
              PUBREL  ──▶ ◀── PUBCOMP     done

A packet id is given out in turn, from 1, and never while it is in use.
"""

from typing import Final

from holdfast.model.ids import FIRST_PACKET_ID, LAST_PACKET_ID
from holdfast.model.message import ArchivedMessage, Message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued, OwedRetained
from holdfast.records.session.progress import GroupProgressWriter, ProgressWriter
from holdfast.records.session.retained_progress import RetainedPlace

#: Packet ids that are reserved at once: a restart skips them, and a fast client does not use them up within a sync.
RESERVE: Final = 16_384
UNLIMITED: Final = 1 << 62


def stop_before(message: Message, sent: dict[int, int]) -> None:
    """Lower the position of a message's shard so far that it is not passed. One that is not in the log has none."""
    before_us = message.position_us - 1
    if before_us >= 0 and sent.get(message.shard, 0) > before_us:
        sent[message.shard] = before_us


class Window:
    """Messages in flight, oldest first.

    1. At most `limit` entries are on the present connection; more can only be left over from an earlier one.
    2. Packet ids of the entries are distinct and between 1 and 65,535.
    3. `size_bytes` is the sum over the entries that are not released.
    4. `count_of(group)` is the number of entries that came through the group.
    5. What was stolen, by another member of its group, keeps its packet id and its place in the window until it is
       acknowledged or the connection ends: the client still counts it [MQTT-3.3.4-9].

    An entry is a packet id and what is owed. The two marks that few entries ever get are kept apart, so that the
    common one costs no further object.
    """

    def __init__(self) -> None:
        self._entries: Final[dict[int, Owed]] = {}
        #: QoS 2 after PUBREC: PUBREL is what is sent again. Keys alone count: a set takes three times as much as a
        #: dictionary. None if none ever was, as below: there are as many of them as sessions.
        self._released: dict[int, None] | None = None
        #: Packet ids of entries that another member of their group has got since; None if none ever was.
        self._stolen: dict[int, None] | None = None
        #: How many entries came through each group; None if none ever did.
        self._by_group: dict[str, int] | None = None
        #: Entries of an earlier connection that wait for room on this one, the oldest last; None for none.
        self._unsent: list[int] | None = None
        self._last_id = 0
        #: Packet ids given out, and how many may be before the stored counter has moved on.
        self.given = 0
        self.reserved = UNLIMITED
        self.limit = LAST_PACKET_ID
        self.limit_bytes = 1 << 62
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def room(self) -> bool:
        """Whether another message may be sent now [MQTT-3.3.4-9]."""
        return (
            len(self._entries) < self.limit
            and self.size_bytes < self.limit_bytes
            and not self._unsent
            and self.given < self.reserved
        )

    def free(self) -> int:
        """How many more entries there is room for, as far as their number goes."""
        return max(0, min(self.limit - len(self._entries), self.reserved - self.given))

    def resuming(self) -> bool:
        """Whether something of an earlier connection is still to be sent again."""
        return self._unsent is not None and len(self._unsent) > 0

    def admit(self, owed: Owed) -> int:
        """Put a message into flight; its packet id.

        Requires: room().
        """
        packet_id = self._last_id + 1
        entries = self._entries
        while packet_id > LAST_PACKET_ID or packet_id in entries:
            packet_id = FIRST_PACKET_ID if packet_id > LAST_PACKET_ID else packet_id + 1
        self._last_id = packet_id
        self.given += 1
        entries[packet_id] = owed
        self.size_bytes += owed.size_bytes
        if owed.group:
            self._count(owed.group, 1)
        return packet_id

    def admit_again(self, owed: Owed, packet_id: int) -> int:
        """The same for a message that an earlier run of the broker sent under a packet id, if that is free."""
        if packet_id in self._entries:
            return self.admit(owed)
        self._entries[packet_id] = owed
        self.size_bytes += owed.size_bytes
        return packet_id

    def runs_low(self) -> bool:
        """Whether more packet ids should be reserved."""
        return self.reserved - self.given < RESERVE // 2

    def reservation(self) -> int:
        """The packet id up to which the next `RESERVE` ids go, in their circle."""
        return (self._last_id + RESERVE - 1) % LAST_PACKET_ID + 1

    def go_on_behind(self, packet_id: int) -> None:
        """Give out ids behind this one: all up to it may have been used by an earlier run of the broker."""
        self._last_id = packet_id

    def restore(self, packet_id: int, owed: Owed, *, released: bool) -> None:
        """Put back an entry that was stored, in the order of sending."""
        self._entries[packet_id] = owed
        if owed.group:
            self._count(owed.group, 1)
        if released:
            self._release(packet_id)
        else:
            self.size_bytes += owed.size_bytes

    def acknowledge(self, packet_id: int) -> Owed | None:
        """PUBACK: it is done. None if the id is not in flight with QoS 1."""
        owed = self._entries.get(packet_id)
        if owed is None or owed.qos != 1:
            return None
        self._remove(packet_id, owed)
        return owed

    def release(self, packet_id: int) -> Owed | None:
        """PUBREC: the client has it; PUBREL is owed now. None if the id is not in flight with QoS 2."""
        owed = self._entries.get(packet_id)
        if owed is None or owed.qos != 2:
            return None
        if not self.is_released(packet_id):
            self._release(packet_id)
            self.size_bytes -= owed.size_bytes
        return owed

    def _release(self, packet_id: int) -> None:
        if self._released is None:
            self._released = {}
        self._released[packet_id] = None

    def complete(self, packet_id: int) -> Owed | None:
        """PUBCOMP, or a PUBREC that refuses: it is done. None if the id is not in flight with QoS 2."""
        owed = self._entries.get(packet_id)
        if owed is None or owed.qos != 2:
            return None
        self._remove(packet_id, owed)
        return owed

    def discard(self, packet_id: int) -> Owed | None:
        """Take an entry out whatever its state: it cannot be sent on this connection, or goes to another client."""
        owed = self._entries.get(packet_id)
        if owed is not None:
            self._remove(packet_id, owed)
        return owed

    def steal(self, packet_id: int) -> None:
        """Another member of its group gets it. A late acknowledgement is harmless."""
        if self._stolen is None:
            self._stolen = {}
        self._stolen[packet_id] = None

    def is_stolen(self, packet_id: int) -> bool:
        return self._stolen is not None and packet_id in self._stolen

    def drop_stolen(self) -> None:
        """The connection is gone: what others have got since is not sent again."""
        for packet_id in list(self._stolen or ()):
            self.discard(packet_id)

    def count_of(self, group: str) -> int:
        """How many entries came through a group, stolen ones included: the client still has them."""
        return 0 if self._by_group is None else self._by_group.get(group, 0)

    def _count(self, group: str, change: int) -> None:
        if self._by_group is None:
            self._by_group = {}
        count = self._by_group.get(group, 0) + change
        if count:
            self._by_group[group] = count
        else:
            del self._by_group[group]

    def _remove(self, packet_id: int, owed: Owed) -> None:
        del self._entries[packet_id]
        if owed.group:
            self._count(owed.group, -1)
        if self._stolen and packet_id in self._stolen:
            del self._stolen[packet_id]
        if self._unsent and packet_id in self._unsent:
            self._unsent.remove(packet_id)
        if self._released and packet_id in self._released:
            del self._released[packet_id]
        else:
            self.size_bytes -= owed.size_bytes

    def reconnected(self, limit: int) -> None:
        """A new connection with its own limit: everything is to be sent again, in order [MQTT-4.4.0-1]."""
        self.limit = limit
        self.drop_stolen()
        self._unsent = list(reversed(self._entries)) if self._entries else None

    def next_unsent(self) -> int:
        """The packet id of the next entry to send again, if the window has room for it; else 0."""
        if not self._unsent or len(self._entries) - len(self._unsent) >= self.limit:
            return 0
        return self._unsent.pop()

    def owed(self, packet_id: int) -> Owed | None:
        """What is in flight under a packet id."""
        return self._entries.get(packet_id)

    def leave_group(self, group: str) -> None:
        """What came through a group is this client's alone from now on."""
        for owed in self._entries.values():
            if owed.group == group:
                self._count(group, -1)
                owed.group = ""

    def is_released(self, packet_id: int) -> bool:
        return self._released is not None and packet_id in self._released

    def packet_ids(self) -> list[int]:
        """The packet ids of all entries, oldest first."""
        return list(self._entries)

    def write_entries(self, progress: ProgressWriter, stored_groups: tuple[str, ...] = ()) -> None:
        """Add what is in flight to the session's progress: what can be found again after a restart.

        A stored group gives out its QoS 1 messages again after a restart, to any member: they are not added.
        """
        for packet_id, owed in self._entries.items():
            if self._stolen is not None and packet_id in self._stolen:
                continue
            if stored_groups and owed.qos == 1 and owed.group in stored_groups:
                continue
            message = owed.message
            if isinstance(message, ArchivedMessage):
                # Its entry in flight has it whole, as that of a QoS 2 message: only its place in the order is needed.
                progress.add(packet_id, 2, message.shard, message.position_us)
            elif isinstance(owed, OwedQueued):
                progress.add(packet_id, owed.qos, QUEUE_SHARD, owed.serial)
            elif message.position_us or owed.qos == 2:
                progress.add(packet_id, owed.qos, message.shard, message.position_us)
            elif isinstance(owed, OwedRetained):
                progress.add_retained(packet_id, owed.qos, RetainedPlace(message.topic, owed.newest, owed.identifiers))

    def write_unacknowledged(self, group: str, progress: GroupProgressWriter) -> None:
        """Add the QoS 1 messages of a group that are in flight here to its progress.

        What was stolen is in flight to another member.
        """
        if self.count_of(group) == 0:
            return
        for packet_id, owed in self._entries.items():
            if owed.qos == 1 and owed.group == group and not self.is_stolen(packet_id):
                progress.add(owed.message.shard, owed.message.position_us)

    def check_invariants(self) -> None:
        unsent = self._unsent or []
        released = self._released or {}
        assert len(self._entries) - len(unsent) <= self.limit
        assert all(FIRST_PACKET_ID <= packet_id <= LAST_PACKET_ID for packet_id in self._entries)
        assert released.keys() <= self._entries.keys()
        assert all(self._entries[packet_id].qos == 2 for packet_id in released)
        assert all(self._entries[packet_id].qos == 1 for packet_id in self._stolen or ())
        groups = [owed.group for owed in self._entries.values() if owed.group]
        assert {group: groups.count(group) for group in groups} == (self._by_group or {})
        assert [packet_id for packet_id in self._entries if packet_id in set(unsent)] == unsent[::-1]
        kept = [owed for packet_id, owed in self._entries.items() if packet_id not in released]
        assert self.size_bytes == sum(owed.size_bytes for owed in kept)
