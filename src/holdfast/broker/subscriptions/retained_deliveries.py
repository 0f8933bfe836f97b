"""Retained messages that a SUBACK promises: sent as the client takes them, also after a restart of the broker.

    SUBSCRIBE    begin      with the subscription, in one batch, if there is anything to be owed
    SUBACK       start      from then on the client is sent what is retained
    CONNECT      restore    where the last connection, or the last run of the broker, stopped

QoS 0 is for who is there: what an earlier connection did not get of it is not sent later.

In a cluster a delivery is as of SUBSCRIBE, by the version of each vnode. The subscription begins at the heads of that
moment, so a message comes by the one or by the other: also while SUBACK waits for its log, and after a move to another
node.
"""

from typing import Final

from holdfast.durable.retained.retained_store import RetainedScan, RetainedStore, VersionedRetained
from holdfast.durable.sessions.session_store import DropRetainedProgress, KeepRetainedProgress
from holdfast.exchange.client import BrokerClient, Channel, Subscribed
from holdfast.exchange.exchange import Exchange
from holdfast.exchange.retained_delivery import RetainedDelivery
from holdfast.model.clock import Clock
from holdfast.records.session.retained_progress import RetainedProgress
from holdfast.topics.filters import TopicFilter


class RetainedDeliveries:
    """Begins retained deliveries, and resumes them."""

    def __init__(
        self, exchange: Exchange, retained: RetainedStore, versioned: VersionedRetained | None, clock: Clock
    ) -> None:
        """`versioned` is the same store, if its parts are changed each by itself."""
        self._state: Final = exchange.state
        self._sender: Final = exchange.delivery.retained
        self._retained: Final = retained
        self._versioned: Final = versioned
        self._clock: Final = clock

    def begin(self, subscribed: Subscribed) -> RetainedDelivery:
        """For a subscription that is being made, in the place of an earlier one. It waits for the SUBACK."""
        client = subscribed.client
        raw = subscribed.record.filter.raw
        stored_before = client.forget_retained(raw)
        # What is written and not committed yet is older than the subscription: from the log it would not come.
        versions: tuple[tuple[int, int], ...] = ()
        if self._versioned is not None:
            versions = tuple(sorted(self._versioned.versions().items()))
        begun = RetainedProgress(self._retained.written(), b"", b"", versions)
        delivery = RetainedDelivery(subscribed.record, begun, stored=self._owes(subscribed, begun))
        if delivery.stored:
            self._state.step(KeepRetainedProgress(client.session.client_id, raw, begun))
        elif stored_before and client.stored():
            self._state.step(DropRetainedProgress(client.session.client_id, raw))
        return delivery

    def _owes(self, subscribed: Subscribed, begun: RetainedProgress) -> bool:
        """Whether there is anything that the session has to get, whatever happens to its connection.

        If a few keys do not tell, the delivery is stored as if there were.
        """
        client = subscribed.client
        record = subscribed.record
        if record.qos == 0 or not client.stored() or not client.queue.in_log():
            return False
        if client.subscribed(record.filter.raw) is not subscribed:  # its history is under way instead
            return False
        return self._sender.finds_any(self._rest(record.filter, begun))

    def start(self, subscribed: Subscribed, delivery: RetainedDelivery, channel: Channel) -> None:
        """The SUBACK is on its way: send what is retained. What comes later does so by itself."""
        client = subscribed.client
        topic_filter = subscribed.record.filter
        if client.subscribed(topic_filter.raw) is subscribed:
            now_us = self._clock.wall_us()
            if self._versioned is None:
                delivery.newest = self._retained.newest()
                delivery.scan = self._retained.match(topic_filter, now_us)
            else:
                delivery.scan = self._versioned.match_as_of(topic_filter, now_us, dict(delivery.versions))
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
        delivery.scan = self._rest(record.filter, progress)
        client.add_retained(raw, delivery)

    def _rest(self, topic_filter: TopicFilter, progress: RetainedProgress) -> RetainedScan:
        now_us = self._clock.wall_us()
        if self._versioned is None or not progress.versions:
            return self._retained.rest(topic_filter, now_us, progress.sent, progress.newest)
        return self._versioned.rest_as_of(topic_filter, now_us, progress.sent, dict(progress.versions))
