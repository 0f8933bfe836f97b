"""Messages that are taken: into the open batch with QoS 1 and 2, straight to clients with QoS 0."""

from collections.abc import Callable
from typing import Final

from holdfast.durable.retained.retained_store import RetainedStore
from holdfast.exchange.delivery.delivery import Delivery
from holdfast.exchange.delivery.unstored_delivery import UnstoredDelivery
from holdfast.exchange.external.external_queues import ExternalQueues
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import PendingPublish
from holdfast.exchange.plans import RoutingTable
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.message import Message
from holdfast.model.reasons import SUCCESS


class Intake:
    """Takes messages of clients, and of the broker itself."""

    def __init__(
        self,
        state: LoopState,
        settings: ExchangeSettings,
        routing: RoutingTable,
        delivery: Delivery,
        unstored: UnstoredDelivery,
        external: ExternalQueues,
        retained: RetainedStore,
    ) -> None:
        self._state: Final = state
        self._settings: Final = settings
        self._keeps_qos0: Final = settings.keeps_qos0
        self._routing: Final = routing
        self._delivery: Final = delivery
        self._unstored: Final = unstored
        self._external: Final = external
        self._retained: Final = retained
        #: Why messages that have to be stored are not taken at the moment; SUCCESS if they are.
        self.refusing = SUCCESS
        #: Passes QoS 0 messages of clients on to the other nodes of a cluster.
        self.relay: Callable[[Message], None] | None = None
        #: Whether messages are stored; else they go to connected clients alone, as those of a zone that stores nothing.
        self.storing = True

    def accept(self, pending: PendingPublish) -> None:
        """Take a message into the open batch; it is delivered when that is committed, or to some clients early."""
        message = pending.message
        state = self._state
        if self.storing or (self._unstored.active and message.qos == 2):  # which waits for the disk anyway
            state.batch.messages.append(message)
        else:
            state.counters.not_stored += 1
        if message.retain:
            state.batch.retained.append(message)
        if pending.plan.external:
            self._external.take(pending)
        state.effects.append(pending)
        if pending.plan.early and message.qos == 1 and not self._unstored.active:
            self._delivery.early.send(pending)

    def pass_on(self, pending: PendingPublish) -> None:
        """QoS 0: deliver now, without waiting for the commit. What is retained is found from the commit on."""
        message = pending.message
        state = self._state
        if self._keeps_qos0 and not self._unstored.active:
            state.batch.messages.append(message)
        if message.retain:
            state.batch.retained.append(message)
            state.effects.append(pending)
        self._delivery.deliver(pending, pending.plan)
        if self.relay is not None and message.publisher:
            self.relay(message)

    def publish(self, message: Message) -> None:
        """A message of the broker itself, or a will."""
        pending = PendingPublish(message, self._routing.plan_for(message.topic), None, None, b"")
        self._state.schedule()
        if message.qos == 0:
            self.pass_on(pending)
        else:
            self.accept(pending)

    def may_retain(self, topic: bytes, payload: bytes, now_us: int) -> bool:
        """Whether there is room for a retained message, or it needs none: it removes one, or replaces one.

        What is still on its way to the store is not counted.
        """
        most = self._settings.max_retained
        if most == 0 or not payload or self._retained.count() < most:
            return True
        return self._retained.get(topic, now_us) is not None
