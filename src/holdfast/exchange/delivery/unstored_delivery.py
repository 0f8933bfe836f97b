"""QoS 1 without the disk: while writes find no room, and the settings say `warn`, messages go on unstored.

    PUBLISH QoS 1 ──▶ clients that can take it, now   ──▶ PUBACK, now
    QoS 2, CONNECT, SUBSCRIBE, external queues, who had to wait ──▶ when writing goes on

Batches that were written before the failure was known stay where they are, and are committed later: their messages have
places in the log. From then on messages are not put into a batch, and nothing is left of them once they are delivered.

1. A message is delivered once: who got it here is left out when its batch is committed.
2. Order holds: a client or a group that has to wait for one message gets no later one here.
3. Acknowledgements leave a connection in order: behind an answer that waits for the disk, a PUBACK waits, too.
4. QoS 2 is not begun without the disk, in either direction: exactly once is a promise of what is stored.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.exchange.client import BrokerClient, Channel, Group
from holdfast.exchange.delivery.delivery import Delivery
from holdfast.exchange.loop_state import LoopState, SealedBatch
from holdfast.exchange.pending_publish import Effect, PendingPublish
from holdfast.exchange.plans import DeliveryTarget


class UnstoredDelivery:
    """Releases what waits for a commit that does not come."""

    def __init__(self, state: LoopState, delivery: Delivery) -> None:
        self._state: Final = state
        self._delivery: Final = delivery
        #: Whether writes fail, and messages are to go on.
        self.active = False
        self._begun = False
        #: Connections with an answer that waits for the disk.
        self._blocked: Final[set[Channel]] = set()
        #: Effects of the open batch that were looked at, and have to wait.
        self._seen = 0
        #: What those keep in memory.
        self.waiting_bytes = 0

    def end(self) -> None:
        """Writing goes on: what waits is committed as ever."""
        self.active = self._begun = False
        self._blocked.clear()
        self._seen = self.waiting_bytes = 0

    def waiting(self) -> int:
        """How many effects and changes wait in the open batch."""
        return len(self._state.effects) + len(self._state.batch)

    def release(self, written: Iterable[SealedBatch]) -> None:
        """Let go what may go: of the batches that were written, once, and of what has come since."""
        if not self._begun:
            self._begun = True
            for sealed in written:
                for effect in sealed.effects:
                    self._release(effect, sealed.batch.number)
        effects = self._state.effects
        count = len(effects)
        if count > self._seen:
            kept = effects[: self._seen]
            for effect in effects[self._seen : count]:
                if not self._release(effect, self._state.batch.number):
                    kept.append(effect)
                    if isinstance(effect, PendingPublish):
                        self.waiting_bytes += len(effect.message.topic) + len(effect.message.payload)
            kept.extend(self._state.effects[count:])  # what the deliveries have left to be committed
            self._state.effects = kept
            self._seen = len(kept)

    def _release(self, effect: Effect, number: int) -> bool:
        """Whether nothing is left to do when it is committed."""
        channel = effect.channel
        if not isinstance(effect, PendingPublish) or effect.message.qos != 1 or effect.outstanding is not None:
            if channel is not None and (effect.frame or effect.then is not None):
                self._blocked.add(channel)
            return False
        if effect.answered:
            return False  # let go before, when writes failed for the last time, and not committed yet
        served = self._deliver(effect, number)
        if channel is not None:
            if channel in self._blocked or channel.deferred is not None:
                self._blocked.add(channel)
                return False
            effect.answered = True
            channel.receiving -= 1
            self._state.send(channel, effect.frame)
        message = effect.message
        return served and not message.position_us and not message.retain

    def _deliver(self, pending: PendingPublish, number: int) -> bool:
        """Deliver to clients that can take it now; whether those are all."""
        plan = pending.plan
        if pending.early is not None or plan.ending:
            return False  # who did not get it early had to wait; and an end is a position
        sent: set[BrokerClient] = set()
        groups: set[Group] = set()
        for target in plan.targets:
            client = target.client
            chosen: DeliveryTarget | None = target.own() if client is pending.publisher else target
            if chosen is None:
                sent.add(client)
            elif self._ready(pending, chosen):
                self._delivery.sender.deliver_to(chosen, pending)
                sent.add(client)
                if pending.message.position_us:
                    client.early_batch = number
            else:
                client.held_batch = number
        for group in plan.groups:
            if group.held_batch <= self._state.committed and self._delivery.groups.deliver_now(group, pending):
                groups.add(group)
            else:
                group.held_batch = number
        pending.early = sent
        pending.early_groups = groups
        if len(sent) < len(plan.targets) or len(groups) < len(plan.groups):
            return False
        if not pending.message.position_us:
            for client in plan.denied:
                self._delivery.sender.drop_denied(client, pending.message)
        return True

    def _ready(self, pending: PendingPublish, target: DeliveryTarget) -> bool:
        """Whether a client gets it now: without a place in the log, also into its queue in memory."""
        if pending.message.position_us:
            return self._delivery.early.ready(target.client, target)
        return target.client.external is None and target.client.held_batch <= self._state.committed
