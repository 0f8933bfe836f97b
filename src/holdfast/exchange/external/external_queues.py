"""Messages for external queues, from their commit to the acknowledgement of their publisher.

    take        a number and a record in the outbox: one commit with everything else of the message
    committed   clients without such a queue are served at once; for the others there are pending appends
    appended    the stores have it: live clients get it, and when all have answered, the publisher its PUBACK or PUBREC

Nothing here waits or talks to a store: `broker.external.append_worker` does, takes batches and brings answers.

1. Pending appends of a client are appended in the order of their numbers, and are taken off when they are answered.
2. A message is answered when all its queues are; then its acknowledgement may leave (`deferred_acks`).
"""

from collections.abc import Iterable
from typing import Final

from holdfast.durable.queues.external_queue import ExternalQueue, QueueBackend
from holdfast.durable.queues.outbox import OutboxDone, OutboxRecord, QueueDrop
from holdfast.durable.queues.queue_store import NO_LIMITS, AppendBatch, Appended, QueueEntry
from holdfast.durable.sessions.session_store import KeepInflight, keep_progress
from holdfast.exchange.client import BrokerClient
from holdfast.exchange.control import Control
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.drops import DROP_QUEUE, DROP_QUOTA, DROP_UNREADABLE
from holdfast.exchange.external.deferred_acks import DeferredAcks
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import OutstandingAppends, PendingPublish
from holdfast.exchange.plans import DeliveryPlan, DeliveryTarget
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued
from holdfast.records.session.progress import Progress

#: What one call of a store is given: entries of one client, clients, and bytes of all.
_MAX_ENTRIES: Final = 500
_MAX_BATCHES: Final = 1000
_MAX_CALL_BYTES: Final = 4 * 1024 * 1024
#: The topic of the notice that a client gets when its queue was full, if it subscribes to it. No client can publish to
#: it. On disk and in clients: never change.
NOTICE_TOPIC: Final = b"$SYS/broker/queue/full"
#: How long a queue that was full is taken for full without asking its store, unless it was read to its end.
_FULL_US: Final = 10_000_000
#: Above every serial.
_EVERY_SERIAL: Final = 2**62
_REFUSED: Final = "its publisher was told 0x97"


class PendingAppends:
    """What one client's queue is to be given, in order."""

    def __init__(self, client: BrokerClient, queue: ExternalQueue) -> None:
        self.client: Final = client
        self.queue: Final = queue
        self.entries: Final[list[tuple[QueueEntry, OutstandingAppends]]] = []
        #: Its last append failed: it is left alone until the next try.
        self.paused = False
        #: The queue could not be used, and its store should have begun it again since.
        self.reset = False


class ExternalQueues:
    """All pending appends, by backend and client."""

    def __init__(
        self, state: LoopState, settings: ExchangeSettings, control: Control, sender: Sender, acks: DeferredAcks
    ) -> None:
        self._state: Final = state
        self._control: Final = control
        self._sender: Final = sender
        self._acks: Final = acks
        self._upgrade_qos: Final = settings.upgrade_outgoing_qos
        #: The first outbox number of this run, above all that were given out before; and the next one.
        self.first: Final = max(1, settings.first_outbox_number)
        self._number = self.first
        self.backends: Final = {name: QueueBackend(name) for name in settings.backends}
        self._pending: Final[dict[str, dict[BrokerClient, PendingAppends]]] = {name: {} for name in settings.backends}
        self._clients: Final[dict[str, BrokerClient]] = {}
        #: Outbox numbers that are done, and not removed from there yet.
        self._done: list[int] = []
        #: Messages that wait for their queues.
        self.waiting = 0

    # ---- clients with such a queue

    def add(self, client: BrokerClient) -> None:
        """A client with an external queue: the outbox knows it by its name."""
        self._clients[client.session.client_id] = client

    def remove(self, client: BrokerClient) -> None:
        """Its session has ended: no publisher has to wait for its queue."""
        queue = client.external
        if queue is None:
            return
        if self._clients.get(queue.session_id) is client:
            del self._clients[queue.session_id]
        appends = self._pending[queue.backend.name].pop(client, None)
        if appends is not None:
            entries = list(appends.entries)
            appends.entries.clear()
            self._answer_all(entries)

    def client_of(self, queue: ExternalQueue) -> BrokerClient | None:
        client = self._clients.get(queue.session_id)
        return client if client is not None and client.external is queue else None

    def uses(self, client_id: str) -> bool:
        """Whether a session has something in its external queue, or may have."""
        client = self._clients.get(client_id)
        return client is not None and client.external is not None and not client.external.fresh

    # ---- from a message to its queues

    def is_away(self, plan: DeliveryPlan) -> bool:
        """Whether a message has a client whose queue cannot be reached at the moment."""
        for target in plan.targets:
            queue = target.client.external
            if queue is not None:
                appends = self._pending[queue.backend.name].get(target.client)
                if queue.backend.away or (appends is not None and appends.paused):
                    return True
        return False

    def is_full(self, plan: DeliveryPlan, now_us: int) -> bool:
        """Whether a message is for clients alone whose queues are full and refuse more."""
        if plan.groups or not plan.targets:
            return False
        for target in plan.targets:
            queue = target.client.external
            if queue is None or not 0 < queue.full_us <= now_us < queue.full_us + _FULL_US:
                return False
        return True

    def refuse(self, plan: DeliveryPlan, message: Message) -> None:
        """A message is not taken, because the queues of all its clients are full."""
        for target in plan.targets:
            client_id = target.client.session.client_id
            self._state.drops.drop(DROP_QUOTA, client_id, message, message.received_us, _REFUSED)

    def take(self, pending: PendingPublish) -> None:
        """A message joins the open batch: note which clients have to get it through a queue."""
        message = pending.message
        targets: list[tuple[BrokerClient, Owed]] = []
        for target in pending.plan.targets:
            chosen: DeliveryTarget | None = target.own() if target.client is pending.publisher else target
            if chosen is None or chosen.client.external is None:
                continue
            qos = chosen.qos if chosen.qos < message.qos or self._upgrade_qos else message.qos
            if qos:
                retain = message.retain and chosen.keep_retain
                owed = Owed(message, qos, retain=retain, identifiers=chosen.identifiers)
                targets.append((chosen.client, owed))
        if targets:
            number = self.next_number()
            named = [(client.session.client_id, owed) for client, owed in targets]
            self._state.batch.outbox.append(OutboxRecord(number, message, named))
            self.trim_outbox()
            pending.outstanding = OutstandingAppends(number, targets)

    def next_number(self) -> int:
        """An outbox number."""
        number = self._number
        self._number += 1
        return number

    def trim_outbox(self) -> None:
        """Have what is done removed from the outbox, with the open batch."""
        if self._done:
            self._state.batch.outbox.extend([OutboxDone(number) for number in self._done])
            self._done = []

    def append_again(self, record: OutboxRecord) -> None:
        """An earlier run of the broker did not hear whether the queues have a message."""
        targets: list[tuple[BrokerClient, Owed]] = []
        for client_id, owed in record.targets:
            client = self._clients.get(client_id)
            queue = None if client is None else client.external
            if client is not None and queue is not None and queue.begun <= record.number:
                queue.in_doubt()
                targets.append((client, owed))
        self.committed(OutstandingAppends(record.number, targets))

    def committed(self, outstanding: OutstandingAppends) -> None:
        """The outbox has a message: from now on it reaches its queues, whatever happens."""
        self.waiting += 1
        outstanding.left = len(outstanding.targets) + 1
        for client, owed in outstanding.targets:
            queue = client.external
            if queue is None or queue.ended:
                outstanding.left -= 1
                continue
            pending = self._pending[queue.backend.name]
            appends = pending.get(client)
            if appends is None:
                appends = pending[client] = PendingAppends(client, queue)
            expires_us = queue.limits.expiry_us(owed.message, owed.message.expires_us)
            queue.fresh = False
            appends.entries.append((QueueEntry(outstanding.number, owed, expires_us), outstanding))
            queue.backend.call_worker()
        self._answer(outstanding)

    # ---- what the append worker takes, and what it brings

    def has_pending(self, backend: QueueBackend) -> bool:
        """Whether there is something to append."""
        return any(not appends.paused for appends in self._pending[backend.name].values())

    def next_batches(self, backend: QueueBackend) -> list[tuple[PendingAppends, AppendBatch]]:
        """What is to be appended next, of as many clients as fit into one call."""
        found: list[tuple[PendingAppends, AppendBatch]] = []
        size_bytes = 0
        for appends in self._pending[backend.name].values():
            if appends.paused:
                continue
            entries: list[QueueEntry] = []
            limits = appends.queue.limits
            for entry, _outstanding in appends.entries[:_MAX_ENTRIES]:
                is_notice = entry.message.topic == NOTICE_TOPIC
                if is_notice and entries:
                    break  # it has its own batch
                size_bytes += entry.owed.size_bytes
                entries.append(entry)
                if is_notice:
                    limits = NO_LIMITS
                if is_notice or size_bytes >= _MAX_CALL_BYTES:
                    break
            found.append((appends, AppendBatch(appends.queue.name, entries, limits)))
            if size_bytes >= _MAX_CALL_BYTES or len(found) >= _MAX_BATCHES:
                break
        return found

    def appended(self, given: list[tuple[PendingAppends, AppendBatch]], answers: list[Appended | Exception]) -> bool:
        """A store has answered; False if some of it has to be tried again."""
        well = True
        self._state.schedule()
        for (appends, batch), answer in zip(given, answers, strict=True):
            if isinstance(answer, TransientError):
                well = False
                self._pause(appends)
            elif isinstance(answer, Appended):
                self._complete(appends, batch, answer)
            elif appends.reset:
                self._lose(appends, batch, answer)
            else:
                # What is damaged is set aside; what comes now can be kept all the same.
                appends.reset = True
                self.reset_queue(appends.client, answer)
        return well

    def failed(self, given: list[tuple[PendingAppends, AppendBatch]]) -> None:
        """A store did not answer."""
        for appends, _batch in given:
            self._pause(appends)

    @staticmethod
    def _pause(appends: PendingAppends) -> None:
        appends.paused = True
        appends.queue.in_doubt()

    def try_again(self, backend: QueueBackend) -> None:
        """It is time for another try."""
        for appends in self._pending[backend.name].values():
            appends.paused = False

    def _complete(self, appends: PendingAppends, batch: AppendBatch, answer: Appended) -> None:
        """A store has appended a batch: its client gets what it has room for, and publishers are answered."""
        if not appends.entries:
            return  # its session has ended meanwhile
        appends.reset = False
        answered = self._take_off(appends, len(batch.entries))
        client = appends.client
        queue = appends.queue
        if answer.dropped:
            self._state.drops.lose(DROP_QUEUE, queue.session_id, answer.dropped, self._state.now_us)
        if answer.refused:
            self._note_refused(appends, [entry for entry, _outstanding in answered], answer)
        placed: list[tuple[int, Owed]] = []
        lost = False
        for (entry, _outstanding), serial in zip(answered, answer.serials, strict=True):
            placed.append((serial, entry.owed))
            lost = lost or queue.was_lost(serial, again=entry.number < self.first)
        if lost:
            self.reset_queue(client, PermanentError("its backend has lost the queue, and begun a new one"))
        if queue.appended(placed) or queue.waits():
            self._pump(client)
        self._answer_all(answered)

    def _take_off(self, appends: PendingAppends, count: int) -> list[tuple[QueueEntry, OutstandingAppends]]:
        answered = appends.entries[:count]
        del appends.entries[:count]
        if not appends.entries:
            self._pending[appends.queue.backend.name].pop(appends.client, None)
        return answered

    def _note_refused(self, appends: PendingAppends, entries: list[QueueEntry], answer: Appended) -> None:
        """A queue is full: what it did not take is noted by topic where that is known, and its client gets a notice."""
        drops = self._state.drops
        now_us = self._state.now_us
        name = appends.queue.session_id
        refused = [
            entry
            for entry, serial in zip(entries, answer.serials, strict=True)
            if not serial and entry.number >= self.first and not entry.expired(now_us)
        ]
        if len(refused) == answer.refused:
            for entry in refused:
                drops.drop(DROP_QUOTA, name, entry.message, now_us)
        else:
            drops.lose(DROP_QUOTA, name, answer.refused, now_us)
        if appends.queue.refused(now_us):
            self._give_notice(appends.client, appends.queue, now_us)

    def _give_notice(self, client: BrokerClient, queue: ExternalQueue, now_us: int) -> None:
        """The last message in a queue that is full says so, to a client that subscribes to such notices."""
        matching = [
            record
            for record in client.session.subscriptions.values()
            if record.qos and not record.filter.group and record.filter.matches(NOTICE_TOPIC)
        ]
        if not matching:
            return
        limits = queue.limits
        payload = b'{"since_us":%d,"max_messages":%d,"max_bytes":%d}' % (now_us, limits.max_messages, limits.max_bytes)
        message = Message(NOTICE_TOPIC, payload, 1, ClientId(""), now_us)
        identifiers = tuple([record.identifier for record in matching if record.identifier])
        owed = Owed(message, 1, identifiers=identifiers)
        outstanding = OutstandingAppends(self.next_number(), [(client, owed)])
        record = OutboxRecord(outstanding.number, message, [(client.session.client_id, owed)])
        self._state.batch.outbox.append(record)
        self._state.follow_up(client.session.client_id, lambda: self.committed(outstanding))

    def _lose(self, appends: PendingAppends, batch: AppendBatch, error: Exception) -> None:
        """A queue cannot be used: its client is told, no other is held up."""
        if not appends.entries:
            return
        answered = self._take_off(appends, len(batch.entries))
        name = appends.queue.session_id
        for entry, outstanding in answered:
            self._state.drops.drop(DROP_UNREADABLE, name, entry.message, self._state.now_us, str(error))
            self._answer(outstanding)
        self.reset_queue(appends.client, error)

    def page_read(self, queue: ExternalQueue, entries: list[QueueEntry], limit: int) -> None:
        """A page of a queue was read."""
        client = self.client_of(queue)
        if queue.page(entries, limit) and client is not None:
            self._pump(client)

    def _pump(self, client: BrokerClient) -> None:
        if client.channel is not None:
            client.behind = True
            self._state.schedule()
            self._state.pump_soon(client)

    def reset_queue(self, client: BrokerClient, error: Exception) -> None:
        """A queue cannot be read; the store begins it again, perhaps with serials that were used before."""
        queue = client.external
        if queue is None:
            return
        queue.set_aside()
        name = client.session.client_id
        window = client.session.window
        state = self._state
        for packet_id in window.packet_ids():
            owed = window.owed(packet_id)
            if isinstance(owed, OwedQueued):
                owed.serial = 0
                if owed.qos == 2 and client.stored():
                    state.step(KeepInflight(name, packet_id, owed, client.session.next_order()))
        if client.stored():
            # What is done of the old queue must not hide anything of the new one.
            state.step(keep_progress(name, Progress({QUEUE_SHARD: _EVERY_SERIAL}, [], window.reservation())))
            self._sender.progress.save(client)
        state.schedule()
        self._control.queue_broken(client, error)

    # ---- ends

    def drop_queue(self, backend: str, client_id: str) -> QueueDrop:
        """A session ends: note, with the open batch, that its queue has to go."""
        change = QueueDrop(self.next_number(), backend, client_id)
        self._state.batch.outbox.append(change)
        return change

    def dropped(self, changes: Iterable[QueueDrop]) -> None:
        """Queues were removed."""
        self._done.extend([change.number for change in changes])

    def _answer_all(self, answered: list[tuple[QueueEntry, OutstandingAppends]]) -> None:
        for _entry, outstanding in answered:
            self._answer(outstanding)

    def _answer(self, outstanding: OutstandingAppends) -> None:
        """One of the queues that a message waits for has answered."""
        outstanding.left -= 1
        if outstanding.left:
            return
        self.waiting -= 1
        self._done.append(outstanding.number)
        ack = outstanding.ack
        channel = outstanding.channel
        if ack is not None and channel is not None:
            ack.ready = True
            self._acks.release(channel)
