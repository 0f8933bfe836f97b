"""Sessions: begun, resumed, left behind, ended."""

from collections.abc import Callable
from typing import Final

import structlog

from holdfast.broker.deadlines import Deadline, Deadlines
from holdfast.broker.external.queue_backends import QueueBackends
from holdfast.broker.policy import OWNER_ANY, Policy
from holdfast.broker.sessions.session_restore import SessionRestore
from holdfast.broker.sessions.slices import SLICE, Slices, SubscriptionRemovals
from holdfast.broker.sessions.wills import Wills
from holdfast.broker.stores import Stores
from holdfast.broker.subscriptions.retained_deliveries import RetainedDeliveries
from holdfast.broker.subscriptions.subscriptions import SessionSubscriptions
from holdfast.durable.commit import DecidingLog
from holdfast.durable.queues.client_queue import RunStart
from holdfast.durable.queues.external_queue import ExternalQueue
from holdfast.durable.queues.queue_store import QueueLimits
from holdfast.durable.sessions.session_store import DropSession, KeepSession, StoredSession
from holdfast.exchange.client import BrokerClient, Channel
from holdfast.exchange.drops import DROP_SESSION_ENDED
from holdfast.exchange.exchange import Exchange
from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError, SettingsError
from holdfast.model.reasons import QUOTA_EXCEEDED, SERVER_UNAVAILABLE
from holdfast.model.time import SECOND_US
from holdfast.model.will import StoredWill
from holdfast.records.session.session_record import SessionRecord
from holdfast.session.inflight import UNLIMITED
from holdfast.session.state import NEVER, SessionState, will_delay_s

_log = structlog.get_logger()

#: Why a session ends.
_CLEAN: Final = "the client asked for a clean start"
_EXPIRED: Final = "its expiry interval had passed"
_LEFT: Final = "the connection ended, and the session with it"
#: Sessions looked at in one go when they end.
_PAGE: Final = 200


class BrokerSessions:
    """All sessions of this node, online and offline.

    1. An offline session without expiry does not exist.
    2. What is stored of a session that outlives its connection is, with the open batch, what it is here.
    3. An offline session that follows the log and is in no group has no object here: the store has it.
    4. A session with an external queue always has one: the matcher has to find it.
    5. A session that is opened in slices has one here when it is whole; until then its store is not changed.
    """

    def __init__(
        self,
        exchange: Exchange,
        policy: Policy,
        clock: Clock,
        deadlines: Deadlines,
        stores: Stores,
        backends: QueueBackends,
    ) -> None:
        self._exchange: Final = exchange
        self._state: Final = exchange.state
        self._progress: Final = exchange.delivery.progress
        self._delivery: Final = exchange.delivery
        self._external: Final = exchange.external
        self._backends: Final = backends
        self._policy: Final = policy
        self._clock: Final = clock
        self._deadlines: Final = deadlines
        self._stored: Final = stores.sessions
        self._new_queue: Final = stores.new_queue
        self._stores_all: Final = stores.stores_all
        self._deciding_log: Final = stores.deciding_log
        self.clients: Final[dict[str, BrokerClient]] = {}
        self.subscriptions: Final = SessionSubscriptions(exchange, policy, stores, clock, deadlines)
        self.retained: Final = RetainedDeliveries(exchange, stores.retained, stores.versioned_retained, clock)
        self._expiries: Final[dict[str, Deadline]] = {}
        #: Sessions that ended, and whose end is not committed yet.
        self._dropped: Final[set[str]] = set()
        self.wills: Final = Wills(exchange, clock, deadlines, max_qos=policy.mqtt.max_qos)
        self.expired = 0
        self._slices: Final = Slices()
        run_start = RunStart(dict(stores.delivered), exchange.external.first)

        def sent_up_to() -> RunStart:
            if stores.deciding_log is None:
                return run_start
            # Another node may have sent all that there is by now.
            return RunStart(dict(stores.delivered), exchange.external.first)

        self._restore: Final = SessionRestore(self.subscriptions, self.retained, self._slices, self._state, sent_up_to)
        #: Sessions that are being opened in slices, and whether a will of theirs came due meanwhile.
        self.opening: Final[dict[str, bool]] = {}
        self._removals: Final = SubscriptionRemovals(self.subscriptions, self._slices)

    # ---- begin

    async def open(
        self, client_id: str, *, clean_start: bool, persistent: bool, taken_over: bool, has_left: Callable[[], bool]
    ) -> tuple[BrokerClient, bool] | None:
        """The client's session, and whether it was there before; `persistent` if it is to outlive its connection.

        A will that still waits is not published, also if the session does not go on [MQTT-3.1.2-8]; but one of a
        connection that was `taken_over` by this one is, if its session ends.
        Waits only for what is more than one slice of work; None if the client has left meanwhile.
        Requires: no other connect of this client id comes in between.
        Ensures: a session that was to be resumed is as it was before, if the client has left.
        """
        if self._deciding_log is not None:
            taken_over = await self._catch_up(client_id, self._deciding_log)
        opened = self._open(client_id, clean_start=clean_start, persistent=persistent, taken_over=taken_over)
        if isinstance(opened, tuple):
            return opened
        self.opening[client_id] = False
        try:
            while opened is None and not has_left():
                await self._removals.finished(client_id)
                if not has_left():
                    opened = self._open(
                        client_id, clean_start=clean_start, persistent=persistent, taken_over=taken_over
                    )
            if isinstance(opened, StoredSession):
                opened = await self._restore_in_slices(client_id, opened, has_left)
        finally:
            will_due = self.opening.pop(client_id)
        if will_due and opened is None:
            self.will_due(client_id)
        return opened

    async def _catch_up(self, client_id: str, log: DecidingLog) -> bool:
        """Whether a connection was taken over, at any node. Ensures: nothing of an earlier one is at hand, and all that
        the stored session names is: what is remembered may not have counted, what is not applied here would look gone.
        """
        if (remembered := self.clients.get(client_id)) is not None:
            self.fenced(remembered)
        if self._removals.under_way(client_id):
            await self._removals.finished(client_id)
        if not await log.has_all_of(client_id):
            raise PeerError(SERVER_UNAVAILABLE, "this node has not caught up with what the session was sent elsewhere")
        return log.has_replaced(client_id)

    def _open(
        self, client_id: str, *, clean_start: bool, persistent: bool, taken_over: bool
    ) -> tuple[BrokerClient, bool] | StoredSession | None:
        """What `open` gives, at once; or what was loaded of a stored session, or None while a removal is under way."""
        existing = self.clients.get(client_id)
        record = None
        stored = None
        over = clean_start
        if existing is None:
            if self._removals.under_way(client_id):
                return None
            record = self.record(client_id)
            if record is not None:
                over = over or self.is_over(record)
                stored = None if over else self._stored.load(client_id, SLICE)
                if stored is not None and stored.load_on is not None:
                    return stored
        if not taken_over:
            self.wills.drop(client_id)
        if existing is not None:
            if not clean_start:
                self._cancel_expiry(client_id)
                return existing, True
            self.end(existing, _CLEAN)
            if self._removals.under_way(client_id):
                return None
        most = self._policy.limits.max_sessions
        if record is None and most and max(len(self.clients), self._stored.count()) >= most:
            raise PeerError(QUOTA_EXCEEDED, f"there are {most} sessions, which is the limit")
        if record is not None and over:
            why = _CLEAN if clean_start else _EXPIRED
            self.end_stored(client_id, record, why, drops_will=clean_start and not taken_over)
        backend, limits = self._policy.queue_of(client_id) if persistent and stored is None else ("", None)
        if backend and limits is not None:
            client = self._new_external(client_id, backend, limits, self._external.next_number())
        else:
            client = self.clients[client_id] = self._build_client(client_id)
        if stored is not None:
            self._restore.restore(client, stored)
        elif self._deciding_log is not None:
            client.session.revision = self._deciding_log.revision_of(client_id)
        return client, stored is not None

    async def _restore_in_slices(
        self, client_id: str, stored: StoredSession, has_left: Callable[[], bool]
    ) -> tuple[BrokerClient, bool] | None:
        client = self._build_client(client_id)
        whole = False
        try:
            whole = await self._restore.restore_in_slices(client, stored, has_left)
        finally:
            if not whole:
                self._removals.remove(client)
        if not whole:
            return None
        self.clients[client_id] = client
        return client, True

    def owner(self, client_id: str) -> str | None:
        """The user whose session a client id has; None if it has none, or if an earlier version stored no user."""
        client = self.clients.get(client_id)
        if client is not None:
            return client.session.user
        record = self.record(client_id)
        if record is None or (self.is_over(record) and self.wills.waiting(client_id) is None):
            return None
        return record.user

    def record(self, client_id: str) -> SessionRecord | None:
        """What is stored of a session itself, unless it has ended."""
        return None if client_id in self._dropped else self._stored.record(client_id)

    def is_over(self, record: SessionRecord) -> bool:
        """Whether it ended already, and was only not removed yet; after a crash, one without expiry has."""
        if self._deciding_log is not None:
            return False  # it would be gone
        return record.expiry_s == 0 or 0 <= record.ends_us() <= self._clock.wall_us()

    def _build_client(self, client_id: str) -> BrokerClient:
        session = SessionState(client_id)
        return BrokerClient(session, self._new_queue(client_id, session.subscriptions))

    def _new_external(self, client_id: str, backend: str, limits: QueueLimits, begun: int) -> BrokerClient:
        """A client with an external queue; what has a lower number there is of an earlier session."""
        known = self._external.backends.get(backend)
        if known is None:
            raise SettingsError(
                f"the session of {client_id!r} has its queue in {backend!r}, which the settings do not use; set "
                f"sessions.queue = {backend!r}, or a class with it, until such sessions have ended"
            )
        queue = ExternalQueue(client_id, known, limits, begun)
        client = BrokerClient(SessionState(client_id), queue, queue)
        self.clients[client_id] = client
        self._external.add(client)
        return client

    def attach(
        self,
        client: BrokerClient,
        channel: Channel,
        *,
        user: str,
        expiry_s: int,
        inflight: int,
        will: StoredWill | None,
    ) -> None:
        """A connection of `user` takes its place in the session, which is that user's from now on."""
        session = client.session
        session.user = user
        session.own_numbers = self._policy.sessions.owner != OWNER_ANY
        session.expiry_s = expiry_s
        session.disconnected_us = 0
        session.window.limit_bytes = self._policy.sessions.max_inflight_bytes
        session.window.reconnected(inflight)
        client.owner = channel
        channel.client = client
        self.wills.drop(session.client_id)
        if session.persistent() or will is not None or session.record is not None:
            self._keep(client, will)
        counted = session.persistent() and client.queue.sent() is not None
        session.window.reserved = session.window.given if counted else UNLIMITED
        if session.persistent():
            self._progress.save(client)

    def _keep(self, client: BrokerClient, will: StoredWill | None) -> None:
        """Have the session itself stored as it is now."""
        session = client.session
        external = client.external
        record = SessionRecord(
            expiry_s=session.expiry_s,
            disconnected_us=session.disconnected_us,
            will=will,
            queue="" if external is None else external.backend.name,
            begun=0 if external is None else external.begun,
            user=session.user,
            revision=session.revision,
        )
        self._state.step(KeepSession(session.client_id, record, session.record))
        session.record = record

    def begin(self, client: BrokerClient, channel: Channel) -> None:
        """CONNACK is on its way: messages may follow it now [MQTT-3.2.0-1]."""
        client.channel = channel
        client.behind = True  # until the queue turns out to be empty
        client.queue.online()
        self._delivery.begin_drain(client)
        self._rights_changed(client, channel)
        if client.scans():
            self._state.pump_soon(client)  # in turn with others who are back
        else:
            self._delivery.pump(client)
        self.subscriptions.shared.take_from_absent(client)

    def _rights_changed(self, client: BrokerClient, channel: Channel) -> None:
        """Plans leave out who may not read a topic on the present connection: have them made again."""
        if channel.access is None:
            return
        if len(client.session.subscriptions) > SLICE:
            self._exchange.routes.touch_all()
            return
        for record in client.session.subscriptions.values():
            self._exchange.routes.touch(record.filter)

    def save_progress(self, client: BrokerClient) -> None:
        """Have it stored with the open batch how far a session has come, if it outlives its connection."""
        if client.session.persistent():
            self._progress.save(client)

    # ---- end

    def detach(self, client: BrokerClient) -> None:
        """The connection is gone; the session waits for the next one, or ends."""
        self._state.schedule()
        session = client.session
        if client.channel is not None:
            self._rights_changed(client, client.channel)
        client.channel = client.owner = None
        client.queue.offline()
        session.disconnected_us = self._clock.wall_us()
        client.rest_deliveries()
        self.subscriptions.shared.share_out(client)
        if self._deciding_log is not None:
            self._release(client)
            return
        if not session.persistent():
            self.end(client)
            return
        self._keep(client, self.wills.waiting(session.client_id))
        if self._delivery.early.waits(client):
            # How far it is can be told when what it was sent early is committed.
            self._state.follow_up(session.client_id, lambda: self._put_away(client))
        else:
            self._put_away(client)

    def _release(self, client: BrokerClient) -> None:
        """Leave a session to the log, which has its record and its will, and decides when it ends."""
        session = client.session
        if not session.persistent():
            self._forget(client)
            return
        if session.record is not None and session.record.expiry_s != session.expiry_s:
            session.disconnected_us = 0
            self._keep(client, session.record.will)
        self._progress.save(client)
        self._state.follow_up(session.client_id, lambda: self._forget_absent(client))

    def _put_away(self, client: BrokerClient) -> None:
        """Store how far an absent session has come, and forget it or note when it ends."""
        session = client.session
        if client.owner is not None or self.clients.get(session.client_id) is not client:
            return
        self._progress.save(client)
        if client.queue.in_log() and not client.groups and self._stores_all:
            # When that is committed: a client that is back before finds its session as it left it.
            self._state.follow_up(session.client_id, lambda: self._forget_absent(client))
        elif session.expiry_s != NEVER:
            self._expire_after(client, session.expiry_s * SECOND_US)

    def _expire_after(self, client: BrokerClient, delay_us: int) -> None:
        self._expiries[client.session.client_id] = self._deadlines.after(delay_us, lambda: self._expire(client))

    def _forget_absent(self, client: BrokerClient) -> None:
        """Nothing of it is needed in memory until it returns: what it is owed lies in the log."""
        is_absent = client.owner is None and self.clients.get(client.session.client_id) is client
        # On one node a group has its absent members in memory.
        if is_absent and (not client.groups or self._deciding_log is not None):
            self._forget(client)

    def _forget(self, client: BrokerClient) -> None:
        self._removals.remove(client)
        client.unsaved = False
        client.queue.drop()
        client.retained = None
        client.end_replays()
        self.clients.pop(client.session.client_id, None)

    def _expire(self, client: BrokerClient) -> None:
        if client.owner is None:
            self.expired += 1
            self.end(client, _EXPIRED)

    def end(self, client: BrokerClient, why: str = _LEFT) -> None:
        """The session is over: everything of it goes, and a will that waited is due [MQTT-3.1.3-9]."""
        client_id = client.session.client_id
        self._cancel_expiry(client_id)
        self.wills.publish_waiting(client_id)
        if client.session.record is not None:
            self.drop_stored(client_id, client.session.record)
        self.subscriptions.shared.leave_all(client)
        window = client.session.window
        unqueued = [owed for owed in map(window.owed, window.packet_ids()) if owed is not None and owed.serial == 0]
        count = client.queue.count() + len(unqueued)
        if count or client.session.persistent():
            self._lose(client_id, count, why)
        self._forget(client)
        self._external.remove(client)

    def fenced(self, client: BrokerClient) -> None:
        """Another channel owns the session: forget what is known of it here, and write nothing for it."""
        client_id = client.session.client_id
        self._cancel_expiry(client_id)
        self.wills.drop(client_id)
        self.subscriptions.shared.share_out(client)
        self._forget(client)

    def _lose(self, client_id: str, count: int, why: str) -> None:
        """What a session was owed ends with it, also what cannot be counted without reading the log."""
        self._exchange.counters.drop(DROP_SESSION_ENDED, count)
        self._exchange.drops.note(DROP_SESSION_ENDED, client_id, b"", self._clock.wall_us(), count, detail=why)

    def end_stored(self, client_id: str, record: SessionRecord, why: str, *, drops_will: bool = False) -> None:
        """The end of a session that has no object. The log of a cluster publishes the will that it still has."""
        if record.expiry_s:
            self._lose(client_id, 0, why)
        if drops_will and self._deciding_log is not None and record.will is not None:
            self._state.step(KeepSession(client_id, record.without_will(), record))
        self.drop_stored(client_id, record)

    def drop_stored(self, client_id: str, record: SessionRecord) -> None:
        """Have everything of a session removed; until that is committed, what is stored of it does not count."""
        self._state.step(DropSession(client_id, record))
        if record.queue:
            # It goes when this is committed, and after a crash in between as well.
            change = self._external.drop_queue(record.queue, client_id)
            self._state.follow_up(client_id, lambda: self._backends.drop(change))
        self._dropped.add(client_id)
        self._state.follow_up(client_id, lambda: self._dropped.discard(client_id))

    def _cancel_expiry(self, client_id: str) -> None:
        deadline = self._expiries.pop(client_id, None)
        if deadline is not None:
            deadline.cancel()

    # ---- wills

    def leave_will(self, client: BrokerClient, will: StoredWill) -> None:
        """The connection ended without goodbye: publish its will, after its delay."""
        if self._deciding_log is not None:
            return  # it is stored with the session
        session = client.session
        client_id = session.client_id
        self.wills.leave(client_id, will, will_delay_s(will, session.expiry_s), lambda: self.will_due(client_id))

    def will_due(self, client_id: str) -> None:
        """The delay has passed. One commit publishes the will and forgets it, so that it comes once."""
        if client_id in self.opening:
            self.opening[client_id] = True  # its client is back in time, unless it leaves before its CONNACK
            return
        if not self.wills.publish_waiting(client_id):
            return
        client = self.clients.get(client_id)
        if client is not None:
            if client.session.record is not None:
                self._keep(client, None)
            return
        record = self.record(client_id)
        if record is not None and record.expiry_s == 0:
            self.drop_stored(client_id, record)
        elif record is not None:
            self._state.step(KeepSession(client_id, record.without_will(), record))

    # ---- what the store alone knows

    def restore_external(self, client_id: str) -> None:
        """After a start: a session with an external queue is put into the matcher."""
        stored = self._stored.load(client_id)
        if stored is None or client_id in self.clients:
            return
        record = stored.record
        limits = self._policy.queue_of(client_id)[1]
        client = self._new_external(client_id, record.queue, limits, record.begun)
        self._restore.restore(client, stored)
        if self.is_over(record):
            self._expire(client)
        elif record.ends_us() >= 0:
            self._expire_after(client, record.ends_us() - self._clock.wall_us())

    def sweep(self) -> None:
        """End the stored sessions whose time has passed; store how far the others have come."""
        if not self._exchange.unstored.active:  # else it would wait in memory, once more with each second
            self._progress.tick()
        self._external.trim_outbox()
        if self._deciding_log is not None:
            self._state.schedule()
            return
        now_us = self._clock.wall_us()
        for client_id in self._stored.expiring(now_us, _PAGE):
            if client_id in self.clients or client_id in self._dropped or client_id in self.opening:
                continue
            if self.wills.waiting(client_id) is not None:
                continue
            record = self.record(client_id)
            if record is not None and self.is_over(record):
                self.expired += 1
                self.end_stored(client_id, record, _EXPIRED)
        self._state.schedule()
