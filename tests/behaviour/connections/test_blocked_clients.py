"""Clients that an administrator blocks: refused, turned out, and let in again."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.access.authenticator import Authenticator
from holdfast.broker.access.blocks import Blocks
from holdfast.broker.broker import Broker
from holdfast.broker.connections.origin import Origin
from holdfast.files.block_file import Block
from holdfast.model.protocol import V5, V31, V311
from holdfast.model.reasons import ADMINISTRATIVE_ACTION, BANNED
from holdfast.wire.packets import Connack, Connect, Disconnect, Publish, Will
from tests.slow_world import MOUNTED, SlowWorld, connect, kept
from tests.world import ORIGIN, Peer, World

pytestmark = pytest.mark.compiled

NOT_AUTHORIZED_V3 = 5


def change(world: World, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a change, on the broker's loop."""
    found: list[asyncio.Task[Any]] = []
    world.do(lambda: found.append(asyncio.ensure_future(work)))
    return found[0].result()


def block(world: World, *blocks: Block) -> int:
    """How many connections were ended."""
    _added, ended = change(world, world.broker.block_administration.add(blocks))
    return int(ended)


def unblock(world: World, *keys: tuple[str, str]) -> None:
    change(world, world.broker.blocks.remove(keys))


def tried(world: World, client_id: str, version: int = V5, origin: Origin = ORIGIN, **options: Any) -> Connack:
    peer = world.peer(version, origin)
    peer.send(Connect(version, client_id, **options))
    return peer.take(Connack)


@pytest.mark.parametrize(("version", "reason"), [(V5, BANNED), (V311, NOT_AUTHORIZED_V3), (V31, NOT_AUTHORIZED_V3)])
def test_a_blocked_client_is_refused_with_the_code_of_its_version(version: int, reason: int) -> None:
    with World() as world:
        block(world, Block("client", "a", reason="not told"))
        refused = tried(world, "a", version)
        assert refused.reason == reason
        if version == V5:
            assert refused.properties.reason_string == "blocked by an administrator, by its client id"
        assert world.connect("b", version).connack.reason == 0
        unblock(world, ("client", "a"))
        assert tried(world, "a", version).reason == 0


def test_a_connected_client_goes_at_once_and_its_session_stays() -> None:
    with World() as world:
        peer, other = kept(world, "a"), world.connect("b")
        peer.subscribe("t", qos=1)
        assert block(world, Block("client", "a")) == 1
        assert peer.take(Disconnect).reason == ADMINISTRATIVE_ACTION
        assert peer.closed
        assert not other.closed
        other.send(Publish("t", b"meanwhile", 1, 1))
        unblock(world, ("client", "a"))
        assert kept(world, "a").payloads() == [b"meanwhile"]


def test_a_will_of_a_blocked_client_is_published() -> None:
    with World() as world:
        watcher = world.connect("watcher")
        watcher.subscribe("gone")
        world.connect("a", will=Will("gone", b"a"))
        block(world, Block("client", "a"))
        assert watcher.payloads() == [b"a"]


def test_a_block_by_address_meets_its_network_alone() -> None:
    near, far = Origin("test", "10.0.0.7", 1, "tcp", allow_anonymous=True), ORIGIN
    with World() as world:
        first: Peer = world.peer(V5, near)
        first.send(Connect(V5, "a"))
        assert first.take(Connack).reason == 0
        assert block(world, Block("address", "10.0.0.0/24")) == 1
        assert first.closed
        assert tried(world, "b", origin=near).reason == BANNED
        assert tried(world, "c", origin=far).reason == 0


def test_a_client_id_behind_a_mount_point_is_another_client() -> None:
    with World() as world:
        block(world, Block("client", "a"))
        assert tried(world, "a", origin=MOUNTED).reason == 0
        block(world, Block("client", f"{MOUNTED.mount_point}\0a"))
        assert tried(world, "a", origin=MOUNTED).reason == BANNED


def test_a_user_is_blocked_as_it_was_verified_and_not_as_it_was_claimed() -> None:
    proven = Origin("test", "127.0.0.1", 1, "tls", tls_subject="alice")
    with World() as world:
        block(world, Block("user", "alice"))
        assert tried(world, "a", origin=proven).reason == BANNED
        # Without a password file a name is not believed, so it is not blocked either.
        assert tried(world, "b", user_name="alice").reason == 0


def test_a_client_that_is_blocked_while_it_takes_over_is_banned() -> None:
    with SlowWorld() as world:
        kept(world, "c")
        world.hold()
        new = world.peer()
        new.send(connect("c"))
        assert block(world, Block("client", "c")) == 2
        assert new.take(Connack).reason == BANNED
        world.release()
        assert new.inbox == []
        assert world.broker.connections.clients == 0


def test_many_blocked_clients_go_in_slices() -> None:
    with World() as world:
        peers = [world.connect(f"c{number}") for number in range(45)]
        task: list[asyncio.Task[Any]] = []
        work = world.broker.block_administration.add([Block("address", "127.0.0.1")])
        world.begin(lambda: task.append(asyncio.ensure_future(work)))
        ended = []
        while not (task and task[0].done()):
            world.iterate()
            ended.append(sum(peer.closed for peer in peers))
        assert max(now - before for before, now in zip([0, *ended], ended, strict=False)) == 20
        assert ended[-1] == 45
        assert task[0].result()[1] == 45


def test_a_block_that_ended_lets_its_client_in() -> None:
    with World() as world:
        block(world, Block("client", "a", world.clock.wall_us() + 60_000_000))
        assert tried(world, "a").reason == BANNED
        world.advance(60)
        assert tried(world, "a").reason == 0


def test_a_reload_turns_out_who_is_blocked_by_the_file_now(tmp_path: Path) -> None:
    class FileWorld(World):
        async def _start(self, policy: Any, authenticator: Any) -> Broker:
            blocks = Blocks(tmp_path / "blocks", self.clock)
            broker = Broker(policy, self.clock, authenticator or Authenticator(), self.stores, blocks)
            return await broker.__aenter__()

    with FileWorld() as world:
        peer = world.connect("a")
        (tmp_path / "blocks").write_text('{"client": "a"}\n')
        world.do(world.broker.block_administration.reload)
        assert peer.take(Disconnect).reason == ADMINISTRATIVE_ACTION
        assert tried(world, "a").reason == BANNED
