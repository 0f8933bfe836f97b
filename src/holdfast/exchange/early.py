"""QoS 1 before the commit: where a zone asks for it, live subscribers do not wait for the disk.

    PUBLISH ──▶ batch ──▶ write ──▶ sync ──▶ PUBACK, and who was not live
       └──▶ live subscribers

What a subscriber gets early may be gone after a power loss; its publisher was not told that it is stored, then. So:

1. Never with QoS 2, never for groups: both promise that a message has one fate.
2. How far a session is, is told by what is committed. An early message is none of that until its own commit.
3. Order holds: a client that had to wait for one message gets no later one early, until that one is on its way.
"""

from typing import TYPE_CHECKING, Final

from holdfast.durable.log_queue import LogQueue
from holdfast.durable.sessions import DropInflight
from holdfast.exchange.client import Client
from holdfast.exchange.passage import Passage
from holdfast.exchange.plans import Target
from holdfast.exchange.under_way import UnderWay
from holdfast.model.message import Message

if TYPE_CHECKING:
    from holdfast.exchange.delivery import Delivery


class Early:
    """Sends messages before their commit, and sees to it that nobody gets them twice."""

    def __init__(self, delivery: "Delivery", under_way: UnderWay, *, upgrade_qos: bool) -> None:
        self._delivery: Final = delivery
        self._under_way: Final = under_way
        self._upgrade_qos: Final = upgrade_qos
        #: The last batch whose effects were carried out.
        self.committed = 0

    def send(self, passage: Passage) -> None:
        """A message has joined the batch under way: whoever is live gets it now."""
        number = self._under_way.batch.number
        plan = passage.plan
        open_ended = not plan.ending  # an end is a position, and it has none yet
        sent: set[Client] = set()
        for target in plan.targets:
            client = target.client
            chosen: Target | None = target.own if client is passage.publisher else target
            if chosen is None:
                continue
            if open_ended and self.ready(client, chosen):
                self._delivery.deliver_to(chosen, passage)
                client.early_batch = number
                sent.add(client)
            else:
                client.held_batch = number
        passage.early = sent

    def ready(self, client: Client, target: Target) -> bool:
        """Whether a client may be sent a message before its commit."""
        channel = client.channel
        return (
            channel is not None
            and not client.outside
            and not channel.closed
            and not channel.congested
            and not channel.changing
            and not client.behind
            and client.session.window.room()
            and client.held_batch <= self.committed
            and not (self._upgrade_qos and target.qos == 2)
        )

    def waits(self, client: Client) -> bool:
        """Whether a client was sent something that is not committed yet."""
        return client.early_batch > self.committed

    def settle(self, client: Client, message: Message) -> None:
        """A message is committed that a client was sent before. It must not be read to it once more."""
        queue = client.queue
        if isinstance(queue, LogQueue) and queue.skip(message) and client.stored():
            # In one commit with the entry in flight, if it is not acknowledged: else a crash could lose it.
            self._under_way.step(DropInflight(client.session.client_id, 0, message.shard, message.position_us))
            self._delivery.save_progress(client)
