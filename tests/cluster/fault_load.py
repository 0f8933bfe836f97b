"""Clients of a cluster that is harmed: publishers and subscribers with a node that they prefer, and visitors.

What they do and see stands in one ledger (`tests/crash/broker_ledger.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from holdfast.model.protocol import V5, V311
from holdfast.model.reasons import SERVER_BUSY
from holdfast.records.cluster.vnode_keys import vnode_of
from holdfast.records.session.groups import GROUP_PREFIX
from holdfast.wire.packets import Connack, Connect, Packet, Will
from holdfast.wire.properties import Properties
from tests.cluster.fault_cluster import NODES, VNODES
from tests.crash.broker_client import SteadyClient
from tests.crash.broker_ledger import Ledger, Received
from tests.crash.broker_publisher import Publisher
from tests.crash.broker_run import RetainedProbe
from tests.crash.broker_subscriber import Subscriber

#: Seconds that a client may be without progress when a fault has ended.
BLOCKED_S = 30.0
_LOOK_S = 0.02
#: The subscriber that nothing comes to unless a client dies.
_WILLS = 2


class Homed(SteadyClient):
    """Connects to the node that it was told; to the next one if that does not take it."""

    ports: list[int]
    #: The node that it is connected to, or tries next.
    node = 1
    _tried_at = -1

    def next_port(self) -> int:
        if self._tried_at == self.connects:
            self.node = self.node % NODES + 1
        self._tried_at = self.connects
        return self.ports[self.node - 1]

    def go_home(self, node: int) -> None:
        if self.node != node or not self.online:
            self.node = node
            self._tried_at = -1
            self.online = False
            self.online_again.clear()
            self.break_off()

    def is_home(self, node: int) -> bool:
        return self.online and self.node == node

    def is_online(self) -> bool:
        return self.online


class HomedPublisher(Homed, Publisher):
    """Publishes while it is not paused."""

    going: asyncio.Event

    async def publish(self) -> None:
        topics = list(self.topics.items())
        while True:
            await self.going.wait()
            await self.online_again.wait()
            for _ in range(self.dice.randrange(1, 8)):
                if self.online and len(self._in_flight) < self.window:
                    self._publish_one(*self.dice.choice(topics))
            await asyncio.sleep(self.pace_s * self.dice.random())

    def has_progress(self, mark: int) -> bool:
        """Whether something was acknowledged that was sent later than this."""
        for topic in self.topics:
            sent = self.ledger.sent.get(topic)
            if sent is not None and any(
                at > mark and sent.acknowledged_at[-index] for index, at in enumerate(reversed(sent.sent_at), 1)
            ):
                return True
        return False


class HomedSubscriber(Homed, Subscriber):
    def has_progress(self, mark: int) -> bool:
        """Whether something came that was sent later than this."""
        return self.received is not None and _came_after(self.ledger, self.received, mark)


class HomedPump(HomedPublisher):
    """One message at a time: each is a record of its own."""

    sizes = (0,)

    async def publish(self) -> None:
        (topic, qos), *_rest = self.topics.items()
        while True:
            await self.going.wait()
            await self.online_again.wait()
            if self.online and not self._in_flight:
                self._publish_one(topic, qos)
            await asyncio.sleep(0)
            if not self.online:
                continue
            await self.idle.wait()


class Visitor(Homed):
    """Connects, and does nothing more."""

    will: Will | None = None

    def begin(self, *, resumed: bool) -> None:
        pass

    def handle(self, packet: Packet) -> None:
        self.ledger.wrong(f"{self.name}: {packet} for a visitor")

    def _greet(self, packet: Packet, *, first_time: bool) -> bool:
        if isinstance(packet, Connack) and packet.reason == SERVER_BUSY:
            return False  # a newer connection of its client id is there
        return super()._greet(packet, first_time=first_time)

    def connect_packet(self) -> Connect:
        properties = Properties(session_expiry_interval=3600)
        return Connect(V5, self.name, clean_start=False, will=self.will, properties=properties)


def _came_after(ledger: Ledger, received: Received, mark: int) -> bool:
    for topic, arrivals in received.topics.items():
        sent = ledger.sent.get(topic)
        if sent is not None and any(sent.sent_at[arrival.number] > mark for arrival in arrivals[-50:]):
            return True
    return False


def named_in_vnode(name: str, vnode: int) -> str:
    """A client id of a vnode."""
    return next(found for number in range(100) if vnode_of(found := f"{name}-{number}", VNODES) == vnode)


def _group_in_vnode(topic_filter: str, vnode: int) -> str:
    """A shared subscription whose group is in a vnode."""
    names = [f"$share/team-{number}/{topic_filter}" for number in range(100)]
    return next(name for name in names if vnode_of(GROUP_PREFIX + name, VNODES) == vnode)


GROUP = _group_in_vnode("crash/+/two/b", 0)


class FaultLoad:
    """All clients of one cluster."""

    def __init__(self, ports: list[int], seed: int) -> None:
        self.ledger = Ledger()
        self.dice = random.Random(seed)
        self._ports = ports
        self.publishers: list[HomedPublisher] = []
        self.subscribers: list[HomedSubscriber] = []
        self.members: list[HomedSubscriber] = []
        self.visitors: list[Visitor] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._visits = 0
        self._wills = 0
        self.rotating = self._new_publisher("rotating", V5, {"rotate/a": 1}, 0.05)
        self.pumps = [self._new_publisher(f"pump-{at}", V5, {f"pump/{at}": 1}, 0.0, HomedPump) for at in range(NODES)]

    async def start(self) -> None:
        """The clients of vnode 0 are the ones whose brokers are killed; one of each kind is elsewhere."""
        both = {"crash/{}/one/a": 1, "crash/{}/one/b": 1, "crash/{}/two/a": 2, "crash/{}/two/b": 2}
        self.subscribers = [
            self._new_subscriber("all", V5, "crash/#", 2),
            self._new_subscriber("once", V311, "crash/#", 1),
            self._new_subscriber("wills", V5, "will/#", 2),
            self._new_subscriber("mover", V5, "crash/+/two/a", 2, receive_maximum=5),
        ]
        for subscriber in self.subscribers:
            await self.until(subscriber.subscribed.is_set, f"{subscriber.name} has its SUBACK")
        for name, version, vnode in (("p5", V5, 0), ("p3", V311, 1)):
            topics = {topic.format(name): qos for topic, qos in both.items()}
            self.publishers.append(self._new_publisher(name, version, topics, 0.25, vnode=vnode))
        retained = {f"state/{number}": 1 + number % 2 for number in range(2)}
        self.publishers.append(self._new_publisher("state", V5, retained, 0.5, retain=True))
        self.go_on()

    async def start_group(self) -> None:
        """Requires: its vnode has a leader; without one a SUBSCRIBE is refused."""
        self.members = [self._new_subscriber(f"member-{at}", V5, GROUP, 2, receive_maximum=10) for at in range(2)]
        for member in self.members:
            await self.until(member.subscribed.is_set, f"{member.name} has its SUBACK")

    @property
    def mover(self) -> HomedSubscriber:
        return self.subscribers[-1]

    def _homed(self, client: Homed, node: int) -> None:
        client.ports = self._ports
        client.node = node
        self._tasks.append(asyncio.create_task(client.run()))

    def _new_publisher(
        self,
        name: str,
        version: int,
        topics: dict[str, int],
        pace_s: float,
        kind: type[HomedPublisher] = HomedPublisher,
        *,
        vnode: int = 0,
        retain: bool = False,
    ) -> HomedPublisher:
        name = named_in_vnode(name, vnode)
        dice = random.Random(self.dice.random())
        publisher = kind(name, 0, self.ledger, dice, version, topics, retain=retain, pace_s=pace_s)
        publisher.going = asyncio.Event()
        self._homed(publisher, 1 + len(self._tasks) % NODES)
        self._tasks.append(asyncio.create_task(publisher.publish()))
        return publisher

    def _new_subscriber(
        self, name: str, version: int, topic_filter: str, qos: int, *, receive_maximum: int = 0
    ) -> HomedSubscriber:
        dice = random.Random(self.dice.random())
        subscriber = HomedSubscriber(
            named_in_vnode(name, 0),
            *(0, self.ledger, dice, version, topic_filter, qos),
            receive_maximum=receive_maximum,
        )
        self._homed(subscriber, 1 + len(self._tasks) % NODES)
        return subscriber

    # ---- visitors

    def visit(self, node: int, *, name: str = "", will_delay_s: int = -1, vnode: int = 0) -> Visitor:
        """A client that is not known yet, or another connection of one that is; with a will or without."""
        self._visits += 1
        visitor = Visitor(
            name or named_in_vnode(f"visitor-{self._visits}", vnode), 0, self.ledger, random.Random(self._visits), V5
        )
        visitor._asked = bool(name)
        if will_delay_s >= 0:
            self._wills += 1
            delay = Properties(will_delay_interval=will_delay_s)
            visitor.will = Will(f"will/{self._wills}", b"1 will", 2, properties=delay)
        self.visitors.append(visitor)
        self._homed(visitor, node)
        return visitor

    def die(self, visitor: Visitor) -> None:
        """Its connection breaks, and it does not come back: its will is owed."""
        assert visitor.will is not None
        topic = visitor.will.topic
        self.ledger.acknowledges(topic, self.ledger.sends(topic, 2))
        visitor._leaving = True
        visitor.break_off()
        self.visitors.remove(visitor)

    def send_away(self) -> None:
        """All visitors go, and say so."""
        for visitor in self.visitors:
            visitor.leave()
        self.visitors.clear()

    # ---- all clients

    def clients(self) -> list[Homed]:
        return [*self.publishers, *self.subscribers, *self.members, self.rotating, *self.pumps]

    def online(self) -> dict[str, int]:
        """The node of each client that is connected."""
        return {client.name: client.node for client in self.clients() if client.online}

    async def homed(self, homes: dict[Homed, int]) -> None:
        """Have clients connect to nodes, and wait until they are there."""
        for client, node in homes.items():
            client.go_home(node)
        for client, node in homes.items():
            await self.until(partial(self._at_home, client, node), f"{client.name} at node {node}")

    def _at_home(self, client: Homed, node: int) -> bool:
        if client.online and client.node != node:
            client.go_home(node)
        return client.is_home(node)

    def go_on(self) -> None:
        for publisher in self.publishers:
            publisher.going.set()

    def pause(self) -> None:
        for publisher in [*self.publishers, self.rotating, *self.pumps]:
            publisher.going.clear()

    async def until(self, true: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Wait for something that has to come."""
        try:
            async with asyncio.timeout(timeout_s):
                while not true():
                    self._check_tasks()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}") from None

    def _check_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        self._tasks = [task for task in self._tasks if not task.done()]

    async def recovered(self) -> float:
        """Seconds from now until nobody is blocked: publishers, subscribers, and new clients at every node."""
        loop = asyncio.get_running_loop()
        began_s, mark = loop.time(), self.ledger.tick()
        news = [self.visit(node, vnode=node % VNODES) for node in range(1, NODES + 1)]
        # They wait for the node that they were sent to.
        for new in news:
            new.ports = [new.ports[new.node - 1]] * NODES
        waits: list[HomedPublisher | HomedSubscriber] = [*self.publishers, *self.subscribers]
        waits.remove(self.subscribers[_WILLS])
        while True:
            blocked = [client.name for client in waits if not client.has_progress(mark)]
            if not any(member.has_progress(mark) for member in self.members):
                blocked.append("the group")
            blocked += [f"a new client at node {new.node}" for new in news if not new.online]
            passed_s = loop.time() - began_s
            if not blocked:
                break
            if passed_s > BLOCKED_S:
                self.ledger.wrong(f"blocked {BLOCKED_S:g} s after the fault ended: {', '.join(blocked)}")
                break
            self._check_tasks()
            await asyncio.sleep(_LOOK_S)
        self.send_away()
        return passed_s

    async def drained(self, patience_s: float = 45.0) -> None:
        """Everything that is acknowledged arrives, or that is wrong. Publishers are paused from here on."""
        self.pause()
        publishers = [*self.publishers, self.rotating, *self.pumps]
        try:
            for publisher in publishers:
                await self.until(publisher.idle.is_set, f"{publisher.name} has all acknowledgements", patience_s)
            await self.until(self._has_all, "everything arrives", patience_s)
        except TimeoutError as late:
            self.ledger.wrong(str(late))

    def _has_all(self) -> bool:
        return not self.ledger.missing() and not self.ledger.missing_in_groups()

    def verdict(self) -> list[str]:
        """What the clients saw that is wrong."""
        return self.ledger.verdict() + self.ledger.missing_in_groups()

    async def probe_retained(self, node: int) -> None:
        """Whether a node shows what was acknowledged last as retained messages, or something later."""
        self._visits += 1
        dice = random.Random(self._visits)
        probe = RetainedProbe(f"probe-{self._visits}", self._ports[node - 1], self.ledger, dice, may_be_behind=True)
        task = asyncio.create_task(probe.run())
        try:
            await self.until(probe.done.is_set, "retained messages", BLOCKED_S)
        except TimeoutError:
            self.ledger.wrong(f"retained at node {node}: {probe.values}, and {probe.least} were acknowledged")
        probe.leave()
        await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
