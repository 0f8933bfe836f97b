"""Many clients that are back at once get what they are owed, a bounded part of it in each turn."""

from pathlib import Path

from holdfast.wire.codec import encode
from holdfast.wire.packets import Connack, Publish
from tests.disk_world import DiskWorld, publish
from tests.slow_world import connect, kept
from tests.world import Peer

CLIENTS = 40
MESSAGES = 150
#: What one turn may send to all, and then to the client that it is at.
MOST = 2_000 + 1_000


def test_one_turn_sends_a_bounded_part_and_the_rest_follows(tmp_path: Path) -> None:
    with DiskWorld(tmp_path) as world:
        names = [f"c{number}" for number in range(CLIENTS)]
        for name in names:
            peer = kept(world, name)
            peer.subscribe("news", qos=1)
            peer.drop()
        publish(world, *(("news", b"%d" % number) for number in range(MESSAGES)))
        exchange = world.broker.exchange
        sent: list[int] = []
        turn = exchange.run_iteration

        def counted() -> None:
            before = exchange.counters.messages_out
            turn()
            sent.append(exchange.counters.messages_out - before)

        world.broker.exchange.run_iteration = counted  # type: ignore[method-assign]
        peers: list[Peer] = [world.peer() for _name in names]

        def all_back() -> None:
            for name, peer in zip(names, peers, strict=True):
                world.broker.received(peer.channel, encode(connect(name), peer.version))

        world.do(all_back)
        while sum(sent) < CLIENTS * MESSAGES:
            before = len(sent)
            world.settle()
            assert len(sent) > before, "nothing goes on"
        assert max(sent) <= MOST
        assert sum(sent) == CLIENTS * MESSAGES
        assert all(peer.take(Connack).session_present for peer in peers)
        assert {len(peer.take_all(Publish)) for peer in peers} == {MESSAGES}
