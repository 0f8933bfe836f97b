"""Retained messages by chance: values come, are removed and are answered, by clients of different vnodes.

Promised at every moment, on every node that has caught up with the logs of its start:

    returned  no value is shown that this node has shown replaced or removed before, and none that is kept disappears

Promised, when everything is mended:

    alike     all nodes show the same value of each topic
    own       of a topic with one publisher that is what it published last: nothing, if that was a removal
    answered  no value is shown that a client has seen, and answered by another value or by a removal
"""

from dataclasses import replace
from typing import Final

from holdfast.client.message import encode_message
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import RETAINED
from holdfast.model.protocol import V5
from holdfast.records.retained import MESSAGE, has_payload, retained_key, retained_order, retained_topic
from holdfast.wire.packets import Publish
from tests.cluster_world import ClusterNode
from tests.simulation.seeded_cluster import Action, SeededCluster
from tests.simulation.sim_client import KEPT, SimClient

#: Two of each vnode.
PUBLISHERS: Final = ("p1", "p2", "p3", "p4")
TOPICS: Final = ("shared/0", "shared/1")


class Answering(SimClient):
    """A client that has seen values of topics which it shares with others."""

    seen: dict[str, bytes]

    def handle(self, event: object) -> None:
        if isinstance(event, Publish):
            self.seen = {**getattr(self, "seen", {}), event.topic: event.payload}
        super().handle(event)  # type: ignore[arg-type]


class RetainedSimulation(SeededCluster):
    """Publishers of retained messages that see each other's."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for name in PUBLISHERS:
            options = replace(KEPT, client_id=name)
            self.clients[name] = Answering(self.world, name, self.story, options, (b"shared/+", 1))
        self._own: dict[str, bytes] = {}
        #: By topic: values that were seen and answered.
        self._answered: dict[str, set[bytes]] = {topic: set() for topic in TOPICS}
        self._count = 0
        #: By node and life: the ends of the logs when it was seen first, and by topic the greatest entry that it had.
        self._started_at: dict[ClusterNode, list[int]] = {}
        self._greatest: dict[ClusterNode, dict[str, tuple[int, int, bool]]] = {}
        self._still: MemoryOrderedLog | None = None
        self.world.watch = self._note_entries

    def begin(self) -> None:
        for client in self.clients.values():
            client.connect(self.random.choice(self.world.nodes))
        self.work()

    def actions(self) -> list[Action]:
        return [
            (self._publish_own, 6.0),
            (self._publish_shared, 3.0),
            (self._answer, 8.0),
            (self._move, 5.0),
            (self.slow_clock, 3.0),
            (self.world.lead, 8.0),
            (self._stand_still, 4.0),
        ]

    def _stand_still(self) -> None:
        """Nothing arrives in one log for a while, or its time stands still: the other one is compacted meanwhile."""
        self._still = self.random.choice((None, *self.world.logs))
        if self._still is not None:
            self.slow_stamps(self._still)

    def chosen_log(self) -> MemoryOrderedLog:
        others = [log for log in self.world.logs if log is not self._still]
        return self.random.choice(others)

    def let_through(self) -> None:
        super().let_through()
        for node in self.alive():
            if not node.fenced:
                self._check_node(node)

    def _note_entries(self, node: ClusterNode, outcome: Outcome) -> None:
        """A removal, and the end of what it leaves, may be applied between two looks at a node."""
        greatest = self._greatest.setdefault(node, {})
        for family, changes in outcome.changes.families():
            for key, value in changes.operations if family == RETAINED else ():
                if isinstance(value, bytes) and key[0] == MESSAGE:
                    entry = (*retained_order(value), has_payload(value))
                    topic = retained_topic(key).decode()
                    greatest[topic] = max(entry, greatest.get(topic, entry))

    def _check_node(self, node: ClusterNode) -> None:
        """What a node shows is the greatest that it ever had of a topic, in this life."""
        if node not in self._started_at:
            self._started_at[node] = [log._last() for log in self.world.logs]
        ends = self._started_at[node]
        if any(applier.place.sequence < end for applier, end in zip(node.appliers, ends, strict=True)):
            return
        greatest = self._greatest.setdefault(node, {})
        for topic in (*TOPICS, *self._own):
            values = [tables.get(RETAINED, retained_key(topic.encode())) for tables in node.tables]
            entries = [(*retained_order(value), has_payload(value)) for value in values if value is not None]
            shown = max(entries, default=(0, 0, False))
            before = greatest.get(topic, (0, 0, False))
            greatest[topic] = max(shown, before)
            returned = f"returned: node {node.life.node} has {entries} of {topic}, and had {before}"
            self.check(shown >= before or not (before[2] or shown[2]), returned)

    def _publish_own(self) -> None:
        client = self.clients[self.random.choice(PUBLISHERS)]
        topic = f"own/{client.name}"
        self._own[topic] = self._publish(client, topic)

    def _publish_shared(self) -> None:
        self._publish(self.clients[self.random.choice(PUBLISHERS)], self.random.choice(TOPICS))

    def _answer(self) -> None:
        client = self.clients[self.random.choice(PUBLISHERS)]
        topic = self.random.choice(TOPICS)
        value = getattr(client, "seen", {}).get(topic)
        # What is on its way already is no answer: it was published without having seen that value.
        if value and client.is_done():
            self._answered[topic].add(value)
            self.story.append(f"{client.name} answers {value!r}")
            self._publish(client, topic)

    def _publish(self, client: SimClient, topic: str) -> bytes:
        self._count += 1
        payload = b"" if self.random.random() < 0.3 else f"{client.name}-{self._count}".encode()
        self.story.append(f"{client.name} retains {payload!r} under {topic}")
        client.core.publish(encode_message(topic, payload, 2, V5, retain=True))
        client.flush()
        return payload

    def _move(self) -> None:
        self.clients[self.random.choice(PUBLISHERS)].connect(self.random.choice(self.alive()))

    def is_finished(self) -> bool:
        return all(client.is_done() for client in self.clients.values())

    def judge(self) -> None:
        for name, client in self.clients.items():
            self.check(client.is_done(), f"{name} waits for acknowledgements")
        now_us = self.world.clock.wall_us()
        shown: list[dict[str, bytes]] = []
        for node in self.world.nodes:
            values = {topic: node.retained.get(topic.encode(), now_us) for topic in (*TOPICS, *self._own)}
            shown.append({topic: b"" if found is None else found.payload for topic, found in values.items()})
        self.check(all(other == shown[0] for other in shown), f"alike: the nodes show {shown}")
        for topic, last in self._own.items():
            self.check(shown[0][topic] == last, f"own: {topic} is {shown[0][topic]!r}, published last was {last!r}")
        for topic, answered in self._answered.items():
            self.check(shown[0][topic] not in answered, f"answered: {topic} is {shown[0][topic]!r}")
        self.check_digests()
