"""What a client missed is sent at the pace that is set, and live messages behind it."""

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.broker.policy import Policy, Sessions
from holdfast.wire.packets import Connack, Publish
from tests.disk_world import DiskWorld, back, payloads, publish
from tests.slow_world import connect, kept
from tests.world import Peer, World

pytestmark = pytest.mark.compiled


def paced(rate: int) -> Policy:
    return Policy(sessions=Sessions(backlog_rate=rate))


def missed(world: World, count: int) -> Peer:
    """A client that was away for so many messages, and is back."""
    reader = kept(world, "c")
    reader.subscribe("a", qos=1)
    reader.drop()
    writer = world.connect("writer")
    writer.send(*(Publish("a", b"%d" % number, 1, number + 1) for number in range(count)))
    writer.drop()
    reader = world.peer()
    reader.send(connect("c"))
    assert reader.take(Connack).session_present
    return reader


def numbers(peer: Peer) -> list[int]:
    return [int(payload) for payload in payloads(peer)]


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_backlog_is_sent_at_the_rate(tmp_path: Path, on_disk: bool) -> None:
    with DiskWorld(tmp_path, paced(4)) if on_disk else World(paced(4)) as world:
        reader = missed(world, 10)
        got = numbers(reader)
        assert got == [0]
        for number in range(1, 10):
            world.advance(0.24)
            assert numbers(reader) == []
            world.advance(0.01)
            got += numbers(reader)
            assert got == list(range(number + 1))


@pytest.mark.parametrize("on_disk", [True, False])
def test_live_messages_come_behind_the_backlog_and_then_at_once(tmp_path: Path, on_disk: bool) -> None:
    with DiskWorld(tmp_path, paced(1)) if on_disk else World(paced(1)) as world:
        reader = missed(world, 3)
        writer = world.connect("writer")
        writer.send(*(Publish("a", b"%d" % number, 1, number + 1) for number in range(3, 50)))
        got = numbers(reader)
        world.advance(1)
        got += numbers(reader)
        assert got == [0, 1], "the live ones wait"
        world.advance(1)
        got += numbers(reader)
        assert got == list(range(50)), "nothing is held back once the backlog is sent"
        writer.send(Publish("a", b"50", 1, 1))
        assert numbers(reader) == [50]


def test_a_fast_rate_goes_in_small_packs(tmp_path: Path) -> None:
    """A hundredth of what is due in ten seconds: not a deadline for each message, and no burst."""
    with DiskWorld(tmp_path, paced(1000)) as world:
        reader = missed(world, 300)
        got = numbers(reader)
        packs = 0
        while len(got) < 300:
            world.advance(0.05)
            pack = numbers(reader)
            assert 0 < len(pack) <= 100
            got += pack
            packs += 1
        assert got == list(range(300))
        assert packs == 6


def test_time_that_a_client_did_not_use_is_no_credit(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, paced(10)) as world:
        reader = missed(world, 30)
        world.broker.writable(reader.channel, yes=False)
        world.advance(2)
        world.do(lambda: world.broker.writable(reader.channel, yes=True))
        assert numbers(reader) == [0, 1]


def test_a_reload_holds_at_once(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, paced(1)) as world:
        reader = missed(world, 5)
        assert numbers(reader) == [0]
        faster = replace(world.policy.sessions, backlog_rate=0)
        world.do(lambda: world.broker.change_policy(Policy(sessions=faster)))
        world.advance(1)
        assert numbers(reader) == [1, 2, 3, 4]


def test_the_rate_is_for_who_is_back_and_not_for_who_falls_behind(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, paced(1)) as world:
        reader = kept(world, "c", receive_maximum=2)
        reader.subscribe("a", qos=1)
        publish(world, *(("a", b"%d" % number) for number in range(10)))
        assert numbers(reader) == list(range(10))


def test_a_backlog_that_is_broken_off_goes_on_at_the_next_connection(tmp_path: Path) -> None:
    with DiskWorld(tmp_path, paced(1)) as world:
        reader = missed(world, 4)
        world.advance(1)
        assert numbers(reader) == [0, 1]
        reader.drop()
        world.advance(10)
        reader = back(world, "c")
        assert numbers(reader) == [2]
        world.advance(1)
        assert numbers(reader) == [3]
