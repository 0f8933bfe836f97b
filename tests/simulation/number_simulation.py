"""Numbered messages by chance: two programs number what they publish, and begin with a new session every time.

They know of no session, so whatever was not acknowledged is sent again under another packet id, at any node. Promised:

    lost          every number is stored
    stored twice  none is stored twice, whichever node took it first
    order         numbers are stored in their order
"""

from dataclasses import replace
from typing import Final

from holdfast.client.core import SessionOptions
from holdfast.client.message import encode_message
from holdfast.durable.sessions.publish_numbers import PUBLISH_NUMBER
from holdfast.model.protocol import V5
from holdfast.wire.properties import Properties
from tests.simulation.seeded_cluster import Action, SeededCluster
from tests.simulation.sim_client import KEPT, SimClient

PROGRAMS: Final = ("n1", "n2", "n3")


class NumberSimulation(SeededCluster):
    """Programs without sessions, and one with a session."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for name in PROGRAMS:
            options = SessionOptions(client_id=name, keep_alive_s=0)
            if name == "n3":
                options = replace(KEPT, client_id=name)
            self.clients[name] = SimClient(self.world, name, self.story, options)

    def actions(self) -> list[Action]:
        return [(self._publish, 10.0), (self._move, 6.0)]

    def _publish(self) -> None:
        client = self.clients[self.random.choice(PROGRAMS)]
        for _message in range(self.random.randint(1, 3)):
            number = len(client.sent)
            payload = f"{client.name}-{number}".encode()
            client.sent.append(payload)
            properties = Properties(user_properties=((PUBLISH_NUMBER, str(number)),))
            qos = self.random.choice([1, 2])
            client.core.publish(encode_message(f"t/{client.name}", payload, qos, V5, properties=properties))
            client.flush()
        self.story.append(f"{client.name} has published {len(client.sent)}")

    def _move(self) -> None:
        client = self.clients[self.random.choice(PROGRAMS)]
        client.connect(self.random.choice(self.alive()))

    def is_finished(self) -> bool:
        return all(client.is_done() for client in self.clients.values())

    def judge(self) -> None:
        stored = self.stored()
        for name, client in self.clients.items():
            self.check(client.is_done(), f"{name} waits for acknowledgements")
            of_client = [payload for payload in stored if payload.startswith(name.encode())]
            self.check(of_client == client.sent, f"stored of {name}: {of_client}, published: {client.sent}")
        self.check_digests()
