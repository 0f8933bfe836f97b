"""A client of the simulation: a real client without I/O, and the link of its connection."""

from holdfast.client.core import ClientCore, SessionOptions
from holdfast.client.errors import ConnectionEnded, Event
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Connack, Publish, Subscription
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import ORIGIN

#: Longer than a simulation lasts.
KEPT_S = 100_000
#: A session that outlives every connection of the simulation.
KEPT = SessionOptions(clean_start=False, session_expiry_s=KEPT_S, keep_alive_s=0)


class SimLink:
    """One connection, as the broker sees it."""

    def __init__(self, node: ClusterNode) -> None:
        self.node = node
        self.data = bytearray()
        self.closed = False
        self.channel = node.broker.opened(self, ORIGIN)

    def write(self, data: bytes) -> None:
        if not self.node.dead:
            self.data += data

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class SimClient:
    """One client over any number of connections. It subscribes with its first one, if it has something to subscribe."""

    def __init__(
        self,
        world: ClusterWorld,
        name: str,
        story: list[str],
        options: SessionOptions,
        subscription: tuple[bytes, int] | None = None,
    ) -> None:
        """`subscription` is a filter and its QoS."""
        self.name = name
        self._world = world
        self._story = story
        self._subscription = subscription
        self.core = ClientCore(options)
        self.node: ClusterNode | None = None
        self.link: SimLink | None = None
        #: What it was handed, and what it has published, in order.
        self.received: list[bytes] = []
        self.sent: list[bytes] = []
        #: Session Present of every CONNACK that has let it in, and errors that no fault of the simulation explains.
        self.present: list[bool] = []
        self.errors: list[str] = []
        self._subscribed = False

    def connect(self, node: ClusterNode) -> None:
        self.leave()
        self._story.append(f"{self.name} connects to {node.life.node}")
        self.node = node
        self.link = SimLink(node)
        self.core.connect()
        self.flush()

    def leave(self) -> None:
        """The network is gone."""
        link, self.link = self.link, None
        if link is not None:
            self.core.connection_lost()
            if not link.closed and not link.node.dead:
                link.closed = True
                self._world.do(lambda: link.node.broker.lost(link.channel))
        self.node = None

    def flush(self) -> None:
        """Send what the client has to say."""
        data = self.core.take_output().data
        link = self.link
        if data and link is not None and not link.closed and not link.node.dead:
            self._world.do(lambda: link.node.broker.received(link.channel, data))

    def read(self) -> None:
        """Take what has come, and acknowledge it."""
        link = self.link
        if link is None:
            return
        data, link.data = bytes(link.data), bytearray()
        if data:
            for event in self.core.receive(data, 0.0):
                if isinstance(event, ConnectionEnded):
                    self._note(str(event.error))
                    self.leave()
                    return
                self.handle(event)
        if self.core.connected and not self._subscribed and self._subscription is not None:
            self._subscribed = True
            raw, qos = self._subscription
            self.core.subscribe([Subscription(parse_filter(raw), qos)])
        self.flush()
        if link.closed or link.node.dead:
            self.leave()

    def _note(self, why: str) -> None:
        self._story.append(f"{self.name}: {why}")
        if "an internal error" in why or "the broker sent" in why:
            self.errors.append(why)

    def handle(self, event: Event) -> None:
        if isinstance(event, Publish):
            self.received.append(event.payload)
            self.core.acknowledge(event)
        elif isinstance(event, Connack):
            self.present.append(event.session_present)

    def is_done(self) -> bool:
        return self.core.connected and self.core.unacknowledged == 0
