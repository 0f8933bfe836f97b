"""QoS 1 before the commit: where a zone asks for it, live subscribers do not wait for the disk.

    PUBLISH ──▶ batch ──▶ write ──▶ sync ──▶ PUBACK, and clients that were not live
       └──▶ live subscribers

What a subscriber gets early may be gone after a power loss; its publisher was not told that it is stored, then. So:

1. Never with QoS 2, never for groups: both promise that a message has one fate.
2. The progress of a session is told by what is committed. An early message counts from its own commit on.
3. Order holds: a client that had to wait for one message gets no later one early, until that one is on its way.
"""

from typing import Final

from holdfast.durable.sessions.session_store import DropInflight
from holdfast.exchange.client import BrokerClient
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import PendingPublish
from holdfast.exchange.plans import DeliveryTarget
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.message import Message


class EarlyDelivery:
    """Sends messages before their commit, and sees to it that no client gets them twice."""

    def __init__(self, state: LoopState, settings: ExchangeSettings, sender: Sender) -> None:
        self._state: Final = state
        self._upgrade_qos: Final = settings.upgrade_outgoing_qos
        self._sender: Final = sender

    def send(self, pending: PendingPublish) -> None:
        """A message has joined the open batch: clients that are live get it now."""
        number = self._state.batch.number
        plan = pending.plan
        open_ended = not plan.ending  # an end is a position, and it has none yet
        sent: set[BrokerClient] = set()
        for target in plan.targets:
            client = target.client
            chosen: DeliveryTarget | None = target.own() if client is pending.publisher else target
            if chosen is None:
                continue
            if open_ended and self.ready(client, chosen):
                self._sender.deliver_to(chosen, pending)
                client.early_batch = number
                sent.add(client)
            else:
                client.held_batch = number
        pending.early = sent

    def ready(self, client: BrokerClient, target: DeliveryTarget) -> bool:
        """Whether a client may be sent a message before its commit."""
        channel = client.channel
        return (
            channel is not None
            and client.external is None
            and not channel.closed
            and not channel.congested
            and not channel.changing
            and not client.behind
            and client.session.window.room()
            and client.held_batch <= self._state.committed
            and not (self._upgrade_qos and target.qos == 2)
        )

    def waits(self, client: BrokerClient) -> bool:
        """Whether a client was sent something that is not committed yet."""
        return client.early_batch > self._state.committed

    def settle(self, client: BrokerClient, message: Message) -> None:
        """A message is committed that a client was sent before. It must not be read to it once more."""
        if client.queue.skip(message) and client.stored():
            # In one commit with the entry in flight, if it is not acknowledged: else a crash could lose it.
            self._state.step(DropInflight(client.session.client_id, 0, message.shard, message.position_us))
            self._sender.save_progress(client)
