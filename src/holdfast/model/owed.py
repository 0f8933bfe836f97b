"""A message owed to one client: what a queue keeps, and what goes into flight."""

from typing import Final

from holdfast.model.message import Message


class Owed:
    """A message and how this client is to get it. The options are those of the moment it was matched.

    1. `qos` is what the client gets: 1 or 2 in a queue, never 0.
    2. `serial` is its place in the client's queue; 0 while it never was in one.
    """

    def __init__(
        self,
        message: Message,
        qos: int,
        *,
        retain: bool = False,
        identifiers: tuple[int, ...] = (),
        group: str = "",
        serial: int = 0,
    ) -> None:
        self.message: Final = message
        self.qos: Final = qos
        self.retain: Final = retain
        #: Subscription identifiers of every subscription that matched.
        self.identifiers: Final = identifiers
        #: The shared subscription (`$share/<group>/<filter>`) it came through; empty for none, and once its client has
        #: left the group.
        self.group = group
        self.serial = serial
        #: Whether it may have been sent before, by an earlier run of the broker: then DUP says so.
        self.repeated = False
        #: What it counts toward limits.
        self.size_bytes: Final = len(message.topic) + len(message.payload) + len(message.properties)

    def __repr__(self) -> str:
        return f"Owed({self.message!r}, qos={self.qos}, serial={self.serial})"


#: Stands for a shard where a place is one in a client's queue outside the log. On disk: never change.
QUEUE_SHARD: Final = 0xFFFF


class OwedQueued(Owed):
    """A message from a queue outside the log: its serial there is its place, whether the log has it, too, or not."""

    def __init__(
        self, message: Message, qos: int, *, retain: bool, identifiers: tuple[int, ...], serial: int, packet_id: int = 0
    ) -> None:
        super().__init__(message, qos, retain=retain, identifiers=identifiers, serial=serial)
        #: Under which an earlier run of the broker sent it; 0 for none.
        self.packet_id: Final = packet_id


class OwedShared(Owed):
    """A message that a member of a group was given: as it came, and when it may be given to another one."""

    def __init__(
        self,
        message: Message,
        qos: int,
        *,
        identifiers: tuple[int, ...],
        group: str,
        source: Message,
        past: bool,
        due_us: int,
        vnode: int = 0,
        revision: int = 0,
    ) -> None:
        super().__init__(message, qos, identifiers=identifiers, group=group)
        #: In a cluster, of a QoS 2 message: the vnode of its group, and the revision of its assignment there; else 0.
        self.vnode: Final = vnode
        self.revision: Final = revision
        #: The message without what this member alone was told with it.
        self.source: Final = source
        #: Whether it is history: then MQTT 5 clients are told its time and its place.
        self.past: Final = past
        #: Monotonic time from which on another member may get it; 0 if none may.
        self.due_us: Final = due_us


class OwedRetained(Owed):
    """A retained message that is owed to a new subscription. It is not in the log: topic and version name it."""

    def __init__(self, message: Message, qos: int, *, identifiers: tuple[int, ...], newest: int) -> None:
        super().__init__(message, qos, retain=True, identifiers=identifiers)
        #: It is the message of its topic that this change, or one before it, has left there.
        self.newest: Final = newest


def place_of(owed: Owed) -> tuple[int, int]:
    """By what a session knows a message: shard and position in the log, or its serial in the session's own queue."""
    if isinstance(owed, OwedQueued):
        return QUEUE_SHARD, owed.serial
    return owed.message.shard, owed.message.position_us
