"""A world whose broker keeps its state on a disk: the real log on a real RocksDB, with a clock that tests move."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.broker.policy import Policy
from holdfast.broker.stores import Post, Stores
from holdfast.durable.commit import Receipt
from holdfast.model.clock import ManualClock
from holdfast.model.protocol import PUBACK, PUBCOMP, PUBREC, PUBREL
from holdfast.node.disk_maintenance import DiskMaintenance
from holdfast.node.settings.tree import Settings, Storage, ZoneSettings
from holdfast.node.storage import DiskStorage
from holdfast.records.session.session_keys import session_range
from holdfast.storage.rocks.engine.column_families import SESSIONS
from holdfast.storage.rocks.engine.scan import scan_items
from holdfast.topics.filters import parse_filter
from holdfast.wire.packets import Ack, Connack, Publish, Suback, Subscribe, Subscription
from holdfast.wire.properties import Properties
from tests.slow_world import connect
from tests.world import Peer, World


class DiskWorld(World):
    """`DiskWorld(folder)` again on the same folder is a restart of the broker."""

    def __init__(
        self,
        folder: Path,
        policy: Policy | None = None,
        *,
        start_us: int = 1_700_000_000_000_000,
        min_free_bytes: int = 0,
        unstored: str = "",
        shards: int = 1,
        early: bool = False,
        storage: dict[str, Any] | None = None,
        zones: dict[str, ZoneSettings] | None = None,
    ) -> None:
        self._folder = folder
        self._start_us = start_us
        self._min_free_bytes = min_free_bytes
        self._zones = {"unstored": ZoneSettings(filter=unstored, store=False)} if unstored else zones or {}
        self._shards = shards
        self._early = early
        # Tests hold back what the commit thread tells; how quick a disk is must not decide what they see.
        self._storage = {"sync_on_loop": "never", **(storage or {})}
        super().__init__(policy)

    def make_stores(self, policy: Policy) -> Stores:
        self.clock = ManualClock(self._start_us)
        storage = Storage(
            data=self._folder,
            min_free_bytes=self._min_free_bytes,
            shards=self._shards,
            deliver_qos1="before_commit" if self._early else "after_commit",
            **self._storage,
        )
        settings = Settings(zones=self._zones, storage=storage)
        self.disk = DiskStorage(settings, policy, self.clock)
        self.disk_maintenance = DiskMaintenance(self.disk, storage)
        return replace(self.disk.stores(), attach=self._attach)

    def _attach(self, post: Post, on_receipt: Callable[[Receipt], None]) -> None:
        def post_if_open(call: Callable[[], None]) -> None:
            with suppress(RuntimeError):  # the last sync comes when the loop is closed
                post(call)

        self.disk.log.attach(post_if_open, on_receipt)

    def settle(self) -> None:
        """Receipts come from another thread: wait for them, as often as one may lead to the next."""
        for _round in range(5):
            super().settle()
            self.disk.engine.sync_now()
        super().settle()

    def hold(self) -> None:
        """What is synced from now on gets no receipt."""
        self._held: list[Callable[[], None]] = []
        self.disk.log.attach(self._held.append, self.broker.exchange.committed)

    def release(self) -> None:
        """Hand out the receipts that were held back, and those that follow."""
        held = self._held
        self.disk.log.attach(self._loop.call_soon_threadsafe, self.broker.exchange.committed)
        for call in held:
            self.do(call)

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass, and do what a node does once a second."""
        self.advance(seconds)
        self.do(lambda: self.disk_maintenance.run_once(self.broker))

    def count_keys(self, session_id: str) -> int:
        """How many keys are stored of a session, or of a group."""
        return len(list(scan_items(self.disk.engine.family(SESSIONS), *session_range(session_id))))

    def crash(self) -> None:
        """The process is gone: nothing is said, nothing is saved."""
        self.__exit__(None, None, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.disk.close()


def payloads(peer: Peer) -> list[bytes]:
    """What came, acknowledged as it comes, until nothing more does."""
    got: list[bytes] = []
    while peer.inbox:
        packet = peer.inbox.pop(0)
        if isinstance(packet, Publish):
            got.append(packet.payload)
            if packet.qos == 1:
                peer.send(Ack(PUBACK, packet.packet_id))
            elif packet.qos == 2:
                peer.send(Ack(PUBREC, packet.packet_id))
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            peer.send(Ack(PUBCOMP, packet.packet_id))
    return got


def back(world: DiskWorld, client_id: str, **options: int) -> Peer:
    """A client with a persistent session, which had to be there."""
    peer = world.peer()
    peer.send(connect(client_id, **options))
    assert peer.take(Connack).session_present
    return peer


def publish(world: DiskWorld, *messages: tuple[str, bytes], qos: int = 1) -> None:
    writer = world.connect("writer")
    writer.send(*(Publish(topic, payload, qos, i + 1 if qos else 0) for i, (topic, payload) in enumerate(messages)))
    if qos == 2:
        writer.send(*(Ack(PUBREL, i + 1) for i in range(len(messages))))
    writer.drop()


def replay(peer: Peer, text: str, qos: int = 2, **user: str) -> list[int]:
    asked = tuple((name.replace("_", "-"), value) for name, value in user.items())
    lines = (Subscription(parse_filter(text.encode()), qos),)
    peer.send(Subscribe(9, lines, Properties(user_properties=asked)))
    suback = peer.take(Suback)
    return list(suback.reasons)
