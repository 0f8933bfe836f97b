"""The tables of a vnode on RocksDB: one batch for a record, also if the disk was full when it came."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdfast.durable.changes import Changes
from holdfast.durable.sessions.session_store import (
    DropSession,
    KeepIncoming,
    KeepSession,
    KeepSubscription,
    SessionStep,
)
from holdfast.durable.state_machine.outcome import PublishedMessage
from holdfast.durable.state_machine.tables import CLUSTER, META
from holdfast.model.errors import MisuseError, TransientError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.sessions.session_store import MAX_POINT_DELETES
from holdfast.storage.rocks.vnodes.vnode_store import RocksVnode
from holdfast.topics.filters import parse_filter
from holdfast.topics.subscription import SubscriptionRecord

RECORD = SessionRecord(expiry_s=60, disconnected_us=0)


class Topics:
    """Stores the topic of each message, by its serial."""

    def add(self, published: Sequence[PublishedMessage], rows: Changes, changes: Changes) -> None:
        for message in published:
            changes.into("log").put(b"%d" % message.serial, message.message.topic)

    def make_ready(self) -> None:
        return

    def refused(self) -> None:
        return

    def written(self) -> None:
        return


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine.open(tmp_path, reserve_bytes=0)
    engine.create_family("log")
    yield engine
    engine.close()


def batch() -> tuple[Changes, list[KeepSession | KeepIncoming], list[PublishedMessage]]:
    changes = Changes()
    changes.into(CLUSTER).put(b"\x01", b"applied")
    changes.into(META).put(b"\x05", b"head")
    published = [
        PublishedMessage(index, Message(topic, b"", 1, ClientId("p"), 1), serial, 0, is_will=False)
        for index, (topic, serial) in enumerate([(b"a", 1), (b"not stored", 0), (b"b", 2)])
    ]
    return changes, [KeepSession("c", RECORD, None), KeepIncoming("c", 7)], published


def test_rows_steps_and_messages_are_one_batch(engine: Engine) -> None:
    """A16: the message and its incoming packet id are there together, whenever the node is killed."""
    store = RocksVnode(engine, 3, Topics())
    before = engine.written
    store.write(*batch())
    assert engine.written == before + 1
    assert engine.family("log").get([b"0", b"1", b"2"]) == [None, b"a", b"b"]
    assert (store.get(CLUSTER, b"\x01"), store.session("c")) == (b"applied", RECORD)


def test_a_batch_without_room_is_written_later_as_it_was(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RocksVnode(engine, 3, Topics())
    with monkeypatch.context() as full:
        full.setattr(engine, "_reserve_bytes", 2**62)
        with pytest.raises(TransientError):
            store.write(*batch())
        with pytest.raises(TransientError):
            store.retry()
        assert store.get(CLUSTER, b"\x01") is None
        with pytest.raises(MisuseError):
            store.write(*batch())
    store.retry()
    written = engine.written
    store.retry()
    assert engine.written == written, "it is written once"
    assert engine.family("log").get([b"1", b"2"]) == [b"a", b"b"]
    loaded = RocksVnode(engine, 3).sessions.load("c")
    assert loaded is not None
    assert loaded.incoming == {7}
    assert store.sessions.count() == 1


def test_a_batch_that_changes_nothing_is_not_written(engine: Engine) -> None:
    store = RocksVnode(engine, 3)
    before = engine.written
    store.write(Changes(), [])
    assert engine.written == before


def test_a_large_session_ends_without_touching_another_vnode(engine: Engine) -> None:
    """It ends with a range tombstone, whose end has to lie within its own vnode."""
    stores = [RocksVnode(engine, vnode) for vnode in (3, 4)]
    for store in stores:
        steps: list[SessionStep] = [KeepSession("c", RECORD, None), KeepSession("d", RECORD, None)]
        steps += [
            KeepSubscription("c", SubscriptionRecord(parse_filter(b"%d" % number), 1, False, False, 0, 0, 1, 0, 0))
            for number in range(MAX_POINT_DELETES + 1)
        ]
        store.write(Changes(), steps)
    stores[0].write(Changes(), [DropSession("c", RECORD)])
    assert (stores[0].session("c"), stores[0].session("d")) == (None, RECORD)
    assert stores[0].sessions.load("c") is None
    kept = stores[1].sessions.load("c")
    assert kept is not None
    assert len(kept.subscriptions) == MAX_POINT_DELETES + 1
