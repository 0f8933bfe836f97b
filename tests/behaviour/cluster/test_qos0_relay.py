"""QoS 0 between nodes: it reaches the clients that want it, and no node where none does."""

import asyncio
from typing import Self

from holdfast.cluster.filter_exchange import SILENT_TICKS, FilterExchange
from holdfast.cluster.qos0_relay import Qos0Relay
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Publish, Unsubscribe
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.world import Peer


class RelayedWorld(ClusterWorld):
    """Nodes that also relay QoS 0, over subjects in memory."""

    def __enter__(self) -> Self:
        super().__enter__()
        #: (from, to) of every pack.
        self.packs: list[tuple[int, int]] = []
        self.exchanges: dict[int, FilterExchange] = {}
        self.relays: dict[int, Qos0Relay] = {}
        self.tasks: list[asyncio.Task[None]] = []
        for node in self.nodes:
            self.run(self._relay(node))
        self.tick()
        self.tick()
        return self

    async def _relay(self, node: ClusterNode) -> None:
        number = node.life.node

        async def tell(news: bytes) -> None:
            for other in self.exchanges.values():
                other.received(news)

        async def send(to: int, pack: bytes) -> None:
            self.packs.append((number, to))
            self.relays[to].received(pack)

        filters = FilterExchange(number, tell, lambda: [1, 2, 3])
        relay = Qos0Relay(number, send, filters.nodes_for, node.broker.exchange.pass_on, lambda *_dropped: None)
        self.exchanges[number], self.relays[number] = filters, relay
        node.broker.exchange.routing.watch = filters
        node.broker.exchange.intake.relay = relay.add
        loop = asyncio.get_running_loop()
        self.tasks += [loop.create_task(filters.run()), loop.create_task(relay.run())]

    def tick(self) -> None:
        for exchange in self.exchanges.values():
            self.do(exchange.tick)

    def __exit__(self, *error: object) -> None:
        for task in self.tasks:
            task.cancel()
        self.settle()
        super().__exit__(*error)  # type: ignore[arg-type]


def got(peer: Peer) -> list[bytes]:
    found = [packet.payload for packet in peer.inbox if isinstance(packet, Publish)]
    peer.inbox.clear()
    return found


def test_qos0_reaches_the_subscribers_of_all_nodes_and_no_other_node() -> None:
    with RelayedWorld() as world:
        one, two, three = world.nodes
        publisher, here, there = one.connect("p"), one.connect("here"), two.connect("there")
        other = three.connect("other")
        here.subscribe("a/#", qos=0)
        there.subscribe("a/+", qos=1)
        other.subscribe("b", qos=0)
        publisher.send(Publish("a/1", b"x", 0))
        assert [got(peer) for peer in (here, there, other)] == [[b"x"], [b"x"], []]
        assert world.packs == [(1, 2)]
        publisher.send(Publish("nobody", b"x", 0))
        assert world.packs == [(1, 2)]


def test_what_no_client_wants_any_more_is_not_relayed() -> None:
    with RelayedWorld() as world:
        one, two, _three = world.nodes
        publisher, first, second = one.connect("p"), two.connect("c1"), two.connect("c2")
        for peer in (first, second):
            peer.subscribe("a", qos=0)
        first.send(Unsubscribe(7, (parse_filter(b"a"),)))
        world.tick()
        publisher.send(Publish("a", b"1", 0))
        assert (got(first), got(second)) == ([], [b"1"])
        second.drop()
        world.tick()
        world.packs.clear()
        publisher.send(Publish("a", b"2", 0))
        assert world.packs == []


def test_a_node_of_which_nothing_is_heard_gets_everything() -> None:
    with RelayedWorld() as world:
        one, _two, three = world.nodes
        publisher, reader = one.connect("p"), three.connect("r")
        deaf = world.exchanges.pop(1)
        for _second in range(SILENT_TICKS):
            world.do(deaf.tick)
        reader.subscribe("a", qos=0)
        publisher.send(Publish("a", b"x", 0))
        assert sorted(world.packs) == [(1, 2), (1, 3)]
        assert got(reader) == [b"x"]
