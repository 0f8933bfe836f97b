"""What the broker knows of one connection, beside what the path of its messages needs (`Channel`)."""

from dataclasses import dataclass, field

from holdfast.broker.gate import Origin
from holdfast.durable.registry import ChannelVersion, Registration
from holdfast.exchange.access import ClientAccess
from holdfast.exchange.channel import Channel
from holdfast.model.will import StoredWill


@dataclass(eq=False, slots=True)
class Connection:
    """One connection from accept to close.

    1. `registration` is set while the channel is, or may be, in the registry.
    2. `will` is what is published if the connection ends without a proper DISCONNECT.
    """

    channel: Channel
    origin: Origin
    number: int
    #: When its transport connected: of two connections with one client id the newer wins.
    version: ChannelVersion
    client_id: str = ""
    #: The session's name on this node: clients of different mount points may have the same client id.
    session_id: str = ""
    user: str | None = None
    #: None if everything is allowed.
    access: ClientAccess | None = None
    will: StoredWill | None = None
    keep_alive_us: int = 0
    #: Whether reason strings and user properties may be sent on failures [MQTT-3.1.2-29].
    explain: bool = True
    registration: Registration | None = None
    #: Connections that are taking this one over; while there is one, its packets wait.
    takers: list[int] = field(default_factory=list)
    #: Under which tick its silence is looked at next; 0 for none.
    tick: int = 0
    #: The client said goodbye properly, or is told to go: nothing more to do for its will.
    parted: bool = False
