"""Sessions for client queues that were brought from another broker, made in the data folder of a stopped one.

A queue belongs to a session: at the first CONNECT of a client without one, whatever lies under its name is of an
earlier session, and is removed. So an import makes the session as well, with what the client may still have in flight:

    PUBREL owed               its packet id is in flight and released: PUBREL goes out after CONNACK
    message not acknowledged  it is sent with DUP, under the packet id that the other broker gave it

1. The session of one client is made in one commit. Said again, it changes nothing.
2. A session that is there stays as it is, but for the first number that is for it.
"""

from pathlib import Path
from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.commit import Batch
from holdfast.durable.sessions.session_store import KeepInflight, KeepSession, ReleaseInflight, keep_progress
from holdfast.model.clock import Clock
from holdfast.model.errors import SettingsError
from holdfast.model.ids import FIRST_PACKET_ID, LAST_PACKET_ID, ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, OwedQueued
from holdfast.records.session.progress import Progress, ProgressEntry
from holdfast.records.session.session_record import SessionRecord
from holdfast.storage.rocks.engine.engine import Engine
from holdfast.storage.rocks.sessions.outbox_store import RocksOutbox
from holdfast.storage.rocks.sessions.session_backends import with_queue
from holdfast.storage.rocks.sessions.session_store import RocksSessions
from holdfast.storage.tbmq import OwedPacket

#: Bytes of a client id in MQTT.
_MAX_CLIENT_BYTES: Final = 65_535


class SessionImport:
    """The sessions of a data folder that no broker uses meanwhile. Close it when every session is made."""

    def __init__(self, engine: Engine, clock: Clock, backend: str, expiry_s: int) -> None:
        self._engine: Final = engine
        self._clock: Final = clock
        self._backend: Final = backend
        self._expiry_s: Final = expiry_s
        self._sessions: Final = RocksSessions(engine, lambda *_place: None, lambda _topic, _newest: None)
        #: How many were made.
        self.made = 0

    @classmethod
    def open(cls, data: Path, clock: Clock, backend: str, expiry_s: int) -> "SessionImport":
        """SettingsError: a broker has the folder, or messages of its last run are not in their queues yet."""
        engine = Engine.open(data, reserve_bytes=0)
        try:
            leftover = len(RocksOutbox(engine).leftover())
            if leftover:
                raise SettingsError(
                    f"the broker on {data} was killed, and {leftover} messages of its outbox may not be in their "
                    f"queues yet; start it and stop it once (holdfast serve --data {data}), then give the same command"
                )
            return cls(engine, clock, backend, expiry_s)
        except BaseException:
            engine.close()
            raise

    def has(self, client_id: str) -> bool:
        """Whether there is a session of a client."""
        return self._sessions.record(client_id) is not None

    def obstacle(self, client_id: str) -> str:
        """Why the queue of a client must not be brought: its session would not read it. Empty if it would."""
        try:
            size_bytes = len(client_id.encode())
        except UnicodeEncodeError:
            return "the client id is no UTF-8, so that no client can connect with it"
        if not 0 < size_bytes <= _MAX_CLIENT_BYTES or "\0" in client_id:
            return "no client can connect with such a client id"
        record = self._sessions.record(client_id)
        if record is None or record.queue == self._backend:
            return ""
        return (
            f"there is a session of this client whose messages wait in {record.queue or 'the log'}, not in "
            f"{self._backend}; end it first, by a connection with a clean start (holdfast sub --id … --clean)"
        )

    def make(self, client_id: str, begun: int, packets: list[OwedPacket]) -> None:
        """A session that reads what its queue holds from number `begun` on; survives a power loss after `close`.

        Requires: the queue is there, and `obstacle` had nothing against it.
        """
        before = self._sessions.record(client_id)
        if before is not None and before.begun <= begun:
            return
        batch = Batch(self._engine.written + 1)
        if before is not None:
            record = with_queue(before, before.queue, begun)
            batch.steps.append(KeepSession(client_id, record, before))
        else:
            record = SessionRecord(
                expiry_s=self._expiry_s, disconnected_us=self._clock.wall_us(), queue=self._backend, begun=begun
            )
            batch.steps.append(KeepSession(client_id, record, None))
            self._add_packets(batch, client_id, packets)
            self.made += 1
        changes = Changes()
        self._sessions.add(batch, changes)
        self._engine.write(batch.number, changes)

    def _add_packets(self, batch: Batch, client_id: str, packets: list[OwedPacket]) -> None:
        sent: list[ProgressEntry] = []
        used: set[int] = set()
        for order, (packet_id, serial, released) in enumerate(packets, 1):
            if not FIRST_PACKET_ID <= packet_id <= LAST_PACKET_ID or packet_id in used:
                continue
            used.add(packet_id)
            if released:
                # PUBREL has no content: nothing of the message is needed any more.
                owed = OwedQueued(_RELEASED, 2, retain=False, identifiers=(), serial=serial)
                batch.steps.append(KeepInflight(client_id, packet_id, owed, order))
                batch.steps.append(ReleaseInflight(client_id, packet_id))
            else:
                sent.append(ProgressEntry(packet_id, 1, QUEUE_SHARD, serial))
        last = next((packet.packet_id for packet in reversed(packets) if packet.packet_id in used), 0)
        batch.steps.append(keep_progress(client_id, Progress({QUEUE_SHARD: 0}, sent, last)))

    def close(self) -> None:
        try:
            self._engine.sync_now()
        finally:
            self._engine.close()


_RELEASED: Final = Message(b"", b"", 2, ClientId(""), 0)
