"""Sessions made for queues that another broker left: what their clients get, and what is refused."""

from pathlib import Path

import pytest

from holdfast.durable.queues.queue_store import QueueEntry
from holdfast.model.clock import ManualClock
from holdfast.model.errors import SettingsError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREL
from holdfast.storage.rocks.sessions.session_import import SessionImport
from holdfast.storage.tbmq import OwedPacket
from holdfast.wire.packets import Ack, Publish
from tests.disk_world import back, payloads
from tests.queue_world import BACKEND, BreakableStore, DiskQueueWorld, new_store
from tests.slow_world import kept
from tests.world import Peer

NOW_US = 1_700_000_000_000_000
BASE = NOW_US - 1_000_000


def fill(store: BreakableStore, *qualities: int) -> None:
    """The queue that an import has brought."""
    entries = [
        QueueEntry(BASE + number, Owed(Message(b"a/b", b"%d" % number, qos, ClientId(""), 1), qos))
        for number, qos in enumerate(qualities, 1)
    ]
    store.append_now("device", entries)


def make(folder: Path, packets: list[OwedPacket], home: str = BACKEND) -> str:
    """The session of the device, unless there is an obstacle."""
    sessions = SessionImport.open(folder, ManualClock(NOW_US), home, 0xFFFF_FFFF)
    try:
        why = sessions.obstacle("device")
        if not why:
            sessions.make("device", BASE + 1, packets)
        return why
    finally:
        sessions.close()


def sent(peer: Peer) -> list[tuple[bytes, int, int, bool]]:
    return [(each.payload, each.packet_id, each.qos, each.dup) for each in peer.inbox if isinstance(each, Publish)]


def test_what_was_owed_goes_out_under_its_packet_ids(tmp_path: Path) -> None:
    """T8, P3: PUBREL for what the client has; the rest as it may have been sent already."""
    store = new_store()
    fill(store, 2, 1, 2)
    assert make(tmp_path, [OwedPacket(65_535, 1, True), OwedPacket(1, 2, False), OwedPacket(2, 3, False)]) == ""
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "device")
        assert reader.inbox[0] == Ack(PUBREL, 65_535)
        assert sent(reader) == [(b"2", 1, 1, True), (b"3", 2, 2, True)]
        reader.send(Ack(PUBCOMP, 65_535), Ack(PUBACK, 1))
        assert world.size("device") == 1
        reader.inbox.clear()
        reader.subscribe("a/#", qos=1)
        world.connect("writer").send(Publish("a/b", b"new", 1, 7))
        assert [(payload, packet_id) for payload, packet_id, _qos, _dup in sent(reader)] == [(b"new", 3)]


def test_packet_ids_outlast_a_broker_that_is_killed_before_it_used_them(tmp_path: Path) -> None:
    """[MQTT-4.4.0-1]"""
    store = new_store()
    fill(store, 1, 1, 2)
    make(tmp_path, [OwedPacket(7, 1, False), OwedPacket(8, 2, False), OwedPacket(9, 3, False)])
    for _run in range(2):
        with DiskQueueWorld(tmp_path, store) as world:
            reader = back(world, "device", receive_maximum=1)
            assert sent(reader) == [(b"1", 7, 1, True)]
            world.tick()
    with DiskQueueWorld(tmp_path, store) as world:
        assert sent(back(world, "device")) == [(b"1", 7, 1, True), (b"2", 8, 1, True), (b"3", 9, 2, True)]


def test_said_again_it_changes_nothing(tmp_path: Path) -> None:
    store = new_store()
    fill(store, 2)
    for _time in range(2):
        make(tmp_path, [OwedPacket(5, 1, True)])
    with DiskQueueWorld(tmp_path, store) as world:
        reader = back(world, "device")
        assert reader.take_all(Ack) == [Ack(PUBREL, 5)]
        reader.send(Ack(PUBCOMP, 5))
    make(tmp_path, [OwedPacket(5, 1, True)])
    with DiskQueueWorld(tmp_path, store) as world:
        assert not back(world, "device").inbox


def test_a_session_that_is_younger_than_the_numbers_of_its_queue_reads_it_all_the_same(tmp_path: Path) -> None:
    """Serials of a long-lived queue reach far back in time, as numbers."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        kept(world, "device").subscribe("a/#", qos=1)
        world.tick()
    fill(store, 1, 1)
    assert make(tmp_path, []) == ""
    with DiskQueueWorld(tmp_path, store) as world:
        assert payloads(back(world, "device")) == [b"1", b"2"]


def test_a_queue_that_its_session_would_not_read_is_refused(tmp_path: Path) -> None:
    with DiskQueueWorld(tmp_path, new_store()) as world:
        kept(world, "device")
    assert "whose messages wait in journal, not in redis; end it first" in make(tmp_path, [], home="redis")
    sessions = SessionImport.open(tmp_path, ManualClock(NOW_US), BACKEND, 60)
    assert "no UTF-8" in sessions.obstacle("\udcff")
    assert "no client can connect" in sessions.obstacle("")
    sessions.close()


def test_a_broker_that_was_killed_is_started_before_an_import(tmp_path: Path) -> None:
    """T13: what its outbox has is older than what is imported, and a queue takes nothing older."""
    store = new_store()
    with DiskQueueWorld(tmp_path, store) as world:
        reader = kept(world, "device")
        reader.subscribe("a/#", qos=1)
        reader.drop()
        store.away = True
        world.connect("writer").send(Publish("a/b", b"1", 1, 7))
    with pytest.raises(SettingsError, match="1 messages of its outbox"):
        make(tmp_path, [])
