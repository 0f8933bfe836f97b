"""Messages in a cluster by chance: two clients publish with QoS 1 and 2, two have sessions that subscribe.

Meanwhile appends are slow, come twice or lose their answer, readers of the logs are behind, clients move between nodes,
nodes are fenced, killed and come back with nothing. Then everything is mended, and what was promised is looked at:

    lost          every message that was acknowledged to its publisher has reached both subscribers
    twice         no message of QoS 2 has reached a QoS 2 subscription more than once
    order         of each publisher and topic, first deliveries come in the order of publishing
    digests       all nodes have decided alike
    stored twice  no message of QoS 2 lies in the log more than once
    session       every session goes on, wherever its client connects
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from holdfast.client.message import encode_message
from holdfast.model.protocol import V5
from tests.simulation.seeded_cluster import Action, SeededCluster, ViolationError
from tests.simulation.sim_client import KEPT, SimClient

__all__ = ["Simulation", "ViolationError"]

PUBLISHERS: Final = ("p1", "p2")
#: With the QoS of their subscription.
SUBSCRIBERS: Final = {"s1": 2, "s2": 1}


class Simulation(SeededCluster):
    """Publishers and subscribers with sessions that are kept."""

    client_class: type[SimClient] = SimClient

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for name in (*PUBLISHERS, *SUBSCRIBERS):
            subscription = (b"t/#", SUBSCRIBERS[name]) if name in SUBSCRIBERS else None
            options = replace(KEPT, client_id=name)
            self.clients[name] = self.client_class(self.world, name, self.story, options, subscription)

    def begin(self) -> None:
        for name in SUBSCRIBERS:
            self.clients[name].connect(self.random.choice(self.world.nodes))
            self.work()

    def actions(self) -> list[Action]:
        return [(self._publish, 10.0), (self._move, 5.0)]

    def _move(self) -> None:
        client = self.random.choice(list(self.clients.values()))
        alive = self.alive()
        if self.random.random() < 0.2 or not alive:
            self.story.append(f"{client.name} loses its connection")
            client.leave()
        else:
            client.connect(self.random.choice(alive))

    def _publish(self) -> None:
        client = self.clients[self.random.choice(PUBLISHERS)]
        for _message in range(self.random.randint(1, 3)):
            qos = self.random.choice([1, 2])
            payload = f"{client.name}-{len(client.sent)}-{qos}".encode()
            client.sent.append(payload)
            client.core.publish(encode_message(f"t/{client.name}", payload, qos, V5))
            client.flush()
        self.story.append(f"{client.name} has published {len(client.sent)}")

    def is_finished(self) -> bool:
        sent = {payload for name in PUBLISHERS for payload in self.clients[name].sent}
        return all(client.is_done() for client in self.clients.values()) and all(
            sent <= set(self.clients[name].received) for name in SUBSCRIBERS
        )

    def judge(self) -> None:
        for name in PUBLISHERS:
            self.check(self.clients[name].is_done(), f"{name} waits for acknowledgements")
        for name, client in self.clients.items():
            self.check(all(client.present[1:]), f"session: {name} found none")
        for name in SUBSCRIBERS:
            received = self.clients[name].received
            for publisher in PUBLISHERS:
                sent = self.clients[publisher].sent
                missing = [payload for payload in sent if payload not in received]
                self.check(not missing, f"lost: {name} never got {missing}")
                first = list(dict.fromkeys(payload for payload in received if payload.startswith(publisher.encode())))
                for qos in (b"1", b"2"):
                    of_qos = [payload for payload in first if payload.endswith(b"-" + qos)]
                    in_order = [payload for payload in sent if payload.endswith(b"-" + qos)]
                    self.check(of_qos == in_order, f"order: {name} got {of_qos} of {in_order}")
            if SUBSCRIBERS[name] == 2:
                counts = Counter(payload for payload in received if payload.endswith(b"-2"))
                twice = [payload for payload, count in counts.items() if count > 1]
                self.check(not twice, f"twice: {name} got {twice}")
        self.check_digests()
        counts = Counter(payload for payload in self.stored() if payload.endswith(b"-2"))
        twice = [payload for payload, count in counts.items() if count > 1]
        self.check(not twice, f"stored twice: {twice}")
