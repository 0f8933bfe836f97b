"""A cluster by chance: every choice comes from one seed, so that a run can be told again.

Three nodes, two vnodes, four clients that others could have written (`holdfast.client.core`): two publish numbered
messages with QoS 1 and 2, two have sessions that subscribe. Meanwhile appends are slow, come twice or lose their
answer, readers of the logs are behind, clients move between nodes, nodes are fenced, killed and come back with nothing.
Then everything is mended, and what was promised is looked at:

    lost          every message that was acknowledged to its publisher has reached both subscribers
    twice         no message of QoS 2 has reached a QoS 2 subscription more than once
    order         of each publisher and topic, first deliveries come in the order of publishing
    digests       all nodes have decided alike
    stored twice  no numbered message lies in the log more than once
"""

from collections import Counter
from random import Random
from typing import Final

from holdfast.client.core import ClientCore, SessionOptions
from holdfast.client.errors import ConnectionEnded
from holdfast.client.message import encode_message
from holdfast.model.protocol import V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish, Subscription
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import ORIGIN

PUBLISHERS: Final = ("p1", "p2")
SUBSCRIBERS: Final = ("s1", "s2")
STEPS: Final = 200
#: Rounds of mending: each brings back nodes and clients, and delivers everything that waits.
_ROUNDS: Final = 60


class ViolationError(AssertionError):
    """A promise was broken; the story tells how."""


class SimClient:
    """A client, and the link of its connection."""

    def __init__(self, world: ClusterWorld, client_id: str, story: list[str]) -> None:
        self.name = client_id
        self._world = world
        self._story = story
        self.core = ClientCore(
            SessionOptions(client_id=client_id, clean_start=False, session_expiry_s=100_000, keep_alive_s=0)
        )
        self.node: ClusterNode | None = None
        self._link: _Link | None = None
        #: What it was handed, and what it has published, in order.
        self.received: list[bytes] = []
        self.sent: list[bytes] = []
        self._subscribed = False

    def connect(self, node: ClusterNode) -> None:
        self.leave()
        self._story.append(f"{self.name} connects to {node.life.node}")
        self.node = node
        self._link = _Link(node)
        self.core.connect()
        self.flush()

    def leave(self) -> None:
        """The network is gone."""
        link, self._link = self._link, None
        if link is not None:
            self.core.connection_lost()
            if not link.closed and self.node is not None and not self.node.dead:
                link.closed = True
                node = self.node
                self._world.do(lambda: node.broker.lost(link.channel))
        self.node = None

    def publish(self, qos: int) -> None:
        payload = f"{self.name}-{len(self.sent)}-{qos}".encode()
        self.sent.append(payload)
        self.core.publish(encode_message(f"t/{self.name}", payload, qos, V5))
        self.flush()

    def flush(self) -> None:
        """Send what the client has to say."""
        data = self.core.take_output().data
        link, node = self._link, self.node
        if data and link is not None and node is not None and not link.closed and not node.dead:
            self._world.do(lambda: node.broker.received(link.channel, data))

    def read(self) -> None:
        """Take what has come, and acknowledge it."""
        link = self._link
        if link is None:
            return
        data, link.data = bytes(link.data), bytearray()
        if data:
            for event in self.core.receive(data, 0.0):
                if isinstance(event, ConnectionEnded):
                    self.leave()
                    return
                if isinstance(event, Publish):
                    self.received.append(event.payload)
                    self.core.acknowledge(event)
        if self.core.connected and not self._subscribed and self.name in SUBSCRIBERS:
            self._subscribed = True
            self.core.subscribe([Subscription(parse_filter(b"t/#"), 2 if self.name == "s1" else 1)])
        self.flush()
        if link.closed or (self.node is not None and self.node.dead):
            self.leave()

    def is_done(self) -> bool:
        return self.core.connected and self.core.unacknowledged == 0


class _Link:
    """One connection, as the broker sees it."""

    def __init__(self, node: ClusterNode) -> None:
        self._node = node
        self.data = bytearray()
        self.closed = False
        self.channel = node.broker.opened(self, ORIGIN)

    def write(self, data: bytes) -> None:
        if not self._node.dead:
            self.data += data

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Simulation:
    """One seed, from the first record to the judgement."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.story: list[str] = []
        self._random = Random(seed)
        self._world = ClusterWorld()
        self._clients = {name: SimClient(self._world, name, self.story) for name in (*PUBLISHERS, *SUBSCRIBERS)}

    def run(self) -> None:
        """ViolationError if a promise was broken."""
        with self._world:
            for name in SUBSCRIBERS:
                self._clients[name].connect(self._random.choice(self._world.nodes))
                self._work()
            for log in self._world.logs:
                log.hold_appends = log.hold_reads = True
            for _step in range(STEPS):
                self._random.choices(
                    [
                        self._let_through,
                        self._read,
                        self._publish,
                        self._move,
                        self._pass_time,
                        self._fault,
                        self._fate,
                    ],
                    [50, 30, 10, 5, 4, 2, 1.5],
                )[0]()
            self._mend()
            self._judge()

    # ---- what happens

    def _move(self) -> None:
        client = self._random.choice(list(self._clients.values()))
        alive = [node for node in self._world.nodes if not node.dead]
        if self._random.random() < 0.2 or not alive:
            self.story.append(f"{client.name} loses its connection")
            client.leave()
        else:
            client.connect(self._random.choice(alive))

    def _publish(self) -> None:
        client = self._clients[self._random.choice(PUBLISHERS)]
        for _message in range(self._random.randint(1, 3)):
            client.publish(self._random.choice([1, 2]))
        self.story.append(f"{client.name} has published {len(client.sent)}")

    def _fault(self) -> None:
        log = self._random.choice(self._world.logs)
        what = self._random.choice(["lose_answers", "lose_appends", "repeat_appends", "clock"])
        self.story.append(f"log {self._world.logs.index(log)}: {what}")
        if what == "clock":
            log.stamp_offset_us = self._random.choice([0, 600_000_000, -600_000_000])
        else:
            setattr(log, what, 1)

    def _read(self) -> None:
        for client in self._clients.values():
            if self._random.random() < 0.7:
                client.read()

    def _pass_time(self) -> None:
        self._world.advance(self._random.choice([0.1, 1, 3, 11]))

    def _fate(self) -> None:
        """A node is fenced, killed, or comes back."""
        node = self._random.choice(self._world.nodes)
        if node.dead:
            self.story.append(f"node {node.life.node} comes back")
            self._world.start(node.life.node)
        elif self._random.random() < 0.5:
            self.story.append(f"node {node.life.node} is fenced")
            node.fence()
        elif sum(not other.dead for other in self._world.nodes) > 1:
            self.story.append(f"node {node.life.node} is killed")
            node.kill()

    def _let_through(self) -> None:
        """Something that waits in a log goes on."""
        log = self._random.choice(self._world.logs)
        while log.held and self._random.random() < 0.8:
            self._world.do(lambda: log.arrive(self._random.randrange(len(log.held))))
        for reading in log.readings():
            if self._random.random() < 0.7:
                limit = self._random.choice([0, 0, 1])
                self._world.do(lambda reading=reading, limit=limit: log.deliver(reading, limit))  # type: ignore[misc]

    # ---- the end

    def _work(self) -> None:
        for _turn in range(4):
            for client in self._clients.values():
                client.read()

    def _mend(self) -> None:
        self.story.append("everything is mended")
        world = self._world
        for log in world.logs:
            log.hold_appends = log.hold_reads = False
            log.lose_answers = log.lose_appends = log.repeat_appends = log.stamp_offset_us = 0
            while log.held:
                world.do(log.arrive)
            for reading in log.readings():
                world.do(lambda log=log, reading=reading: log.deliver(reading))  # type: ignore[misc]
        for _round in range(_ROUNDS):
            self._restart_nodes()
            world.advance(3)
            for client in self._clients.values():
                client.read()
                if not client.core.connected and self._random.random() < 0.7:
                    client.connect(self._random.choice(world.nodes))
            self._work()
            if all(client.is_done() for client in self._clients.values()) and self._all_received():
                break
        self._work()

    def _restart_nodes(self) -> None:
        """Nodes that are dead, or find that their epoch is closed, begin another life."""
        for node in list(self._world.nodes):
            if node.dead or any(writer.closed for writer in node.writers):
                if not node.dead:
                    node.kill()
                self._world.start(node.life.node)

    def _all_received(self) -> bool:
        sent = {payload for name in PUBLISHERS for payload in self._clients[name].sent}
        return all(sent <= set(self._clients[name].received) for name in SUBSCRIBERS)

    def _judge(self) -> None:
        for name in PUBLISHERS:
            self._check(self._clients[name].is_done(), f"{name} waits for acknowledgements")
        for name in SUBSCRIBERS:
            received = self._clients[name].received
            for publisher in PUBLISHERS:
                sent = self._clients[publisher].sent
                missing = [payload for payload in sent if payload not in received]
                self._check(not missing, f"lost: {name} never got {missing}")
                first = list(dict.fromkeys(payload for payload in received if payload.startswith(publisher.encode())))
                for qos in (b"1", b"2"):
                    of_qos = [payload for payload in first if payload.endswith(b"-" + qos)]
                    in_order = [payload for payload in sent if payload.endswith(b"-" + qos)]
                    self._check(of_qos == in_order, f"order: {name} got {of_qos} of {in_order}")
            if name == "s1":
                counts = Counter(payload for payload in received if payload.endswith(b"-2"))
                twice = [payload for payload, count in counts.items() if count > 1]
                self._check(not twice, f"twice: {name} got {twice}")
        digests = self._world.digests()
        self._check(all(other == digests[0] for other in digests), "digests differ")
        stored = Counter(
            message.payload
            for vnode in range(len(self._world.logs))
            for message in self._world.nodes[0].messages.of(vnode)
            if message.qos == 2
        )
        twice = [payload for payload, count in stored.items() if count > 1]
        self._check(not twice, f"stored twice: {twice}")

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise ViolationError("\n".join([f"seed {self.seed}: {what}", *self.story]))
