"""Subscriptions by chance: clients subscribe while messages are on their way, and the times of vnodes are apart.

missed    what is published behind a SUBACK reaches its subscriber, whichever vnode it is stored in
twice     no message of QoS 2 has reached a QoS 2 subscription more than once
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from holdfast.client.errors import Event
from holdfast.client.message import encode_message
from holdfast.model.protocol import V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Suback, Subscription
from tests.simulation.seeded_cluster import Action, SeededCluster
from tests.simulation.sim_client import KEPT, SimClient

#: One of each vnode.
PUBLISHERS: Final = ("p1", "p4")
SUBSCRIBERS: Final = ("s1", "s4")


class Subscriber(SimClient):
    """A client that notes what it was told."""

    asked = False
    answered = False

    def handle(self, event: Event) -> None:
        if isinstance(event, Suback):
            self.answered = True
        super().handle(event)


class SubscriptionSimulation(SeededCluster):
    """Publishers, and subscribers that come later."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._subscribers = {
            name: Subscriber(self.world, name, self.story, replace(KEPT, client_id=name)) for name in SUBSCRIBERS
        }
        self.clients.update(self._subscribers)
        for name in PUBLISHERS:
            self.clients[name] = SimClient(self.world, name, self.story, replace(KEPT, client_id=name))
        #: What was published behind the SUBACK of each subscriber.
        self._owed: dict[str, list[bytes]] = {name: [] for name in SUBSCRIBERS}

    def begin(self) -> None:
        for client in self.clients.values():
            client.connect(self.random.choice(self.world.nodes))
        self.work()

    def actions(self) -> list[Action]:
        return [(self._publish, 10.0), (self._subscribe, 2.0), (self._move, 4.0), (self.slow_clock, 3.0)]

    def _subscribe(self) -> None:
        subscriber = self._subscribers[self.random.choice(SUBSCRIBERS)]
        if subscriber.core.connected and not subscriber.asked:
            subscriber.asked = True
            self.story.append(f"{subscriber.name} subscribes")
            subscriber.core.subscribe([Subscription(parse_filter(b"t/#"), 2)])
            subscriber.flush()

    def _publish(self) -> None:
        client = self.clients[self.random.choice(PUBLISHERS)]
        payload = f"{client.name}-{len(client.sent)}".encode()
        client.sent.append(payload)
        for name, subscriber in self._subscribers.items():
            subscriber.read()
            if subscriber.answered:
                self._owed[name].append(payload)
        self.story.append(f"{client.name} publishes {payload!r}")
        client.core.publish(encode_message(f"t/{client.name}", payload, 2, V5))
        client.flush()

    def _move(self) -> None:
        self.random.choice(list(self.clients.values())).connect(self.random.choice(self.alive()))

    def is_finished(self) -> bool:
        return all(client.is_done() for client in self.clients.values()) and not any(self._missed(SUBSCRIBERS))

    def _missed(self, names: tuple[str, ...]) -> list[list[bytes]]:
        return [
            [payload for payload in self._owed[name] if payload not in self._subscribers[name].received]
            for name in names
        ]

    def judge(self) -> None:
        for name, subscriber in self._subscribers.items():
            missed = self._missed((name,))[0]
            self.check(not missed, f"missed: {name} never got {missed}")
            twice = [payload for payload, count in Counter(subscriber.received).items() if count > 1]
            self.check(not twice, f"twice: {name} got {twice}")
        self.check_digests()
