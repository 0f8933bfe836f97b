"""Messages for queues outside the log, from their commit to the acknowledgement of their publisher.

    accept      a number, a record in the outbox: one commit with everything else of the message
    receipt     who has no such queue is served at once; the rest waits in a line for each client
    appended    the stores have it: live clients get it, and when all have answered, the publisher its PUBACK or PUBREC

Nothing here waits or talks to a store: that is done by `broker.feeder`, which takes packs and brings answers.

1. Entries of a line are appended in the order of their numbers, and are taken off it when they are answered.
2. A message is answered when all its queues are; then its acknowledgement may leave (`holding`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.durable.outbox import OutboxDone, OutboxRecord, QueueDrop
from holdfast.durable.outside_queue import OutsideQueue, QueueHome
from holdfast.durable.queue_store import NO_LIMITS, Appended, Entry, Pack
from holdfast.durable.sessions import KeepInflight, KeepProgress
from holdfast.exchange.client import Client
from holdfast.exchange.counters import DROP_QUEUE, DROP_QUOTA, DROP_UNREADABLE
from holdfast.exchange.holding import Holding
from holdfast.exchange.passage import Passage, Waiting
from holdfast.exchange.plans import Plan, Target
from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import QUEUE_SHARD, Owed, OwedQueued
from holdfast.records.sessions import Progress

if TYPE_CHECKING:
    from holdfast.exchange.exchange import Exchange

#: What one call of a store is given: entries of one client, clients, and bytes of all.
_MAX_PACK: Final = 500
_MAX_PACKS: Final = 1000
_MAX_CALL_BYTES: Final = 4 * 1024 * 1024
#: The topic of the notice that a client gets when its queue was full, if it subscribes to it. No client can publish to
#: it. On disk and in clients: never change.
NOTICE_TOPIC: Final = b"$SYS/broker/queue/full"
#: How long a queue that was full is taken for full without asking its store, unless it was read to its end.
_FULL_US: Final = 10_000_000
#: Above every serial.
_EVERY_SERIAL: Final = 2**62
_REFUSED: Final = "its publisher was told 0x97"


class Line:
    """What one client's queue is to be given, in order."""

    def __init__(self, client: Client, queue: OutsideQueue) -> None:
        self.client: Final = client
        self.queue: Final = queue
        self.entries: Final[list[tuple[Entry, Waiting]]] = []
        #: Its last append failed: it is left alone until the next try.
        self.resting = False
        #: The queue could not be used, and should have been begun anew since.
        self.begun_anew = False


class Outside:
    """All that waits for queues outside the log."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange
        self.holding: Final = Holding(exchange)
        self.homes: Final[dict[str, QueueHome]] = {}
        self._lines: Final[dict[str, dict[Client, Line]]] = {}
        self._clients: Final[dict[str, Client]] = {}
        #: The next number; who assembles the broker sets it above all that were given out before.
        self.number = 1
        #: The first number of this run.
        self.first = 1
        #: Whether messages are refused while the home of one of their queues is away; else they wait.
        self.refuses = False
        self._done: list[int] = []
        #: Messages that wait for their queues.
        self.waiting = 0
        #: Told of a client whose queue cannot be read.
        self.broken: Callable[[Client, Exception], None] | None = None

    # ---- who has such a queue

    def add_home(self, name: str) -> QueueHome:
        home = self.homes[name] = QueueHome(name)
        self._lines[name] = {}
        return home

    def start(self, first: int) -> None:
        """Numbers go on from here."""
        self.first = self.number = max(1, first)

    def enter(self, client: Client) -> None:
        """A client with a queue outside: its queue may be asked about by name."""
        self._clients[client.session.client_id] = client

    def leave(self, client: Client) -> None:
        """Its session has ended: nobody has to wait for its queue."""
        queue = client.queue
        if not isinstance(queue, OutsideQueue):
            return
        if self._clients.get(queue.session_id) is client:
            del self._clients[queue.session_id]
        line = self._lines[queue.home.name].pop(client, None)
        if line is not None:
            entries = list(line.entries)
            line.entries.clear()
            for _entry, waiting in entries:
                self._answer(waiting)

    def client_of(self, queue: OutsideQueue) -> Client | None:
        client = self._clients.get(queue.session_id)
        return client if client is not None and client.queue is queue else None

    def uses(self, client_id: str) -> bool:
        """Whether a session has something in its queue outside, or may have."""
        client = self._clients.get(client_id)
        return client is not None and isinstance(client.queue, OutsideQueue) and not client.queue.fresh

    def has_packs(self, home: QueueHome) -> bool:
        """Whether there is something to append."""
        return any(not line.resting for line in self._lines[home.name].values())

    # ---- from a message to its queues

    def is_away(self, plan: Plan) -> bool:
        """Whether a message has a client whose queue cannot be reached at the moment."""
        for target in plan.targets:
            queue = target.client.queue
            if isinstance(queue, OutsideQueue):
                line = self._lines[queue.home.name].get(target.client)
                if queue.home.away or (line is not None and line.resting):
                    return True
        return False

    def is_full(self, plan: Plan, now_us: int) -> bool:
        """Whether a message is for clients alone whose queues are full and refuse more."""
        if plan.groups or not plan.targets:
            return False
        for target in plan.targets:
            queue = target.client.queue
            if not isinstance(queue, OutsideQueue) or not 0 < queue.full_us <= now_us < queue.full_us + _FULL_US:
                return False
        return True

    def refuse(self, plan: Plan, message: Message) -> None:
        """A message is not taken, because the queues of all its clients are full."""
        for target in plan.targets:
            client_id = target.client.session.client_id
            self._exchange.drops.drop(DROP_QUOTA, client_id, message, message.received_us, _REFUSED)

    def take(self, passage: Passage, *, upgrade_qos: bool) -> None:
        """A message joins the batch under way: note who has to get it through a queue."""
        message = passage.message
        targets: list[tuple[str, Owed]] = []
        lines: list[tuple[Client, Owed]] = []
        for target in passage.plan.targets:
            chosen: Target | None = target.own if target.client is passage.publisher else target
            if chosen is None or not chosen.client.outside:
                continue
            qos = chosen.qos if chosen.qos < message.qos or upgrade_qos else message.qos
            if qos:
                retain = message.retain and chosen.keep_retain
                owed = Owed(message, qos, retain=retain, identifiers=chosen.identifiers)
                targets.append((chosen.client.session.client_id, owed))
                lines.append((chosen.client, owed))
        if targets:
            number = self.next_number()
            outbox = self._exchange.under_way.batch.outbox
            outbox.append(OutboxRecord(number, message, targets))
            self.tidy()
            passage.waiting = Waiting(number, lines)

    def next_number(self) -> int:
        number = self.number
        self.number += 1
        return number

    def tidy(self) -> None:
        """Have what is done removed from the outbox, with the batch under way."""
        if self._done:
            self._exchange.under_way.batch.outbox.extend([OutboxDone(number) for number in self._done])
            self._done = []

    def committed(self, passage: Passage) -> None:
        """The outbox has it: from now on it reaches its queues, whatever happens."""
        waiting = passage.waiting
        if waiting is not None:
            self._stand_in_line(waiting, waiting.targets)

    def again(self, record: OutboxRecord) -> None:
        """An earlier run of the broker did not hear whether the queues have a message."""
        lines: list[tuple[Client, Owed]] = []
        for client_id, owed in record.targets:
            client = self._clients.get(client_id)
            if client is not None and isinstance(client.queue, OutsideQueue) and client.queue.begun <= record.number:
                client.queue.in_doubt()
                lines.append((client, owed))
        self._stand_in_line(Waiting(record.number, lines), lines)

    def _stand_in_line(self, waiting: Waiting, targets: list[tuple[Client, Owed]]) -> None:
        self.waiting += 1
        waiting.left = len(targets) + 1
        for client, owed in targets:
            queue = client.queue
            if not isinstance(queue, OutsideQueue) or queue.ended:
                waiting.left -= 1
                continue
            lines = self._lines[queue.home.name]
            line = lines.get(client)
            if line is None:
                line = lines[client] = Line(client, queue)
            expires_us = owed.message.expires_us
            if not expires_us and queue.limits.ttl_s:
                # From when it came: said again after a crash, it is no younger.
                expires_us = owed.message.received_us + queue.limits.ttl_s * 1_000_000
            queue.fresh = False
            line.entries.append((Entry(waiting.number, owed, expires_us), waiting))
            queue.home.work()
        self._answer(waiting)

    # ---- what the feeder takes, and what it brings

    def packs(self, home: QueueHome) -> list[tuple[Line, Pack]]:
        """What is to be appended next, of as many clients as fit into one call."""
        found: list[tuple[Line, Pack]] = []
        size_bytes = 0
        for line in self._lines[home.name].values():
            if line.resting:
                continue
            entries: list[Entry] = []
            limits = line.queue.limits
            for entry, _waiting in line.entries[:_MAX_PACK]:
                is_notice = entry.message.topic == NOTICE_TOPIC
                if is_notice and entries:
                    break  # it is a pack of its own
                size_bytes += entry.owed.size_bytes
                entries.append(entry)
                if is_notice:
                    limits = NO_LIMITS
                if is_notice or size_bytes >= _MAX_CALL_BYTES:
                    break
            found.append((line, Pack(line.queue.name, entries, limits)))
            if size_bytes >= _MAX_CALL_BYTES or len(found) >= _MAX_PACKS:
                break
        return found

    def appended(self, home: QueueHome, given: list[tuple[Line, Pack]], answers: list[Appended | Exception]) -> bool:
        """A store has answered; False if some of it has to be tried again."""
        well = True
        self._exchange.wake()
        for (line, pack), answer in zip(given, answers, strict=True):
            if isinstance(answer, TransientError):
                well = False
                self._rest(line)
            elif isinstance(answer, Appended):
                self._take_off(home, line, pack, answer)
            elif line.begun_anew:
                self._lose(home, line, pack, answer)
            else:
                # What is damaged is set aside; what comes now can be kept all the same.
                line.begun_anew = True
                self.set_aside(line.client, answer)
        return well

    def failed(self, given: list[tuple[Line, Pack]]) -> None:
        """A store did not answer."""
        for line, _pack in given:
            self._rest(line)

    @staticmethod
    def _rest(line: Line) -> None:
        line.resting = True
        line.queue.in_doubt()

    def rested(self, home: QueueHome) -> None:
        """It is time for another try."""
        for line in self._lines[home.name].values():
            line.resting = False

    def _take_off(self, home: QueueHome, line: Line, pack: Pack, answer: Appended) -> None:
        if not line.entries:
            return  # its session has ended meanwhile
        line.begun_anew = False
        count = len(pack.entries)
        answered = line.entries[:count]
        del line.entries[:count]
        if not line.entries:
            self._lines[home.name].pop(line.client, None)
        client = line.client
        name = line.queue.session_id
        drops = self._exchange.drops
        now_us = self._exchange.delivery.now_us
        if answer.dropped:
            drops.lose(DROP_QUEUE, name, answer.dropped, now_us)
        if answer.refused:
            self._note_refused(line, [entry for entry, _waiting in answered], answer)
        placed: list[tuple[int, Owed]] = []
        lost = False
        for (entry, _waiting), serial in zip(answered, answer.serials, strict=True):
            placed.append((serial, entry.owed))
            lost = lost or line.queue.was_lost(serial, again=entry.number < self.first)
        if lost:
            self.set_aside(client, PermanentError("its home has lost the queue, and begun a new one"))
        if line.queue.appended(placed) or line.queue.waits():
            self._feed(client)
        for _entry, waiting in answered:
            self._answer(waiting)

    def _note_refused(self, line: Line, entries: list[Entry], answer: Appended) -> None:
        """A queue is full: what it did not take is told by topic where that is known, and its client gets a notice."""
        drops = self._exchange.drops
        now_us = self._exchange.delivery.now_us
        name = line.queue.session_id
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
        if line.queue.refused(now_us):
            self._give_notice(line.client, line.queue, now_us)

    def _give_notice(self, client: Client, queue: OutsideQueue, now_us: int) -> None:
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
        targets = [(client, Owed(message, 1, identifiers=identifiers))]
        waiting = Waiting(self.next_number(), targets)
        named = [(target.session.client_id, owed) for target, owed in targets]
        self._exchange.under_way.batch.outbox.append(OutboxRecord(waiting.number, message, named))
        self._exchange.after_commit(None, b"", lambda: self._stand_in_line(waiting, targets))

    def _lose(self, home: QueueHome, line: Line, pack: Pack, error: Exception) -> None:
        """A queue cannot be used: its client is told, nobody else is held up."""
        if not line.entries:
            return
        count = len(pack.entries)
        answered = line.entries[:count]
        del line.entries[:count]
        if not line.entries:
            self._lines[home.name].pop(line.client, None)
        for entry, waiting in answered:
            self._exchange.drops.drop(
                DROP_UNREADABLE, line.queue.session_id, entry.message, self._exchange.delivery.now_us, str(error)
            )
            self._answer(waiting)
        self.set_aside(line.client, error)

    def page(self, queue: OutsideQueue, entries: list[Entry], limit: int) -> None:
        """A page was read."""
        client = self.client_of(queue)
        if queue.page(entries, limit) and client is not None:
            self._feed(client)

    def _feed(self, client: Client) -> None:
        if client.channel is not None:
            client.behind = True
            self._exchange.wake()
            self._exchange.pump_soon(client)

    def set_aside(self, client: Client, error: Exception) -> None:
        """A queue cannot be read; the store begins it anew, perhaps with serials that were used before."""
        queue = client.queue
        if not isinstance(queue, OutsideQueue):
            return
        queue.set_aside()
        name = client.session.client_id
        window = client.session.window
        step = self._exchange.under_way.step
        for packet_id in window.packet_ids():
            owed = window.owed(packet_id)
            if isinstance(owed, OwedQueued):
                owed.serial = 0
                if owed.qos == 2 and client.stored():
                    step(KeepInflight(name, packet_id, owed, client.session.next_order()))
        if client.stored():
            # What is done of the old queue must not hide anything of the new one.
            step(KeepProgress(name, Progress({QUEUE_SHARD: _EVERY_SERIAL}, [], window.reservation())))
            self._exchange.delivery.save_progress(client)
        self._exchange.wake()
        if self.broken is not None:
            self.broken(client, error)

    def drop(self, home: str, client_id: str) -> QueueDrop:
        """A session ends: note, with the batch under way, that its queue has to go."""
        change = QueueDrop(self.next_number(), home, client_id)
        self._exchange.under_way.batch.outbox.append(change)
        return change

    def dropped(self, changes: list[QueueDrop]) -> None:
        self._done.extend([change.number for change in changes])

    def _answer(self, waiting: Waiting) -> None:
        """One of the queues that a message waits for has answered."""
        waiting.left -= 1
        if waiting.left:
            return
        self.waiting -= 1
        self._done.append(waiting.number)
        held = waiting.held
        channel = waiting.channel
        if held is not None and channel is not None:
            held.ready = True
            self.holding.let_go(channel)
