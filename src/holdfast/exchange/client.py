"""The live objects of the path of messages: connections, clients, subscriptions and groups. They refer to each other.

    Link          the contract of a connection's output
    Channel       one connection; everything of it dies with the connection
    Client        one session with its queue and, while it is connected, its channel
    Subscribed    one subscription of one client: what the matcher finds
    Group         the members of one shared subscription [MQTT-4.8.2-4]

A client is live (messages go straight to the channel), behind (messages go to the queue, and from there to the channel
as the window opens) or offline (messages go to the queue).
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from mypy_extensions import i32

from holdfast.durable.log import NO_END
from holdfast.durable.queues.client_queue import SessionQueue
from holdfast.durable.queues.external_queue import ExternalQueue
from holdfast.durable.queues.log_queue import LogQueue
from holdfast.exchange.access import ClientAccess
from holdfast.exchange.pace import Drain, Pace
from holdfast.exchange.retained_delivery import RetainedDelivery
from holdfast.model.owed import Owed
from holdfast.session.state import SessionState
from holdfast.topics.subscription import SubscriptionRecord
from holdfast.wire.framing import MAX_PACKET_BYTES, Framer


class Link(Protocol):
    """Where a connection's bytes go. Listeners implement it."""

    def write(self, data: bytes) -> None:
        """Send `data`, in order, without waiting. Called at most once per connection and loop turn."""

    def close(self) -> None:
        """Send what was written, then close. Nothing is written after it."""

    def pause_reading(self) -> None:
        """Hand over no more bytes until `resume_reading`: the client is faster than it may be."""

    def resume_reading(self) -> None:
        """Go on after `pause_reading`."""


class DeferredAck:
    """An acknowledgement that may not leave yet."""

    def __init__(self, frame: bytes) -> None:
        self.frame: Final = frame
        self.ready = True
        #: Whether it counts toward what the client may have unacknowledged.
        self.receiving = False
        self.size_bytes = 0


class Channel:
    """One connection.

    1. `out` is sent once per loop iteration; `dirty` while it waits for that.
    2. Nothing is added to `out` once `closed`.
    3. While `blocked`, packets wait in the framer: an answer to an earlier one is still being worked out.
    """

    def __init__(self, link: Link, limit_bytes: int, number: int = 0) -> None:
        # Connections are many, and most are idle. So flags stand together, which a compiled object stores side by side,
        # small numbers have four bytes, and a table that is empty is None.
        self.link: Final = link
        #: By which the broker knows the connection.
        self.number: Final = number
        self.framer: Final = Framer(limit_bytes)
        #: None until CONNECT was accepted, and after the channel has left its client.
        self.client: BrokerClient | None = None
        self.out: list[bytes] | None = None

        self.dirty = False
        self.closed = False
        self.blocked = False
        #: The socket's send buffer is full: nothing more for this client until it drains.
        self.congested = False
        self.reading_paused = False
        #: It has so many deferred acknowledgements that it is not read from.
        self.stalled = False
        #: Whether the broker watches that the packet that has begun is completed in time.
        self.watched = False
        #: Whether frames made for all clients fit this one too: no aliases, no mount point, no small packets.
        self.plain = True

        self.version: i32 = 0
        #: Answers to CONNECT or SUBSCRIBE, and QoS 2 messages, that wait for their commit: messages wait behind them.
        self.changing: i32 = 0
        #: No message for this client may be larger.
        self.max_packet_bytes: i32 = MAX_PACKET_BYTES
        #: QoS 1 messages taken and not acknowledged yet, and how many an MQTT 5 client may have so.
        self.receiving: i32 = 0
        self.receive_limit: i32 = 0
        #: How many topic aliases the client may give, and how many it takes.
        self.alias_limit_in: i32 = 0
        self.alias_limit_out: i32 = 0
        #: Bytes of an incomplete frame that the link holds back.
        self.link_bytes: i32 = 0

        #: Monotonic time of the last bytes from the client.
        self.heard_us = 0
        #: Packets handled so far. The incomplete one has this number, if it is noted in `begun`.
        self.packets = 0
        #: The number of the packet that has begun and is not complete, -1 for none.
        self.begun = -1
        #: Monotonic time of its beginning, or of the last look at it, and the bytes of it that were there by then.
        self.begun_us = 0
        self.begun_bytes = 0
        #: Topic aliases the client gave, by number.
        self.aliases_in: dict[int, bytes] | None = None
        #: Topic aliases given to the client.
        self.aliases_out: dict[bytes, int] | None = None
        #: In front of every topic of this connection; empty for none.
        self.mount = b""
        #: None if everything is allowed.
        self.access: ClientAccess | None = None
        #: What it answered for topics lately.
        self.may_publish: dict[bytes, bool] | None = None
        #: Acknowledgements that wait for external queues, or behind one that does.
        self.deferred: deque[DeferredAck] | None = None
        self.deferred_bytes = 0
        #: Messages that may be taken before the rate limit pauses reading; -1 without a limit.
        self.publish_credit = -1

    def put(self, frame: bytes) -> None:
        """Add a frame to what is sent next."""
        if self.out is None:
            self.out = [frame]
        else:
            self.out.append(frame)

    def take_out(self) -> bytes:
        """What is to be sent, which is the caller's from now on; empty for nothing."""
        out = self.out
        if out is None:
            return b""
        self.out = None
        return out[0] if len(out) == 1 else b"".join(out)

    def unfinished_bytes(self) -> int:
        """Bytes that are kept of a packet that is not complete."""
        return self.framer.buffered_bytes() + self.link_bytes

    def settle(self) -> None:
        """Call when the limits are known: decides whether the channel is plain."""
        self.plain = self.alias_limit_out == 0 and not self.mount and self.max_packet_bytes >= MAX_PACKET_BYTES


class Subscribed:
    """One subscription of one client: what the matcher finds."""

    def __init__(
        self, client: "BrokerClient", record: SubscriptionRecord, group: "Group | None", until_us: int = NO_END
    ) -> None:
        self.client: Final = client
        self.record: Final = record
        #: The group of a shared subscription; None for any other.
        self.group: Final = group
        #: The position from which on it delivers nothing.
        self.until_us: Final = until_us


@dataclass(eq=False)
class ReplayDelivery:
    """History on its way to a subscription, which becomes a live one when it has reached the present."""

    queue: LogQueue
    subscribed: Subscribed
    until_us: int
    #: What to do when it has reached the present.
    joined: Callable[[], None]
    #: Where the client is told so, on the connection that asked and on no other; empty if it did not ask.
    end_topic: bytes
    #: The speed that it is to keep; None for as fast as the client takes it.
    pace: Pace | None


class BrokerClient:
    """A session with its queue and its present channel.

    1. `behind` exactly if the queue holds something that was not sent on the present connection.
    2. `cursor` is the serial of the last message that was read from the queue.
    """

    def __init__(self, session: SessionState, queue: SessionQueue, external: ExternalQueue | None = None) -> None:
        self.session: Final = session
        self.queue: Final = queue
        #: Its queue, if that is external: then messages reach it from there alone.
        self.external: Final = external
        #: The connection that has the session; it is not the channel yet while its CONNACK waits for the commit.
        self.owner: Channel | None = None
        #: The connection that messages go to.
        self.channel: Channel | None = None
        self.cursor = 0
        self.behind = False
        #: The pace at which its backlog is sent; None for as fast as it takes it.
        self.drain: Drain | None = None
        #: The last batch with a message that it was sent before the commit, and the last with one that has to wait.
        self.early_batch = 0
        self.held_batch = 0
        #: Whether more packet ids are being reserved for it.
        self.reserving = False
        #: Whether it is pumped in the next loop iteration.
        self.pump_due = False
        #: Whether it has come further than its stored progress says.
        self.unsaved = False
        #: By filter; None for none.
        self._subscribed: dict[bytes, Subscribed] | None = None
        #: The levels of all filters of its session together: what they cost in the matcher.
        self.filter_levels = 0
        #: Retained messages and history on their way, by filter, the next one first. None for none: there are as many
        #: as clients. A client may have as many of them as subscriptions, so nothing here looks through all of them.
        self.retained: OrderedDict[bytes, RetainedDelivery] | None = None
        self.replays: OrderedDict[bytes, ReplayDelivery] | None = None
        #: Filters of retained deliveries that have come to their end, and are still stored; None for none.
        self.ended_retained: dict[bytes, None] | None = None
        #: The groups it is a member of.
        self.groups: tuple[Group, ...] = ()

    def stored(self) -> bool:
        """Whether steps of the session are stored: it outlives its connection, and may outlive the broker."""
        return self.session.expiry_s > 0

    def scans(self) -> bool:
        """Whether its queue is being looked through, and it has room for what is found."""
        return self.behind and self.channel is not None and self.session.window.room() and not self.queue.at_end()

    # ---- subscriptions

    def subscribed(self, raw: bytes) -> Subscribed | None:
        """What the matcher finds for a filter; None if it finds nothing."""
        return None if self._subscribed is None else self._subscribed.get(raw)

    def add_subscribed(self, subscribed: Subscribed) -> None:
        """Add or replace what the matcher finds for its filter."""
        if self._subscribed is None:
            self._subscribed = {}
        self._subscribed[subscribed.record.filter.raw] = subscribed

    def end_subscribed(self, raw: bytes) -> Subscribed | None:
        """Take it out; None if there is none."""
        return None if self._subscribed is None else self._subscribed.pop(raw, None)

    # ---- retained messages

    def add_retained(self, raw: bytes, delivery: RetainedDelivery) -> None:
        """Send the retained messages of a filter, behind those of the others."""
        if self.retained is None:
            self.retained = OrderedDict()
        self.retained.pop(raw, None)
        self.retained[raw] = delivery

    def next_retained(self) -> RetainedDelivery | None:
        """The delivery whose messages come next."""
        return None if self.retained is None else next(iter(self.retained.values()))

    def end_retained(self, raw: bytes) -> RetainedDelivery | None:
        """Take a retained delivery out; None if there is none."""
        deliveries = self.retained
        if deliveries is None:
            return None
        delivery = deliveries.pop(raw, None)
        if not deliveries:
            self.retained = None
        return delivery

    def forget_retained(self, raw: bytes) -> bool:
        """Forget the retained delivery of a filter; whether it is stored."""
        delivery = self.end_retained(raw)
        stored = delivery is not None and delivery.stored
        if self.ended_retained is not None and raw in self.ended_retained:
            del self.ended_retained[raw]
            stored = True
        return stored

    # ---- replays

    def replay_of(self, raw: bytes) -> ReplayDelivery | None:
        """The replay of a filter that is under way."""
        return None if self.replays is None else self.replays.get(raw)

    def add_replay(self, replay: ReplayDelivery) -> None:
        """Send what a replay finds, in turn with the others; it takes the place of one of the same filter."""
        if self.replays is None:
            self.replays = OrderedDict()
        raw = replay.subscribed.record.filter.raw
        before = self.replays.get(raw)
        if before is not None and before is not replay:
            before.queue.rest()
        self.replays[raw] = replay

    def end_replay(self, raw: bytes) -> None:
        if self.replays is not None:
            replay = self.replays.pop(raw, None)
            if replay is not None:
                replay.queue.rest()
            if not self.replays:
                self.replays = None

    def end_replays(self) -> None:
        """The session is not here any more."""
        replays = self.replays
        self.replays = None
        for replay in () if replays is None else replays.values():
            replay.queue.rest()

    # ---- both

    def end_deliveries(self, raw: bytes) -> None:
        """A filter was replaced or unsubscribed: its retained messages and its replay go no further [MQTT-3.10.4-2]."""
        self.end_replay(raw)
        self.end_retained(raw)

    def rest_deliveries(self) -> None:
        """Its connection is gone: they go on where they are on the next one, and hold nothing until then."""
        for delivery in () if self.retained is None else self.retained.values():
            delivery.resumed = True
        for replay in () if self.replays is None else self.replays.values():
            replay.queue.rest()

    def sends_beside_its_queue(self) -> bool:
        """Whether retained messages or history are on their way to it."""
        return self.retained is not None or self.replays is not None

    def waits_for_room(self) -> bool:
        """Whether an acknowledgement may let something go out."""
        if self.behind or self.sends_beside_its_queue() or self.session.window.resuming():
            return True
        # A loop, because most clients have no group, and this is asked per acknowledgement.
        for group in self.groups:  # noqa: SIM110
            if group.owes():
                return True
        return False

    def stored_groups(self) -> tuple[str, ...]:
        """The keys of its groups that are stored, here or by the leader of their vnode: they know what is open."""
        if not self.groups:
            return ()
        return tuple([group.key for group in self.groups if group.stored_as or group.dispatched])


class Group:
    """The members of one shared subscription, `$share/<name>/<filter>`: it lives as long as a member's session.

    What no member has room for, or is online for, is kept in the group's queue and given out in order as members get
    room: a message is never in the queue of one member while another could take it.

    1. `members` are in the order in which they joined.
    """

    def __init__(self, key: str, strategy: str, record: SubscriptionRecord, backlog: SessionQueue) -> None:
        #: `$share/<name>/<filter>`.
        self.key: Final = key
        #: How a member is picked for a message, and what that remembers (`delivery.group_delivery`).
        self.strategy: Final = strategy
        self.turn = 0
        self.favourite = ""
        #: Its subscription, as if it were a client: the filter, and where it began.
        self.record: Final = record
        #: What to do when it has reached the present; None while it is there.
        self.joined: Callable[[], None] | None = None
        #: In a cluster: this is what one member is given of the group. The leader of the group's vnode says which
        #: messages that are, so live ones pass it by.
        self.dispatched = False
        #: How long QoS 1 work may rest with a member before another one gets it; 0 for as long as it is online.
        self.steal_after_us = 0
        #: Messages that no member could take yet.
        self.backlog = backlog
        #: Read from the backlog and not given out yet, the next one last.
        self.held: list[Owed] = []
        self.members: Final[dict[str, Subscribed]] = {}
        #: Client ids of members that have a stored session, or had one.
        self.stored_members: Final[set[str]] = set()
        #: Whether it may have members besides these whose sessions are stored: an earlier version began it.
        self.unlisted = False
        #: The name under which its progress is stored; empty if it is not.
        self.stored_as = ""
        #: Whether it has come further than its stored progress says.
        self.unsaved = False
        #: The last batch with a message that it has to wait for, while nothing can be written.
        self.held_batch = 0

    def owes(self) -> bool:
        """Whether something waits for a member."""
        return len(self.held) > 0 or self.backlog.count() > 0

    def keeps_backlog(self) -> bool:
        """Whether some member will take later what none takes now."""
        for member in self.members.values():
            if member.client.channel is not None or member.client.session.persistent():
                return True
        return False
