"""Retained messages that a SUBACK promises: sent as the client takes them, also after a restart of the broker.

    SUBSCRIBE    begin      with the subscription, in one batch, if there is anything to be owed
    SUBACK       start      from then on the client is sent what is retained
    CONNECT      restore    where the last connection, or the last run of the broker, stopped

QoS 0 is for who is there: what an earlier connection did not get of it is not sent later.
"""

from typing import Final

from holdfast.durable.retained.retained_store import RetainedStore
from holdfast.durable.sessions.session_store import DropRetainedProgress, KeepRetainedProgress
from holdfast.exchange.client import BrokerClient, Channel, Subscribed
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.retained_delivery import RetainedDelivery
from holdfast.model.clock import Clock
from holdfast.records.retained_progress import RetainedProgress


class RetainedDeliveries:
    """Begins retained deliveries, and resumes them."""

    def __init__(self, exchange: Exchange, retained: RetainedStore, clock: Clock) -> None:
        self._state: Final = exchange.state
        self._sender: Final = exchange.delivery.retained
        self._retained: Final = retained
        self._clock: Final = clock

    def begin(self, subscribed: Subscribed) -> RetainedDelivery:
        """For a subscription that is being made, in the place of an earlier one. It waits for the SUBACK."""
        client = subscribed.client
        raw = subscribed.record.filter.raw
        stored_before = client.forget_retained(raw)
        # What is written and not committed yet is older than the subscription: from the log it would not come.
        begun = RetainedProgress(self._retained.written(), b"", b"")
        delivery = RetainedDelivery(subscribed.record, begun, stored=self._owes(subscribed, begun.newest))
        if delivery.stored:
            self._state.step(KeepRetainedProgress(client.session.client_id, raw, begun))
        elif stored_before and client.stored():
            self._state.step(DropRetainedProgress(client.session.client_id, raw))
        return delivery

    def _owes(self, subscribed: Subscribed, newest: int) -> bool:
        """Whether there is anything that the session has to get, whatever happens to its connection.

        If a few keys do not tell, the delivery is stored as if there were.
        """
        client = subscribed.client
        record = subscribed.record
        if record.qos == 0 or not client.stored() or not client.queue.in_log():
            return False
        if client.subscribed(record.filter.raw) is not subscribed:  # its history is under way instead
            return False
        scan = self._retained.rest(record.filter, self._clock.wall_us(), b"", newest)
        return self._sender.finds_any(scan)

    def start(self, subscribed: Subscribed, delivery: RetainedDelivery, channel: Channel) -> None:
        """The SUBACK is on its way: send what is retained as of now. What comes later does so by itself."""
        client = subscribed.client
        topic_filter = subscribed.record.filter
        if client.subscribed(topic_filter.raw) is subscribed:
            delivery.newest = self._retained.newest()
            delivery.scan = self._retained.match(topic_filter, self._clock.wall_us())
            delivery.resumed = client.channel is not channel
            client.end_deliveries(topic_filter.raw)
            client.add_retained(topic_filter.raw, delivery)
            self._state.pump_soon(client)

    def restore(self, client: BrokerClient, raw: bytes, progress: RetainedProgress, *, repeated: bool) -> None:
        """Resume a stored delivery, when its client has a connection; `repeated` if it may have got more."""
        subscribed = client.subscribed(raw)
        if subscribed is None:
            return
        record = subscribed.record
        delivery = RetainedDelivery(record, progress, stored=True)
        delivery.resumed = True
        delivery.repeated = repeated
        delivery.scan = self._retained.rest(record.filter, self._clock.wall_us(), progress.sent, progress.newest)
        client.add_retained(raw, delivery)
