"""The path of messages: a buffer's packets become appends, acknowledgements, deliveries, frames.

    receive         bytes of one connection: every packet in them, before anything else happens
    run_iteration   once per iteration of the loop: seal the batch, write it, send what the channels have
    committed       a receipt came: acknowledge and deliver what its batches hold, in order

Nothing here waits, and nothing is known of sockets, threads or time.
"""

from collections import deque
from typing import Final

from holdfast.durable.commit import NO_SESSIONS, CommitLog, Receipt
from holdfast.durable.retained.retained_store import RetainedStore
from holdfast.durable.sessions.publish_numbers import NumberStore, PublishNumbers
from holdfast.exchange.client import BrokerClient, Channel, Subscribed
from holdfast.exchange.control import Control, Timer
from holdfast.exchange.delivery.delivery import Delivery
from holdfast.exchange.delivery.unstored_delivery import UnstoredDelivery
from holdfast.exchange.drops import Drops
from holdfast.exchange.external.deferred_acks import DeferredAcks
from holdfast.exchange.external.external_queues import ExternalQueues
from holdfast.exchange.inbound import Inbound
from holdfast.exchange.intake import Intake
from holdfast.exchange.loop_state import LoopState, ReadFlow, SealedBatch
from holdfast.exchange.pending_publish import Effect, PendingPublish, Reservation, Sending
from holdfast.exchange.plans import RoutingTable
from holdfast.exchange.settings import ExchangeSettings
from holdfast.exchange.vnode_effects import VnodeEffects
from holdfast.model.errors import PeerError, PermanentError
from holdfast.model.message import Message
from holdfast.model.protocol import CONNECT, PINGREQ, PUBACK, PUBCOMP, PUBLISH
from holdfast.model.reasons import UNSPECIFIED_ERROR
from holdfast.topics.route_cache import RouteCache
from holdfast.wire.codec import PINGRESP_FRAME

#: Packets of one connection handled before others get their turn.
_PACKETS_PER_ITERATION: Final = 2000
#: Of a packet with many filters, so many bytes count as one more packet: a filter of a SUBSCRIBE has four or more, and
#: costs as much as a few messages.
_BYTES_OF_A_PACKET: Final = 8
#: A message on a topic that is not known counts as so many more: it is matched, learnt and indexed.
_COST_OF_A_NEW_TOPIC: Final = 7
#: Messages that waited, sent in one iteration to all clients together; a look at what waits for one of them costs as
#: much as so many.
_SENT_PER_ITERATION: Final = 2000
_COST_OF_A_LOOK: Final = 20
#: What may wait for receipts, in received bytes and in effects; beyond that clients are not read from.
_MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
_MAX_WAITING_EFFECTS: Final = 200_000


class Exchange:
    """All message traffic of a node.

    1. An acknowledgement leaves only when the batch that holds what it confirms has its receipt; where the log decides,
       when the vnode of its session has (`VnodeEffects`).
    2. Acknowledgements leave a connection in the order in which their packets came.
    3. Batches get their receipts in order, vnode by vnode.
    """

    def __init__(
        self,
        control: Control,
        timer: Timer,
        settings: ExchangeSettings,
        log: CommitLog,
        retained: RetainedStore,
        delivered: dict[int, int],
        numbers: NumberStore,
        drops: Drops,
    ) -> None:
        self._control: Final = control
        self.settings: Final = settings
        self._log_decides: Final = settings.log_decides
        self._log: Final = log
        self._retained: Final = retained
        self.drops: Final = drops
        self.counters: Final = drops.counters
        self.state: Final = LoopState(control, timer, drops)
        self.routing: Final = RoutingTable(settings.goes_early)
        self.routes: Final[RouteCache[str, Subscribed]] = self.routing.routes
        self.delivery: Final = Delivery(self.state, settings, timer, delivered)
        self.flow: Final = ReadFlow()
        self.acks: Final = DeferredAcks(self.state, self.flow)
        self.external: Final = ExternalQueues(self.state, settings, control, self.delivery.sender, self.acks)
        self.unstored: Final = UnstoredDelivery(self.state, self.delivery)
        self.intake: Final = Intake(
            self.state, settings, self.routing, self.delivery, self.unstored, self.external, retained
        )
        self._inbound: Final = Inbound(
            self.state,
            settings,
            control,
            self.routing,
            self.intake,
            self.delivery.sender,
            self.external,
            PublishNumbers(numbers),
        )
        #: Batches that were written and wait for their receipt; where the log decides, their parts by vnode.
        self._written: Final[deque[SealedBatch]] = deque()
        self._by_vnode: Final = (
            VnodeEffects(settings.vnodes, _MAX_WAITING_BYTES, _MAX_WAITING_EFFECTS) if settings.log_decides else None
        )
        if self._by_vnode is not None:
            self.delivery.progress.holds_back = self._by_vnode.is_full
        #: The batch whose effects are being carried out, and whether any are.
        self._carried: SealedBatch | None = None
        self._carrying = False
        #: Receipts that came while effects were carried out.
        self._receipts: Final[deque[Receipt]] = deque()
        self._written_bytes = 0
        self._written_effects = 0
        self._sealed_bytes_in = 0
        #: Too much waits for receipts, of one vnode at least: the disk is slower than the clients.
        self._full = False
        self._in_iteration = False
        #: The last position of each shard that was delivered to live clients.
        self.delivered: Final = delivered

    # ---- bytes in

    def receive(self, channel: Channel, data: bytes) -> None:
        """Take bytes of a connection."""
        if channel.closed:
            return
        self.counters.bytes_in += len(data)
        channel.framer.feed(data)
        if channel.blocked:
            self.flow.pause(channel)
        elif self._full and self._holds_back(channel):
            if channel not in self.flow.waiting:
                self.flow.wait(channel)
        else:
            self._work(channel)

    def resume(self, channel: Channel) -> None:
        """An answer that blocked the channel has been given: go on with its packets."""
        channel.blocked = False
        self._work(channel)
        self.flow.read_on(channel)

    def _work(self, channel: Channel) -> None:
        """Handle the channel's packets, as many as one iteration allows."""
        if not self.state.scheduled:
            self.state.schedule()
        framer = channel.framer
        count = 0
        filters = 0
        missed = self.routes.misses
        try:
            while not channel.blocked and not channel.closed and channel.publish_credit != 0 and framer.advance():
                count += 1
                kind = framer.first >> 4
                client = channel.client
                if client is None or kind == CONNECT:
                    self._control.packet(channel, framer.first, framer.data[framer.body : framer.end])
                elif kind == PUBLISH:
                    self._inbound.publish(channel, client)
                elif PUBACK <= kind <= PUBCOMP:
                    self._inbound.acknowledge(channel, client, kind)
                elif kind == PINGREQ and framer.body == framer.end:
                    self._ping(channel)
                else:
                    filters += (framer.end - framer.body) // _BYTES_OF_A_PACKET
                    self._control.packet(channel, framer.first, framer.data[framer.body : framer.end])
                cost = count + filters + _COST_OF_A_NEW_TOPIC * (self.routes.misses - missed)
                if cost >= _PACKETS_PER_ITERATION or channel.publish_credit == 0:
                    self.flow.wait(channel)
                    break
        except PeerError as error:
            self._control.protocol_error(channel, error)
        except Exception as error:
            self._control.internal_error(error)
            self._control.protocol_error(
                channel, PeerError(UNSPECIFIED_ERROR, "an internal error; see the server's log")
            )
        self.counters.packets_in += count
        channel.packets += count
        self.note_unfinished(channel)

    def note_unfinished(self, channel: Channel) -> None:
        """Note when a packet has begun that is not complete, and have it watched."""
        unfinished_bytes = channel.unfinished_bytes()
        if unfinished_bytes == 0:
            channel.begun = -1
        elif channel.begun != channel.packets:
            channel.begun = channel.packets
            channel.begun_us = channel.heard_us
            channel.begun_bytes = unfinished_bytes
            if not channel.watched and not channel.closed:
                channel.watched = True
                self._control.packet_begins(channel)

    def _ping(self, channel: Channel) -> None:
        """[MQTT-3.12.4-1]; behind a SUBACK that waits, so that answers come in the order of the questions."""
        if channel.changing:
            self.state.effects.append(Effect(channel, PINGRESP_FRAME))
        else:
            self.state.send(channel, PINGRESP_FRAME)

    def grant(self, channel: Channel, credit: int) -> None:
        """The rate limit allows `credit` more messages."""
        starved = channel.publish_credit == 0
        channel.publish_credit = credit
        if starved and not channel.closed:
            self.flow.waiting.append(channel)
            self.state.schedule()

    # ---- iterations and commits

    def run_iteration(self) -> None:
        """The end of a loop iteration: commit what came, then send what there is."""
        state = self.state
        self._in_iteration = True
        state.scheduled = False
        if self.flow.waiting:
            self._work_on()
        self.delivery.retained.begin_iteration()
        self._pump_due()
        self._commit_open()
        if self.unstored.active:
            self.unstored.release(self._written)
            self._note_full()
        self._flush()
        self._in_iteration = False

    def _work_on(self) -> None:
        """Handle the packets that are left over, unless too much waits for receipts."""
        if self._full and self._by_vnode is None:
            return
        for channel in self.flow.take_waiting():
            if self._full and self._holds_back(channel):
                self.flow.waiting.append(channel)
            else:
                self._work(channel)
                self.flow.read_on(channel)

    def write_open(self) -> None:
        """Write the open batch now, in front of what is done next. Requires: the log decides."""
        if not self.state.nothing_open():
            self._commit_open()

    def _commit_open(self) -> None:
        """Write the open batch, unless it may as well grow until a sync can begin."""
        state = self.state
        progress = self.delivery.progress
        ready = (progress.wants_batch() or not state.nothing_open()) and not self.unstored.active
        busy = ready and self._log.busy() and not state.is_large()
        if ready and (not busy or progress.wants_batch(busy=True)):
            # Written for the sake of progress, it shares the next sync with what comes until that can begin.
            state.batch.patient = busy
            progress.join(state.batch)
            sealed = state.seal(self.counters.bytes_in - self._sealed_bytes_in)
            self._sealed_bytes_in = self.counters.bytes_in
            unbound: list[Effect] | None = None
            if self._by_vnode is None:
                self._written.append(sealed)
                self._weigh(sealed, 1)
            else:
                unbound = self._by_vnode.add(sealed)
                self._note_full()
            self.counters.batches += 1
            receipt = self._log.write(sealed.batch)
            if receipt is not None:
                self.committed(receipt)
            if unbound:
                self._carry_out_effects(unbound, NO_SESSIONS)

    def _pump_due(self) -> None:
        """Send what waits for the clients that have room, a bounded number of messages per iteration."""
        due = self.state.due
        self.state.due = []
        enough = self.counters.messages_out + _SENT_PER_ITERATION
        for index, client in enumerate(due):
            if self.counters.messages_out + index * _COST_OF_A_LOOK > enough:
                # Others first: a thousand clients that are back at once must not hold up the rest.
                self.state.due = due[index:] + self.state.due
                break
            client.pump_due = False
            try:
                self.delivery.pump(client)
            except PermanentError as error:
                # The log is damaged where this client reads. Others go on, and so does the iteration.
                self._control.queue_broken(client, error)

    def _flush(self) -> None:
        """Write what the channels have, once for each."""
        state = self.state
        dirty = state.dirty
        state.dirty = []
        self.delivery.retained.end_iteration()
        for channel in dirty:
            channel.dirty = False
            data = channel.take_out()
            if data:
                self.counters.bytes_out += len(data)
                channel.link.write(data)
            client = channel.client
            if client is not None and not channel.congested and (client.sends_beside_its_queue() or client.scans()):
                state.pump_soon(client)
        waits = self.unstored.active or state.nothing_open() or self._log.busy()
        if state.due or state.dirty or not waits:
            state.schedule()

    def committed(self, receipt: Receipt) -> None:
        """Batches reached the medium: acknowledge and deliver, in the order in which it all came."""
        self._receipts.append(receipt)
        if not self._carrying:
            self._carrying = True
            try:
                while self._receipts:
                    self._carry_out_all(self._receipts.popleft())
            finally:
                self._carrying = False

    def _carry_out_all(self, receipt: Receipt) -> None:
        if not self._in_iteration:
            self.state.schedule()  # a receipt that came late needs an iteration, or nothing would be sent
        written = self._written
        fenced = receipt.fenced
        while written and written[0].batch.number <= receipt.number:
            sealed = written.popleft()
            self._weigh(sealed, -1)
            self._carried = sealed
            self._carry_out_effects(sealed.effects, fenced)
            if sealed.batch.ends:
                self.delivered.update(sealed.batch.ends)
            self.state.committed = sealed.batch.number
            self._carried = None
        if self._by_vnode is not None:
            self._carry_out_parts(self._by_vnode, receipt)
        for session_id in sorted(fenced):
            self._inbound.numbering.forget(session_id)
            self._control.fenced(session_id)

    def _carry_out_parts(self, by_vnode: VnodeEffects, receipt: Receipt) -> None:
        """Carry out what waits for the vnodes that have decided it."""
        part = by_vnode.next_decided(receipt)
        while part is not None:
            self._carry_out_effects(part.effects, receipt.fenced)
            part = by_vnode.next_decided(receipt)
        self.state.committed = receipt.number
        if self._full:
            self._note_full()
            self.state.schedule()  # for the clients that wait for a vnode which has room again

    def _carry_out_effects(self, effects: list[Effect], fenced: frozenset[str]) -> None:
        for effect in effects:
            if fenced and effect.session_id() in fenced:
                continue
            try:
                self._carry_out(effect)
            except Exception as error:
                self._control.internal_error(error)

    def _carry_out(self, effect: Effect) -> None:
        """What an effect stands for, now that it is committed."""
        channel = effect.channel
        state = self.state
        deferred = False
        if channel is not None and effect.frame and not channel.closed and not effect.answered:
            if effect.outstanding is None and channel.deferred is None:
                channel.put(effect.frame)
                if not channel.dirty:
                    state.mark(channel)
            else:
                deferred = self.acks.defer(channel, effect)
        if isinstance(effect, PendingPublish):
            message = effect.message
            if self._log_decides:
                if channel is not None and message.qos == 1:
                    channel.receiving -= 1
                if message.retain and not message.publisher:
                    self._retained.keep(message)  # the broker's own, which is in no log
                return
            if message.retain:
                self._retained.keep(message)
            if message.qos:
                if channel is not None and message.qos == 1 and not deferred and not effect.answered:
                    channel.receiving -= 1
                # By the plan of now: a client that subscribed meanwhile is sent it, as when it is read from the log.
                plan = effect.plan
                if effect.routes_version != self.routing.routes.version:
                    plan = self.routing.plan_for(message.topic)
                self.delivery.deliver(effect, plan)
                if message.position_us:
                    self.delivered[message.shard] = message.position_us
                if effect.outstanding is not None:
                    self.external.committed(effect.outstanding)
        elif isinstance(effect, Sending):
            self.delivery.sender.send_committed(effect)
        elif isinstance(effect, Reservation):
            self.delivery.reserve(effect)
        elif effect.then is not None:
            if channel is not None:
                channel.changing -= 1
            effect.then()

    def deliver(self, messages: list[Message]) -> None:
        """Deliver messages of the log, of any node's publishers, in the order in which it has them.

        Requires: the log decides. QoS 0 went to its clients when it came.
        """
        self.state.schedule()
        for message in messages:
            if message.retain:
                self._retained.keep(message)
            if message.qos:
                plan = self.routing.plan_for(message.topic)
                if not plan.empty or plan.denied:  # else it is for clients of other nodes
                    publisher = self._control.client_of(message.publisher)
                    try:
                        self.delivery.deliver(PendingPublish(message, plan, publisher, None, b""), plan)
                    except Exception as error:
                        self._control.internal_error(error)
            if message.position_us:
                self.delivered[message.shard] = message.position_us

    def pass_on(self, messages: list[Message]) -> None:
        """Deliver QoS 0 messages that were published at other nodes."""
        self.state.schedule()
        for message in messages:
            plan = self.routing.plan_for(message.topic)
            self.delivery.deliver(PendingPublish(message, plan, None, None, b""), plan)

    def is_settled(self) -> bool:
        """Whether nothing waits to be written, or for a receipt."""
        decided = not self._written if self._by_vnode is None else self._by_vnode.is_settled()
        return self.state.nothing_open() and decided

    def passed_on(self) -> list[Message]:
        """QoS 0 messages that were delivered to live clients, and that cannot be read from the log yet."""
        batches = [self.state.batch]
        batches[:0] = [sealed.batch for sealed in self._written]
        if self._carried is not None:
            batches.insert(0, self._carried.batch)
        found: list[Message] = [] if self._by_vnode is None else self._by_vnode.passed_on()
        for batch in batches:
            for message in batch.messages:
                unread = not message.position_us or message.position_us > self.delivered.get(message.shard, 0)
                if message.qos == 0 and unread:
                    found.append(message)
        return found

    # ---- more than may wait, and no room to write

    def _weigh(self, sealed: SealedBatch, sign: int) -> None:
        """Count a batch that waits for its receipt, or does no longer."""
        self._written_bytes += sign * sealed.size_bytes
        self._written_effects += sign * len(sealed.effects)
        self._note_full()

    def _holds_back(self, channel: Channel) -> bool:
        """Whether a client has to wait until less waits for receipts. Requires: too much does."""
        client = channel.client
        return self._by_vnode is None or (client is not None and self._by_vnode.is_full(client.session.client_id))

    def _note_full(self) -> None:
        if self._by_vnode is not None:
            self._full = self._by_vnode.any_full()
            return
        waiting_bytes = self._written_bytes
        waiting = self._written_effects
        if self.unstored.active:
            waiting_bytes += self.unstored.waiting_bytes
            waiting += self.unstored.waiting()
        self._full = waiting_bytes > _MAX_WAITING_BYTES or waiting > _MAX_WAITING_EFFECTS

    def write_fails(self, *, fails: bool) -> None:
        """Writes find no room, and messages are to go on without; or writing goes on."""
        if fails:
            self.unstored.active = True
        else:
            self.unstored.end()
            self._note_full()
        self.state.schedule()

    def pump(self, client: BrokerClient) -> None:
        """Something may go out to a client: send it."""
        self.state.schedule()
        self.delivery.pump(client)
