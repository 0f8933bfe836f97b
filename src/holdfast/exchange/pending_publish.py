"""What waits for a commit: answers to clients, and published messages.

A pending publish makes each form of its message's frame at most once, however many clients get it: only the packet id
differs between them, and is spliced in.
"""

from collections.abc import Callable
from typing import Final

from holdfast.exchange.client import BrokerClient, Channel, DeferredAck, Group
from holdfast.exchange.plans import DeliveryPlan
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import V5
from holdfast.wire.primitives import encode_varint
from holdfast.wire.publish import frame_publish, publish_head

#: PUBLISH with QoS 0, 1, 2.
PUBLISH_FIRST: Final = (0x30, 0x32, 0x34)


class OutstandingAppends:
    """The external queues that have to have a message before its publisher is told."""

    def __init__(self, number: int, targets: list[tuple[BrokerClient, Owed]]) -> None:
        #: The number of the message in the outbox.
        self.number: Final = number
        self.targets: Final = targets
        #: How many have not answered yet.
        self.left = 0
        #: The acknowledgement that waits for them, and where it goes.
        self.ack: DeferredAck | None = None
        self.channel: Channel | None = None


class Effect:
    """Something to do when a commit has its receipt: a frame for a client, then whatever follows from it."""

    def __init__(self, channel: Channel | None, frame: bytes, then: Callable[[], None] | None = None) -> None:
        self.channel: Final = channel
        self.frame: Final = frame
        self.then: Final = then
        #: The appends to external queues that it waits for, when it is committed; None for none.
        self.outstanding: OutstandingAppends | None = None
        #: Whether its frame was sent before the commit (`delivery/unstored_delivery.py`).
        self.answered = False

    def session_id(self) -> str:
        """The session whose step it follows; empty if it is no session's."""
        client = None if self.channel is None else self.channel.client
        return "" if client is None else client.session.client_id

    def waits_for(self) -> str:
        """The session whose vnode it waits for; empty for none."""
        return self.session_id()


class FollowUp(Effect):
    """What goes on when everything of a session up to now is decided, whether it counted or not."""

    def __init__(self, session_id: str, then: Callable[[], None]) -> None:
        super().__init__(None, b"", then)
        self._waits_for: Final = session_id

    def waits_for(self) -> str:
        return self._waits_for


class Sending(Effect):
    """A message for one client that may be sent only when its entry in flight is stored.

    The frame is made then, not now: an alias that it gives must not be used by a frame that leaves before it.
    """

    def __init__(self, client: BrokerClient, channel: Channel, owed: Owed, packet_id: int) -> None:
        super().__init__(channel, b"")
        self.client: Final = client
        self.owed: Final = owed
        #: 0 for QoS 0.
        self.packet_id: Final = packet_id

    def session_id(self) -> str:
        return self.client.session.client_id


class Reservation(Effect):
    """Packet ids of a client that may be given out when the batch is committed."""

    def __init__(self, client: BrokerClient, reserved: int) -> None:
        super().__init__(None, b"")
        self.client: Final = client
        self.reserved: Final = reserved

    def session_id(self) -> str:
        return self.client.session.client_id


class PendingPublish(Effect):
    """A message on its way from its publisher to every client of its plan."""

    def __init__(
        self,
        message: Message,
        plan: DeliveryPlan,
        publisher: BrokerClient | None,
        channel: Channel | None,
        frame: bytes,
    ) -> None:
        super().__init__(channel, frame)
        self.message: Final = message
        self.plan: Final = plan
        self.publisher: Final = publisher
        #: The version of the routes for which the plan is right; -1 if that is not known.
        self.routes_version = -1
        #: Whether the expiry interval it came with is still right; else each frame is made with what remains.
        self.fresh = True
        #: The clients and groups that were sent it before the commit.
        self.early: set[BrokerClient] | None = None
        self.early_groups: set[Group] | None = None
        # One attribute for each form, not lists of them: a pending publish is made for every message.
        self._whole_v3: bytes | None = None
        self._whole_v5: bytes | None = None
        self._head_v3_1: bytes | None = None
        self._head_v3_2: bytes | None = None
        self._head_v5_1: bytes | None = None
        self._head_v5_2: bytes | None = None
        self._tail_v5: bytes | None = None
        self._owed_1: Owed | None = None
        self._owed_2: Owed | None = None

    def session_id(self) -> str:
        return self.message.publisher

    def arrived_as(self, frame: bytes) -> None:
        """The frame as it came from an MQTT 3 client, fit to be passed on with QoS 0 as it is."""
        self._whole_v3 = frame

    def whole(self, version: int) -> bytes:
        """The whole frame for QoS 0."""
        message = self.message
        if version == V5:
            if self._whole_v5 is None:
                tail = self.tail(V5)
                self._whole_v5 = publish_head(PUBLISH_FIRST[0], message.topic, len(tail)) + tail
            return self._whole_v5
        if self._whole_v3 is None:
            self._whole_v3 = frame_publish(PUBLISH_FIRST[0], message.topic, 0, b"", message.payload)
        return self._whole_v3

    def head(self, version: int, qos: int) -> bytes:
        """The frame up to the packet id, for QoS 1 and 2."""
        if version == V5:
            if qos == 1:
                if self._head_v5_1 is None:
                    self._head_v5_1 = self._make_head(1, len(self.tail(V5)))
                return self._head_v5_1
            if self._head_v5_2 is None:
                self._head_v5_2 = self._make_head(2, len(self.tail(V5)))
            return self._head_v5_2
        if qos == 1:
            if self._head_v3_1 is None:
                self._head_v3_1 = self._make_head(1, len(self.message.payload))
            return self._head_v3_1
        if self._head_v3_2 is None:
            self._head_v3_2 = self._make_head(2, len(self.message.payload))
        return self._head_v3_2

    def _make_head(self, qos: int, tail_bytes: int) -> bytes:
        return publish_head(PUBLISH_FIRST[qos], self.message.topic, 2 + tail_bytes)

    def tail(self, version: int) -> bytes:
        """The frame from behind the packet id."""
        if version != V5:
            return self.message.payload
        if self._tail_v5 is None:
            properties = self.message.properties
            self._tail_v5 = b"".join((encode_varint(len(properties)), properties, self.message.payload))
        return self._tail_v5

    def owed(self, qos: int) -> Owed:
        """The entry for clients that get it right away; they may share it, because it has no place in a queue."""
        if qos == 1:
            if self._owed_1 is None:
                self._owed_1 = Owed(self.message, 1)
            return self._owed_1
        if self._owed_2 is None:
            self._owed_2 = Owed(self.message, 2)
        return self._owed_2
