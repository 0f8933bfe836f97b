"""Groups by chance: members move, nodes die, leaders change, packets between nodes are late, lost or out of order.

Two groups subscribe to everything, one with QoS 1 and one with QoS 2, each with members in both vnodes.

missed    what is published behind the first SUBACK of a group reaches a member of it
twice     no message has reached the members of the QoS 2 group more than once, all together
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from holdfast.client.errors import Event
from holdfast.client.message import encode_message
from holdfast.model.protocol import V5
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Suback, Subscription
from tests.cluster_world import ClusterNode
from tests.simulation.seeded_cluster import Action, SeededCluster
from tests.simulation.sim_client import KEPT, SimClient

#: One of each vnode.
PUBLISHERS: Final = ("p1", "p4")
#: Members by group, and the QoS of its subscriptions.
GROUPS: Final[dict[str, tuple[int, tuple[str, ...]]]] = {"g1": (1, ("a1", "a4")), "g2": (2, ("b1", "b4", "b2"))}


class Member(SimClient):
    """A client that subscribes until it is told that it has."""

    group = ""
    qos = 0
    is_asking = False
    is_member = False

    def subscribe(self) -> None:
        self.is_asking = True
        self._story.append(f"{self.name} subscribes")
        self.core.subscribe([Subscription(parse_filter(f"$share/{self.group}/t/#".encode()), self.qos)])
        self.flush()

    def connect(self, node: ClusterNode) -> None:
        self.is_asking = False
        super().connect(node)

    def handle(self, event: Event) -> None:
        if isinstance(event, Suback):
            self.is_asking = False
            self.is_member = self.is_member or event.reasons[0] == self.qos
            self._story.append(f"{self.name} has SUBACK {event.reasons[0]:#x}")
        super().handle(event)


class GroupSimulation(SeededCluster):
    """Publishers, and members of two groups."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._members: dict[str, Member] = {}
        for group, (qos, names) in GROUPS.items():
            for name in names:
                member = Member(self.world, name, self.story, replace(KEPT, client_id=name))
                member.group, member.qos = group, qos
                self._members[name] = member
        self.clients.update(self._members)
        for name in PUBLISHERS:
            self.clients[name] = SimClient(self.world, name, self.story, replace(KEPT, client_id=name))
        #: What was published behind the first SUBACK of each group.
        self._owed: dict[str, list[bytes]] = {group: [] for group in GROUPS}

    def begin(self) -> None:
        self.world.lead(3)
        for client in self.clients.values():
            client.connect(self.random.choice(self.world.nodes))
        self.work()
        self.world.hold_packets = True

    def actions(self) -> list[Action]:
        return [
            (self._publish, 10.0),
            (self._subscribe, 8.0),
            (self._move, 4.0),
            (self._carry, 30.0),
            (self._lead, 5.0),
            (self._forget_packets, 1.0),
        ]

    def _subscribe(self) -> None:
        member = self.random.choice(list(self._members.values()))
        if member.core.connected and not member.is_asking and not member.is_member:
            member.subscribe()

    def _publish(self) -> None:
        client = self.clients[self.random.choice(PUBLISHERS)]
        payload = f"{client.name}-{len(client.sent)}".encode()
        client.sent.append(payload)
        for member in self._members.values():
            member.read()
        for group in GROUPS:
            if any(member.is_member for member in self._members.values() if member.group == group):
                self._owed[group].append(payload)
        self.story.append(f"{client.name} publishes {payload!r}")
        client.core.publish(encode_message(f"t/{client.name}", payload, 2, V5))
        client.flush()

    def _move(self) -> None:
        self.random.choice(list(self.clients.values())).connect(self.random.choice(self.alive()))

    def _lead(self) -> None:
        self.world.lead()

    def _carry(self) -> None:
        """Packets between nodes arrive, mostly in order."""
        for _packet in range(self.random.randrange(6)):
            if self.world.packets:
                index = 0 if self.random.random() < 0.8 else self.random.randrange(len(self.world.packets))
                self.world.do(lambda index=index: self.world.carry_packet(index, lose=self.random.random() < 0.1))  # type: ignore[misc]

    def _forget_packets(self) -> None:
        self.story.append("packets between nodes are lost")
        self.world.packets.clear()

    # ---- the end

    def mend_round(self) -> None:
        self.world.hold_packets = False
        while self.world.packets:
            self.world.do(self.world.carry_packet)
        super().mend_round()
        for member in self._members.values():
            if member.core.connected and not member.is_asking and not member.is_member:
                member.subscribe()
        self.world.lead()

    def is_finished(self) -> bool:
        members = self._members.values()
        done = all(client.is_done() for client in self.clients.values()) and all(one.is_member for one in members)
        return done and not any(self._missed(group) for group in GROUPS)

    def _received(self, group: str) -> Counter[bytes]:
        members = [member for member in self._members.values() if member.group == group]
        return Counter([payload for member in members for payload in member.received])

    def _missed(self, group: str) -> list[bytes]:
        received = self._received(group)
        return [payload for payload in self._owed[group] if payload not in received]

    def judge(self) -> None:
        for group in GROUPS:
            missed = self._missed(group)
            self.check(not missed, f"missed: {group} never got {missed}")
        twice = [payload for payload, count in self._received("g2").items() if count > 1]
        self.check(not twice, f"twice: members of g2 got {twice}")
        self.check_digests()
