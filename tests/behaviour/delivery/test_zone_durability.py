"""Zones of different durability side by side: the order of acknowledgements, and syncs that nobody waits for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.node.settings.tree import ZoneSettings
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import DiskWorld
from tests.world import Peer

#: So many messages are written though a sync is under way.
LARGE = 120


def hold_syncs(world: DiskWorld, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Nothing is known of a sync from now on, until what is returned is called."""
    log = world.disk.log
    before = log._post
    held: list[Callable[[], None]] = []
    monkeypatch.setattr(log, "_post", held.append)

    def release() -> None:
        monkeypatch.setattr(log, "_post", before)
        for call in held:
            world.do(call)

    return release


def acknowledged(peer: Peer) -> list[int]:
    return [ack.packet_id for ack in peer.take_all(Ack)]


def test_acknowledgements_leave_in_the_order_of_arrival_across_durabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q6: what needs no sync does not overtake what does."""
    with DiskWorld(tmp_path, zones={"lax": ZoneSettings(filter="lax/#", durability="os")}) as world:
        writer = world.connect("w")
        writer.send(Publish("strict", b"", 1, 1), Publish("lax/1", b"", 1, 2))
        assert acknowledged(writer) == [1, 2]
        release = hold_syncs(world, monkeypatch)
        writer.send(Publish("lax/1", b"", 1, 3))
        assert acknowledged(writer) == [3], "alone it waits for no sync"
        writer.send(Publish("strict", b"", 1, 4))
        writer.send(*(Publish("lax/1", b"", 1, 5 + number) for number in range(LARGE)))
        assert world.disk.log.idle(), "both are written"
        assert acknowledged(writer) == []
        release()
        assert acknowledged(writer) == list(range(4, 5 + LARGE))


def test_what_nobody_waits_for_is_synced_in_intervals(tmp_path: Path) -> None:
    """M9: `sync_interval_s` after the last time, and not before."""
    with DiskWorld(tmp_path, storage={"durability": "os", "sync_interval_s": 5.0}) as world:
        engine = world.disk.engine
        writer = world.connect("w")
        writer.send(Publish("a", b"", 1, 1))
        asked: list[int] = []
        with pytest.MonkeyPatch.context() as watched:
            watched.setattr(engine, "sync_now", lambda: None)
            watched.setattr(engine, "request_sync", lambda: asked.append(engine.written))
            writer.send(Publish("a", b"", 1, 2))
            assert acknowledged(writer) == [1, 2]
            assert engine.written > engine.synced
            world.tick(4)
            assert asked == []
            world.tick(2)
            assert asked == [engine.written], "all that was written"
            world.tick(4)
            assert len(asked) == 1
