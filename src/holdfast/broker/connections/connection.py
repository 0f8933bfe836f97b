"""What the broker knows of one connection, besides what the path of messages needs (`Channel`)."""

from typing import Final

from holdfast.broker.connections.origin import Origin
from holdfast.durable.takeover.registry import ChannelVersion
from holdfast.exchange.access import ClientAccess
from holdfast.exchange.client import Channel
from holdfast.model.will import StoredWill


class ClientConnection:
    """One connection from accept to close.

    1. It is `registered` while the channel is, or may be, in the registry.
    2. `will` is what is published if the connection ends without a proper DISCONNECT.
    """

    def __init__(self, channel: Channel, origin: Origin, number: int, version: ChannelVersion) -> None:
        self.channel: Final = channel
        self.origin: Final = origin
        self.number: Final = number
        #: When its transport connected, or its client says so: of two connections with one client id the newer wins.
        self.version = version
        #: Monotonic time at which it was accepted.
        self.opened_us = 0
        self.client_id = ""
        #: The session's name on this node: clients of different mount points may have the same client id.
        self.session_id = ""
        #: As the authenticator verified it, whatever proved it; None for a client without one. See `owner`.
        self.user: str | None = None
        #: None if everything is allowed.
        self.access: ClientAccess | None = None
        self.will: StoredWill | None = None
        # Flags stand together: a compiled object stores them side by side.
        #: Another broker, by its protocol level: it gets nothing back that it published, and retain flags as published.
        self.bridge = False
        #: Whether reason strings and user properties may be sent on failures [MQTT-3.1.2-29].
        self.explain = True
        self.registered = False
        #: Of a channel that is being taken over: whether its socket takes no more.
        self.socket_full = False
        #: The client said goodbye properly, or is told to go: nothing more to do for its will.
        self.parted = False
        self.keep_alive_us = 0
        #: Channels that are taking this one over, by node, epoch and number; while there is one, its packets wait, and
        #: it is sent no messages.
        self.takers: tuple[tuple[int, int, int], ...] = ()
        #: Under which tick its silence is looked at next; 0 for none.
        self.tick = 0
        #: The same for a packet that has begun.
        self.packet_tick = 0
        #: What those who watch clients were last told of it, as a number that differs when that does; 0 for nothing.
        self.told = 0

    @property
    def owner(self) -> str:
        """The user that sessions of this connection belong to; all clients without a user name count as one."""
        return self.user or ""
