"""A client: its session and, while it is connected, its channel.

live      messages go straight to the channel
behind    messages go to the queue, and from there to the channel as the window opens
offline   messages go to the queue
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.durable.log import FOR_EVER
from holdfast.durable.log_queue import LogQueue
from holdfast.durable.outside_queue import OutsideQueue
from holdfast.durable.queue import ClientQueue
from holdfast.durable.retained import RetainedScan
from holdfast.exchange.pace import Drain, Pace
from holdfast.records.walks import WalkProgress
from holdfast.session.state import SessionState
from holdfast.topics.names import in_level_order
from holdfast.topics.subscription import SubscriptionRecord

if TYPE_CHECKING:
    from holdfast.exchange.channel import Channel
    from holdfast.exchange.groups import Group


class Subscribed:
    """One subscription of one client: what the matcher finds."""

    def __init__(
        self, client: "Client", record: SubscriptionRecord, group: "Group | None", until_us: int = FOR_EVER
    ) -> None:
        self.client: Final = client
        self.record: Final = record
        #: The group it is shared with; None for a subscription of one's own.
        self.group: Final = group
        #: The position from which on it delivers nothing.
        self.until_us: Final = until_us


class Walk:
    """Retained messages on their way to a new subscription, fetched as the client takes them.

    1. A walk that is stored was so before its SUBACK, and is until nothing of it is owed.
    2. Its messages come in the order of their levels, so a topic says how far it is.
    """

    def __init__(self, subscribed: Subscribed, begun: WalkProgress, *, stored: bool) -> None:
        self.subscribed: Final = subscribed
        self.stored: Final = stored
        #: What finds its messages; None until the SUBACK is on its way.
        self.scan: RetainedScan | None = None
        #: The last change of retained messages that concerns it.
        self.newest = begun.newest
        #: The topic that it came to last, and what the stored record says.
        self.at = begun.sent
        self._sent = begun.sent
        self._sent_qos2 = begun.sent_qos2
        #: Whether QoS 2 messages are in flight that the stored record does not know of.
        self.ahead = False
        #: Whether it began on an earlier connection; and whether that may have got more than the record says.
        self.resumed = False
        self.repeated = False

    def skips(self, topic: bytes, qos: int) -> bool:
        """Whether a message was sent before, or was for who was there."""
        if not self.resumed:
            return False
        return qos == 0 or (qos == 2 and in_level_order(topic) <= in_level_order(self._sent_qos2))

    def moved(self) -> bool:
        """Whether it has come further than the stored record says."""
        return self._sent != self.at

    def record(self) -> WalkProgress:
        """What to store with the QoS 2 entries of what it came to."""
        if in_level_order(self.at) > in_level_order(self._sent_qos2):
            self._sent_qos2 = self.at
        self.ahead = False
        return WalkProgress(self.newest, self._sent, self._sent_qos2)

    def whole_record(self) -> WalkProgress:
        """What to store with the session's progress, which has what is unacknowledged."""
        self._sent = self.at
        return self.record()


class ReplayWalk:
    """History on its way to a subscription, which becomes a live one when it has reached the present."""

    def __init__(
        self,
        queue: LogQueue,
        subscribed: Subscribed,
        until_us: int,
        joined: Callable[[], None],
        end_topic: bytes = b"",
    ) -> None:
        self.queue: Final = queue
        self.subscribed: Final = subscribed
        self.until_us: Final = until_us
        #: What to do when it has reached the present.
        self.joined: Final = joined
        #: Where the client is told so; empty if it did not ask. It is told on the connection that asked, or never.
        self.end_topic: Final = end_topic
        #: The speed that it is to keep; None for as fast as the client takes it.
        self.pace: Pace | None = None


class Client:
    """A session with its queue and its present channel.

    1. `behind` exactly if the queue holds something that was not sent on the present connection.
    2. `cursor` is the serial of the last message that was read from the queue.
    """

    def __init__(self, session: SessionState, queue: ClientQueue) -> None:
        self.session: Final = session
        self.queue: Final = queue
        #: Whether its queue is outside the log: then messages reach it from there alone.
        self.outside: Final = isinstance(queue, OutsideQueue)
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
        #: Whether it is pumped at the end of the turn.
        self.pump_due = False
        #: Whether it has come further than its stored progress says.
        self.unsaved = False
        self.subscribed: Final[dict[bytes, Subscribed]] = {}
        #: The levels of all filters of its session together: what they cost in the matcher.
        self.filter_levels = 0
        #: Retained messages and history on their way, by filter, the next one first. None for none: there are as many
        #: as clients. A client may have as many of them as subscriptions, so nothing here looks through all of them.
        self.walks: OrderedDict[bytes, Walk] | None = None
        self.replays: OrderedDict[bytes, ReplayWalk] | None = None
        #: Filters of walks that have come to their end, and are still stored; None for none.
        self.ended_walks: dict[bytes, None] | None = None
        #: The groups it is a member of.
        self.groups: Final[list[Group]] = []

    def stored(self) -> bool:
        """Whether steps of the session are stored: it outlives its connection, and may outlive the broker."""
        return self.session.expiry_s > 0

    def scans(self) -> bool:
        """Whether its queue is being looked through, and it has room for what is found."""
        return self.behind and self.channel is not None and self.session.window.room() and not self.queue.at_end()

    def replay_of(self, raw: bytes) -> ReplayWalk | None:
        """The replay of a filter that is under way."""
        return None if self.replays is None else self.replays.get(raw)

    def add_walk(self, walk: Walk) -> None:
        """Send what a walk finds, behind that of the others."""
        raw = walk.subscribed.record.filter.raw
        if self.walks is None:
            self.walks = OrderedDict()
        self.walks.pop(raw, None)
        self.walks[raw] = walk

    def next_walk(self) -> Walk | None:
        """The walk whose messages come next."""
        return None if self.walks is None else next(iter(self.walks.values()))

    def end_walk(self, raw: bytes) -> Walk | None:
        """Take a walk out; None if there is none."""
        walks = self.walks
        if walks is None:
            return None
        walk = walks.pop(raw, None)
        if not walks:
            self.walks = None
        return walk

    def add_replay(self, replay: ReplayWalk) -> None:
        """Send what a replay finds, in turn with the others; it takes the place of one of the same filter."""
        if self.replays is None:
            self.replays = OrderedDict()
        self.replays[replay.subscribed.record.filter.raw] = replay

    def end_replay(self, raw: bytes) -> None:
        if self.replays is not None:
            self.replays.pop(raw, None)
            if not self.replays:
                self.replays = None

    def forget_walk(self, raw: bytes) -> bool:
        """Forget the walk of a filter; whether it is stored."""
        walk = self.end_walk(raw)
        stored = walk is not None and walk.stored
        if self.ended_walks is not None and raw in self.ended_walks:
            del self.ended_walks[raw]
            stored = True
        return stored

    def drop_walks(self, raw: bytes) -> None:
        """Forget the walks of a filter: it was replaced or unsubscribed [MQTT-3.10.4-2]."""
        self.end_replay(raw)
        self.end_walk(raw)

    def sends_beside_its_queue(self) -> bool:
        """Whether retained messages or history are on their way to it."""
        return self.walks is not None or self.replays is not None

    def waits_for_room(self) -> bool:
        """Whether an acknowledgement may let something go out."""
        if self.behind or self.sends_beside_its_queue() or self.session.window.resuming():
            return True
        # A loop, because most clients have no group, and this is asked per acknowledgement.
        for group in self.groups:  # noqa: SIM110
            if group.owes():
                return True
        return False
