"""Half-open connections by chance: clients connect anew while their old connection is still there.

What a client has sent is on its way for a while, on the old connection, too: a node may read it when the client is
served elsewhere already, in the same iteration of its loop in which it learns of that. And one node is far behind in
one log, while the others go on. Promised is what `Simulation` looks at.
"""

from holdfast.client.core import SessionOptions
from holdfast.durable.memory_ordered_log import MemoryReading
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.simulation.cluster_simulation import Simulation
from tests.simulation.seeded_cluster import Action
from tests.simulation.sim_client import SimClient, SimLink


class SlowClient(SimClient):
    """A client whose bytes are on their way until they are passed on."""

    def __init__(
        self,
        world: ClusterWorld,
        name: str,
        story: list[str],
        options: SessionOptions,
        subscription: tuple[bytes, int] | None = None,
    ) -> None:
        super().__init__(world, name, story, options, subscription)
        #: Connections that the client has given up and their nodes have not, and bytes on their way to each.
        self.old: list[SimLink] = []
        self.on_the_way: list[tuple[SimLink, bytes]] = []
        self.slow = False

    def connect(self, node: ClusterNode) -> None:
        link, self.link = self.link, None
        if link is not None:
            self.core.connection_lost()
            if not link.closed:
                self.old.append(link)
        super().connect(node)

    def flush(self) -> None:
        if not self.slow:
            super().flush()
            return
        data = self.core.take_output().data
        if data and self.link is not None:
            self.on_the_way.append((self.link, data))

    def arrive(self, choice: int = 0) -> None:
        """The first bytes of one connection arrive; `choice` says which one."""
        if self.on_the_way:
            chosen = self.on_the_way[choice % len(self.on_the_way)][0]
            first = next(index for index, (link, _data) in enumerate(self.on_the_way) if link is chosen)
            link, data = self.on_the_way.pop(first)
            if not link.closed and not link.node.dead:
                link.node.broker.received(link.channel, data)

    def lose_old(self) -> None:
        """The node notices that an old connection is gone."""
        link = self.old.pop(0)
        if not link.closed and not link.node.dead:
            link.closed = True
            self._world.do(lambda: link.node.broker.lost(link.channel))


class HalfOpenSimulation(Simulation):
    """Publishers and subscribers over a slow network."""

    client_class = SlowClient
    _behind: MemoryReading | None = None

    def actions(self) -> list[Action]:
        for client in self.slow_clients():
            client.slow = True
        return [
            *super().actions(),
            (self._arrive, 30.0),
            (self._arrive_with_entries, 40.0),
            (self._lose_old, 3.0),
            (self._fall_behind, 4.0),
        ]

    def let_through(self) -> None:
        """Nothing but `_arrive_with_entries` does: else nobody would be behind for long."""

    def slow_clients(self) -> list[SlowClient]:
        return [client for client in self.clients.values() if isinstance(client, SlowClient)]

    def _arrive(self) -> None:
        for client in self.slow_clients():
            if self.random.random() < 0.7:
                choice = self.random.randrange(100)
                self.world.do(lambda client=client, choice=choice: client.arrive(choice))  # type: ignore[misc]

    def _arrive_with_entries(self) -> None:
        """Bytes of clients and entries of a log reach a node with one iteration of its loop."""
        log = self.random.choice(self.world.logs)
        clients = [client for client in self.slow_clients() if self.random.random() < 0.7]

        def arrive() -> None:
            while log.held and self.random.random() < 0.8:
                log.arrive(self.random.randrange(len(log.held)))
            for client in clients:
                client.arrive(self.random.randrange(100))
            for reading in log.readings():
                if reading is not self._behind:
                    log.deliver(reading)

        self.world.do(arrive)

    def _fall_behind(self) -> None:
        """One node does not read one log for a while."""
        self._behind = self.random.choice(self.random.choice(self.world.logs).readings())

    def _lose_old(self) -> None:
        for client in self.slow_clients():
            if client.old:
                client.lose_old()

    def mend_round(self) -> None:
        for client in self.slow_clients():
            while client.on_the_way:
                self.world.do(client.arrive)
            while client.old:
                client.lose_old()
            client.slow = False
        super().mend_round()
