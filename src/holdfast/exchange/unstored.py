"""QoS 1 without the disk: while writes find no room, and the settings say `warn`, messages go on unstored.

    PUBLISH QoS 1 ──▶ whoever can take it, now   ──▶ PUBACK, now
    QoS 2, CONNECT, SUBSCRIBE, queues outside the log, who had to wait ──▶ when writing goes on

Batches that were written before the failure was known stay where they are, and are committed later: their messages have
places in the log. From then on messages are not put into a batch, and nothing is left of them once they are delivered.

1. A message is delivered once: who got it here is left out when its batch is committed.
2. Order holds: a client or a group that has to wait for one message gets no later one here.
3. Acknowledgements leave a connection in order: behind an answer that waits for the disk, a PUBACK waits, too.
4. QoS 2 is not begun without the disk, in either direction: exactly once is a promise of what is stored.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client
from holdfast.exchange.groups import Group
from holdfast.exchange.passage import Effect, Passage
from holdfast.exchange.plans import Target
from holdfast.exchange.under_way import Sealed, UnderWay

if TYPE_CHECKING:
    from holdfast.exchange.delivery import Delivery


class Unstored:
    """Releases what waits for a commit that does not come."""

    def __init__(self, delivery: "Delivery", under_way: UnderWay) -> None:
        self._delivery: Final = delivery
        self._under_way: Final = under_way
        #: Whether writes fail, and messages are to go on.
        self.active = False
        self._begun = False
        #: Connections with an answer that waits for the disk.
        self._blocked: Final[set[Channel]] = set()
        #: Effects of the batch under way that were looked at, and have to wait.
        self._seen = 0
        #: What those keep in memory.
        self.waiting_bytes = 0

    def begin(self) -> None:
        self.active = True

    def end(self) -> None:
        """Writing goes on: what waits is committed as ever."""
        self.active = self._begun = False
        self._blocked.clear()
        self._seen = self.waiting_bytes = 0

    def waiting(self) -> int:
        """How many effects and changes wait in the batch under way."""
        return len(self._under_way.effects) + len(self._under_way.batch)

    def release(self, written: Iterable[Sealed]) -> None:
        """Let go what may go: of the batches that were written, once, and of what has come since."""
        if not self._begun:
            self._begun = True
            for sealed in written:
                for effect in sealed.effects:
                    self._release(effect, sealed.batch.number)
        effects = self._under_way.effects
        count = len(effects)
        if count > self._seen:
            kept = effects[: self._seen]
            for effect in effects[self._seen : count]:
                if not self._release(effect, self._under_way.batch.number):
                    kept.append(effect)
                    if isinstance(effect, Passage):
                        self.waiting_bytes += len(effect.message.topic) + len(effect.message.payload)
            kept.extend(self._under_way.effects[count:])  # what the deliveries have left to be committed
            self._under_way.effects = kept
            self._seen = len(kept)

    def _release(self, effect: Effect, number: int) -> bool:
        """Whether nothing is left to do when it is committed."""
        channel = effect.channel
        if not isinstance(effect, Passage) or effect.message.qos != 1 or effect.waiting is not None:
            if channel is not None and (effect.frame or effect.then is not None):
                self._blocked.add(channel)
            return False
        if effect.answered:
            return False  # let go before, when writes failed for the last time, and not committed yet
        served = self._deliver(effect, number)
        if channel is not None:
            if channel in self._blocked or channel.held is not None:
                self._blocked.add(channel)
                return False
            effect.answered = True
            channel.receiving -= 1
            self._delivery.send(channel, effect.frame)
        message = effect.message
        return served and not message.position_us and not message.retain

    def _deliver(self, passage: Passage, number: int) -> bool:
        """Deliver to whoever can take it now; whether that is everybody."""
        plan = passage.plan
        if passage.early is not None or plan.ending:
            return False  # who did not get it early had to wait; and an end is a position
        sent: set[Client] = set()
        groups: set[Group] = set()
        for target in plan.targets:
            client = target.client
            chosen: Target | None = target.own if client is passage.publisher else target
            if chosen is None:
                sent.add(client)
            elif self._ready(passage, chosen):
                self._delivery.deliver_to(chosen, passage)
                sent.add(client)
                if passage.message.position_us:
                    client.early_batch = number
            else:
                client.held_batch = number
        for group in plan.groups:
            if group.held_batch <= self._delivery.early.committed and self._delivery.groups.deliver_now(group, passage):
                groups.add(group)
            else:
                group.held_batch = number
        passage.early = sent
        passage.early_groups = groups
        if len(sent) < len(plan.targets) or len(groups) < len(plan.groups):
            return False
        if not passage.message.position_us:
            for client in plan.denied:
                self._delivery.drop_denied(client, passage.message)
        return True

    def _ready(self, passage: Passage, target: Target) -> bool:
        """Whether a client gets it now: without a place in the log, also into its queue in memory."""
        early = self._delivery.early
        if passage.message.position_us:
            return early.ready(target.client, target)
        return not target.client.outside and target.client.held_batch <= early.committed
