"""A stored session becomes a client again: subscriptions, what was in flight, how far it has come.

    CONNECT ──▶ record ──▶ subscriptions, all at once or in slices ──▶ shared and replayed ones, window, progress

Between two slices the client is what an offline one is: it has no channel, and what matches is owed to it. Nothing is
lost or comes twice, because the last step sets the position from which it reads the log to the stored one.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from holdfast.broker.sessions.slices import SLICE, Slices
from holdfast.broker.subscriptions.retained_deliveries import RetainedDeliveries
from holdfast.broker.subscriptions.subscriptions import SessionSubscriptions
from holdfast.durable.queues.client_queue import RunStart
from holdfast.durable.sessions.session_store import StoredSession
from holdfast.exchange.client import BrokerClient
from holdfast.exchange.loop_state import LoopState
from holdfast.model.message import Message
from holdfast.model.owed import Owed, OwedRetained, place_of
from holdfast.records.session.progress import ProgressEntry
from holdfast.topics.subscription import SubscriptionRecord


class SessionRestore:
    """Goes on with sessions as they were stored. Writes no step before everything of a session is there."""

    def __init__(
        self,
        subscriptions: SessionSubscriptions,
        retained: RetainedDeliveries,
        slices: Slices,
        state: LoopState,
        sent_up_to: Callable[[], RunStart],
    ) -> None:
        """`sent_up_to` tells how far messages may have been sent, by an earlier run or by another node."""
        self._subscriptions: Final = subscriptions
        self._retained: Final = retained
        self._slices: Final = slices
        self._state: Final = state
        self._sent_up_to: Final = sent_up_to

    def restore(self, client: BrokerClient, stored: StoredSession) -> None:
        """Go on with a session, at once."""
        self._restore_record(client, stored)
        for record in stored.subscriptions.values():
            self._restore_subscription(client, stored, record)
        self._finish(client, stored)

    async def restore_in_slices(
        self, client: BrokerClient, stored: StoredSession, has_left: Callable[[], bool]
    ) -> bool:
        """Load the rest of a session with very many records, and go on with it; False if its client has left.

        Then some of the subscriptions are in the matcher, and nothing else has changed.
        """
        while stored.load_on is not None:
            await self._slices.next_slice()
            if has_left():
                return False
            stored.load_on(SLICE)
        self._restore_record(client, stored)
        client.queue.expect_many()
        # Joining a group changes it for others, and a replay has its own position: both come when nothing can fail.
        last: list[SubscriptionRecord] = []
        records = iter(list(stored.subscriptions.values()))
        while page := list(islice(records, SLICE)):
            await self._slices.next_slice()
            if has_left():
                return False
            for record in page:
                raw = record.filter.raw
                if record.filter.group or raw in stored.replays:
                    last.append(record)
                    continue
                self._subscriptions.restore(client, record)
                progress = stored.retained.pop(raw, None)
                if progress is not None:
                    self._retained.restore(client, raw, progress, repeated=_crashed(stored))
        for record in last:
            self._restore_subscription(client, stored, record)
        self._finish(client, stored)
        return True

    @staticmethod
    def _restore_record(client: BrokerClient, stored: StoredSession) -> None:
        session = client.session
        session.record = stored.record
        session.user = stored.record.user
        session.revision = stored.record.revision
        session.expiry_s = stored.record.expiry_s
        session.disconnected_us = stored.record.disconnected_us
        session.assignments = stored.assignments or None
        for packet_id in stored.incoming:
            session.take(packet_id)

    def _restore_subscription(self, client: BrokerClient, stored: StoredSession, record: SubscriptionRecord) -> None:
        raw = record.filter.raw
        if raw in stored.replays and self._subscriptions.has_history():
            self._subscriptions.restore_replay(client, record, stored.replays[raw])
        else:
            self._subscriptions.restore(client, record)

    def _finish(self, client: BrokerClient, stored: StoredSession) -> None:
        """Everything but the subscriptions."""
        self._restore_window(client, stored)
        crashed = _crashed(stored)
        for raw, progress in stored.retained.items():
            self._retained.restore(client, raw, progress, repeated=crashed)
        client.queue.resume(stored, self._sent_up_to() if crashed else None)
        for step in stored.erased:
            self._state.step(step)

    def _restore_window(self, client: BrokerClient, stored: StoredSession) -> None:
        """What was in flight, in the order of sending, under its packet ids."""
        window = client.session.window
        order: dict[int, ProgressEntry | None] = {}
        if stored.progress is not None:
            for entry in stored.progress.unacknowledged:
                owed = stored.inflight.get(entry.packet_id)
                # The id may have been used again since: then it has the place of its new message, not of the old one.
                if owed is None or place_of(owed) == (entry.shard, entry.position_us):
                    order[entry.packet_id] = entry
            window.go_on_behind(stored.progress.last_packet_id)
        for packet_id in stored.inflight:
            order.setdefault(packet_id)
        client.session.order_behind(stored.last_order)
        for packet_id, sent in order.items():
            message = stored.unacknowledged.get(packet_id)
            if packet_id in stored.inflight:
                window.restore(packet_id, stored.inflight[packet_id], released=packet_id in stored.released)
            elif message is not None:
                window.restore(packet_id, self._owed(client, message, sent), released=False)
            if stored.progress is None:
                window.go_on_behind(packet_id)

    @staticmethod
    def _owed(client: BrokerClient, message: Message, entry: ProgressEntry | None) -> Owed:
        place = None if entry is None else entry.retained
        if place is not None:
            return OwedRetained(message, 1, identifiers=place.identifiers, newest=place.newest)
        owed = client.queue.owed(message)
        # The subscription may be gone since: what is in flight completes all the same.
        return owed if owed is not None and owed.qos == 1 else Owed(message, 1)


def _crashed(stored: StoredSession) -> bool:
    """Whether the broker ended before the connection did: then it may have sent more than is stored."""
    return stored.record.disconnected_us == 0 or stored.record.cut_off
