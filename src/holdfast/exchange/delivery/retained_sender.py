"""Retained messages on their way to new subscriptions, a slice in each loop iteration.

How long a scan takes is up to a client, and to those who left retained messages. So it is cut into slices by the keys
that it visits, and one loop iteration has a budget of them for all clients together:

    iteration   │ a: slice │ b: slice │ c: slice │ d: slice │ everything else │
    the next    │ e: slice │ f: slice │ a: slice │ b: slice │ everything else │

1. In one iteration a client gets one slice at most, and every client that waits gets one before any client gets two.
"""

from typing import Final

from holdfast.durable.retained.retained_store import RetainedScan, ScanBudget
from holdfast.durable.sessions.session_store import KeepRetainedProgress
from holdfast.exchange.client import BrokerClient, Channel
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.retained_delivery import RetainedDelivery
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.message import Message
from holdfast.model.owed import OwedRetained

#: Keys that one client's filters visit in one loop iteration: half a millisecond; and as many messages at most.
SLICE_KEYS: Final = 100
#: Keys that all clients' filters visit in one iteration. Measured: 4 to 5 µs each, so about 2 ms.
ITERATION_KEYS: Final = 400
#: Keys visited to see whether anything is owed, before a SUBSCRIBE is answered.
_LOOK_KEYS: Final = 20


class RetainedSender:
    """Sends retained messages as the client makes room."""

    def __init__(self, state: LoopState, settings: ExchangeSettings, sender: Sender) -> None:
        self._state: Final = state
        self._upgrade_qos: Final = settings.upgrade_outgoing_qos
        self._sender: Final = sender
        self._left = ITERATION_KEYS
        #: Clients whose slice has to wait for the next iteration, in the order in which they get it.
        self._postponed: list[BrokerClient] = []

    def begin_iteration(self) -> None:
        """A new loop iteration has its own budget."""
        self._left = ITERATION_KEYS

    def end_iteration(self) -> None:
        """Those who had to wait are served in the next iteration."""
        if self._postponed:
            for client in self._postponed:
                self._state.pump_soon(client)
            self._postponed = []

    def finds_any(self, scan: RetainedScan) -> bool:
        """Whether a scan finds a message, as far as a few keys tell; True if they do not."""
        given = min(_LOOK_KEYS, self._left)
        budget = ScanBudget(given)
        found = scan.next(budget) is not None or not scan.over()
        self._left -= given - budget.left
        return found

    def send(self, client: BrokerClient, channel: Channel) -> None:
        """Retained messages for new subscriptions [MQTT-3.3.1-9]."""
        window = client.session.window
        delivery = client.next_retained()
        if delivery is None or channel.congested or not window.room():
            return
        if self._left <= 0:
            self._postponed.append(client)
            return
        given = min(SLICE_KEYS, self._left)
        budget = ScanBudget(given)
        steps = 0
        while delivery is not None and not channel.congested and window.room():
            if steps == SLICE_KEYS or budget.left <= 0:
                # Enough for one slice: neither a million that are sent nor a million that are skipped hold up others.
                self._state.mark(channel)
                break
            steps += 1
            scan = delivery.scan
            message = None if scan is None else scan.next(budget)
            if message is not None:
                self._send_one(client, channel, delivery, message)
            elif scan is None or scan.over():
                self._end(client, delivery)
                delivery = client.next_retained()
            else:
                delivery.at = scan.at()
        self._left -= given - budget.left
        if delivery is not None:
            self._keep(client, delivery)

    def _send_one(self, client: BrokerClient, channel: Channel, delivery: RetainedDelivery, message: Message) -> None:
        delivery.at = message.topic
        record = delivery.record
        qos = record.qos if self._upgrade_qos else min(message.qos, record.qos)
        if record.hides(message.topic) or delivery.skips(message.topic, qos):
            return
        identifiers = (record.identifier,) if record.identifier else ()
        owed = OwedRetained(message, qos, identifiers=identifiers, newest=delivery.newest)
        owed.repeated = delivery.repeated and qos == 1
        self._sender.send_owed(client, channel, owed)
        delivery.ahead = delivery.ahead or qos == 2

    def _keep(self, client: BrokerClient, delivery: RetainedDelivery) -> None:
        """How far a delivery is goes with the QoS 2 messages that it has put into flight, so that they come once."""
        if delivery.ahead and delivery.stored and client.stored():
            raw = delivery.record.filter.raw
            self._state.step(KeepRetainedProgress(client.session.client_id, raw, delivery.progress()))

    def _end(self, client: BrokerClient, delivery: RetainedDelivery) -> None:
        """It is forgotten with the next progress, which knows what of it is unacknowledged."""
        raw = delivery.record.filter.raw
        client.end_retained(raw)
        self._keep(client, delivery)
        if delivery.stored and client.stored():
            if client.ended_retained is None:
                client.ended_retained = {}
            client.ended_retained[raw] = None
            self._sender.progress.client_changed(client)
