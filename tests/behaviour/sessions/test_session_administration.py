"""A queue that is emptied on one node and in a cluster, and what a cluster leaves to its log."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.exchange.drops import DROP_PURGED
from holdfast.model.errors import PermanentError
from holdfast.model.protocol import PUBACK
from holdfast.wire.packets import Ack, Publish
from tests.broker_backends import OpenWorld, ThreeNodes
from tests.disk_world import back, payloads, publish
from tests.slow_world import kept
from tests.world import Peer


def purge(peer: Peer, session_id: str) -> int | None:
    """Empty a queue at the node of a connection. What is in memory, or is refused, needs no waiting."""
    found: list[Any] = []

    def do() -> None:
        try:
            peer.world.broker.administration.purge(session_id, None).send(None)
        except StopIteration as done:
            found.append(done.value)
        except PermanentError as error:
            found.append(error)

    peer.world.do(do)
    (result,) = found
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


def test_an_emptied_queue_stays_empty_after_a_restart(open_world: OpenWorld) -> None:
    with open_world() as world:
        peer = kept(world, "a", receive_maximum=1)
        peer.subscribe("t", qos=1)
        publish(world, *(("t", b"%d" % number) for number in range(5)))
        (first,) = peer.take_all(Publish)
        assert purge(peer, "a")
        assert world.drops()[DROP_PURGED]
        peer.send(Ack(PUBACK, first.packet_id))
        assert peer.inbox == []
        publish(world, ("t", b"new"))
        assert payloads(peer) == [b"new"]
        world.tick()
        peer.drop()
        world.tick()
    with open_world(start_us=1_700_000_010_000_000) as world:
        assert payloads(back(world, "a")) == []


def test_in_a_cluster_the_log_ends_sessions_and_the_node_of_a_connection_empties_its_queue(tmp_path: Path) -> None:
    with ThreeNodes(tmp_path)() as world:
        peer = kept(world, "a")
        with pytest.raises(PermanentError, match="holdfast sessions kick"):
            peer.world.broker.end_session("a", "because")
        assert not peer.closed
        assert not peer.world.broker.end_session("nobody", "because")
        peer.drop()
        world.tick()
        with pytest.raises(PermanentError, match="at the node"):
            purge(peer, "a")
