"""The path of messages: a buffer's packets become appends, acknowledgements, deliveries, frames.

    receive   bytes of one connection: every packet in them, before anything else happens
    turn      once per turn of the loop: close the batch, write it, send what the channels have
    committed a receipt came: acknowledge and deliver what its batches hold, in order

Nothing here waits, and nothing is known of sockets, threads or time.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.durable.commit import CommitLog, Receipt
from holdfast.durable.numbering import Numbering, NumberStore
from holdfast.durable.retained import RetainedStore
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, Subscribed
from holdfast.exchange.control import Control
from holdfast.exchange.delivery import Delivery
from holdfast.exchange.drops import Drops
from holdfast.exchange.inbound import Inbound
from holdfast.exchange.limits import Limits
from holdfast.exchange.outside import Outside
from holdfast.exchange.passage import Effect, Passage, Sending
from holdfast.exchange.plans import Plan, make_plan
from holdfast.exchange.under_way import Sealed, UnderWay
from holdfast.exchange.unstored import Unstored
from holdfast.model.errors import PeerError
from holdfast.model.message import Message
from holdfast.model.protocol import CONNECT, PINGREQ, PUBACK, PUBCOMP, PUBLISH
from holdfast.model.reasons import SUCCESS, UNSPECIFIED_ERROR
from holdfast.topics.filters import TopicFilter
from holdfast.topics.route_cache import RouteCache
from holdfast.wire.codec import PINGRESP_FRAME

#: Packets of one connection handled before others get their turn.
_PACKETS_PER_TURN: Final = 2000
#: Of a packet with many filters, so many bytes count as one more packet: a filter of a SUBSCRIBE has four or more, and
#: costs as much as a few messages.
_BYTES_OF_A_PACKET: Final = 8
#: A message on a topic that is not known counts as so many more: it is matched, learnt and indexed.
_COST_OF_A_NEW_TOPIC: Final = 7
#: Messages that waited, sent in one turn to all clients together; a look at what waits for one of them costs as much as
#: so many.
_SENT_PER_TURN: Final = 2000
_COST_OF_A_LOOK: Final = 20
#: What may wait for receipts, in received bytes and in effects; beyond that clients are not read from.
_MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
_MAX_WAITING_EFFECTS: Final = 200_000


class Exchange:
    """All message traffic of a node.

    1. An acknowledgement leaves only when the batch that holds what it confirms has its receipt.
    2. Acknowledgements leave a connection in the order in which their packets came.
    3. Batches get their receipts in order.
    """

    def __init__(
        self,
        control: Control,
        log: CommitLog,
        retained: RetainedStore,
        limits: Limits,
        delivered: dict[int, int],
        numbers: NumberStore,
        drops: Drops,
    ) -> None:
        self._control: Final = control
        self._log: Final = log
        self._retained: Final = retained
        #: Topics that may have a retained message; 0 for no bound. May change at any time.
        self.max_retained = 0
        self.drops: Final = drops
        self.counters: Final = drops.counters
        self.routes: Final[RouteCache[str, Subscribed]] = RouteCache()
        self.under_way: Final = UnderWay()
        self.delivery: Final = Delivery(drops, self.under_way, upgrade_qos=limits.upgrade_outgoing_qos)
        self.outside: Final = Outside(self)
        self.unstored: Final = Unstored(self.delivery, self.under_way)
        self._upgrade_qos: Final = limits.upgrade_outgoing_qos
        self._inbound: Final = Inbound(self, limits, Numbering(numbers))
        #: Batches that were written and wait for their receipt.
        self._written: Final[deque[Sealed]] = deque()
        #: The batch whose effects are being carried out.
        self._carried: Sealed | None = None
        self._written_bytes = 0
        self._written_effects = 0
        self._sealed_bytes_in = 0
        #: Too much waits for receipts: the disk is slower than the clients.
        self._full = False
        #: Channels with packets left over from the last turn.
        self._waiting: list[Channel] = []
        #: Clients with retained messages on the way: a bounded number of them per turn.
        self._walkers: list[Client] = []
        self._awake = False
        self._in_turn = False
        #: The last position of each shard that was delivered to whoever is live.
        self.delivered: Final = delivered
        #: Whether QoS 0 messages are stored, too; nobody waits for that.
        self.keeps_qos0 = False
        #: Why messages that have to be stored are not taken at the moment; SUCCESS if they are.
        self.refusing = SUCCESS
        #: Whether QoS 1 messages of a topic are delivered before their commit; None if none are.
        self.goes_early: Callable[[bytes], bool] | None = None
        #: Whether messages are stored; else they go to whoever is there, as those of a zone that stores nothing.
        self.storing = True

    # ---- bytes in

    def receive(self, channel: Channel, data: bytes) -> None:
        """Take bytes of a connection."""
        if channel.closed:
            return
        self.counters.bytes_in += len(data)
        channel.framer.feed(data)
        if channel.blocked:
            self.pause(channel)
        elif self._full:
            if channel not in self._waiting:
                self._wait(channel)
        else:
            self._work(channel)

    def resume(self, channel: Channel) -> None:
        """An answer that blocked the channel has been given: go on with its packets."""
        channel.blocked = False
        self._work(channel)
        self.read_on(channel)

    def pause(self, channel: Channel) -> None:
        """Read no more from a client that is not being worked for."""
        if not channel.reading_paused:
            channel.reading_paused = True
            channel.link.pause_reading()

    def read_on(self, channel: Channel) -> None:
        """Read again, unless something still stands against it."""
        stopped = channel.congested or channel.blocked or channel.closed or channel.publish_credit == 0
        stopped = stopped or channel.stalled
        if channel.reading_paused and not stopped and channel not in self._waiting:
            channel.reading_paused = False
            channel.link.resume_reading()

    def _work(self, channel: Channel) -> None:
        """Handle the channel's packets, as many as one turn allows."""
        if not self._awake:
            self.wake()
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
                if cost >= _PACKETS_PER_TURN or channel.publish_credit == 0:
                    self._wait(channel)
                    break
        except PeerError as error:
            self._control.broke(channel, error)
        except Exception as error:
            self._control.failed(error)
            self._control.broke(channel, PeerError(UNSPECIFIED_ERROR, "an internal error; see the server's log"))
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
            self.under_way.effects.append(Effect(channel, PINGRESP_FRAME))
        else:
            self.delivery.send(channel, PINGRESP_FRAME)

    def _wait(self, channel: Channel) -> None:
        """Others first: the rest of the channel's packets is for the next turn, and no more is read until then."""
        if channel.publish_credit != 0:
            self._waiting.append(channel)
        self.pause(channel)

    def grant(self, channel: Channel, credit: int) -> None:
        """The rate limit allows `credit` more messages."""
        starved = channel.publish_credit == 0
        channel.publish_credit = credit
        if starved and not channel.closed:
            self._waiting.append(channel)
            self.wake()

    # ---- turns and commits

    def wake(self) -> None:
        """Something happened outside `receive`: have a turn."""
        if not self._awake:
            self._awake = True
            self.delivery.now_us = self._control.clock_us()
            self._control.wake()

    def turn(self) -> None:
        """The end of a turn: commit what came, then send what there is."""
        self._in_turn = True
        self._awake = False
        if self._waiting and not self._full:
            waiting = self._waiting
            self._waiting = []
            for channel in waiting:
                self._work(channel)
                self.read_on(channel)
        self.delivery.walking.begin_iteration()
        walkers = self._walkers
        self._walkers = []
        enough = self.counters.messages_out + _SENT_PER_TURN
        for index, client in enumerate(walkers):
            if self.counters.messages_out + index * _COST_OF_A_LOOK > enough:
                # Others first: a thousand clients that are back at once must not hold up the rest.
                self._walkers = walkers[index:] + self._walkers
                break
            client.pump_due = False
            self.delivery.pump(client)
        ready = not self.under_way.empty() and not self.unstored.active
        if ready and (not self._log.busy() or self.under_way.is_large()):
            sealed = self.under_way.seal(self.counters.bytes_in - self._sealed_bytes_in)
            self._sealed_bytes_in = self.counters.bytes_in
            self._written.append(sealed)
            self._weigh(sealed, 1)
            self.counters.batches += 1
            receipt = self._log.write(sealed.batch)
            if receipt is not None:
                self.committed(receipt)
        if self.unstored.active:
            self.unstored.release(self._written)
            self._note_full()
        self.flush()
        self._in_turn = False

    def write_fails(self, *, fails: bool) -> None:
        """Writes find no room, and messages are to go on without; or writing goes on."""
        if fails:
            self.unstored.begin()
        else:
            self.unstored.end()
            self._note_full()
        self.wake()

    def committed(self, receipt: Receipt) -> None:
        """Batches reached the medium: acknowledge and deliver, in the order in which it all came."""
        if not self._in_turn:
            self.wake()  # a receipt that came late has to be followed by a turn, or nothing would be sent
        written = self._written
        while written and written[0].batch.number <= receipt.number:
            sealed = written.popleft()
            self._weigh(sealed, -1)
            self._carried = sealed
            for effect in sealed.effects:
                try:
                    self._carry_out(effect)
                except Exception as error:
                    self._control.failed(error)
            if sealed.batch.ends:
                self.delivered.update(sealed.batch.ends)
            self.delivery.early.committed = sealed.batch.number
            self._carried = None

    def _weigh(self, sealed: Sealed, sign: int) -> None:
        """Count a batch that waits for its receipt, or does no longer."""
        self._written_bytes += sign * sealed.size_bytes
        self._written_effects += sign * len(sealed.effects)
        self._note_full()

    def _note_full(self) -> None:
        waiting_bytes = self._written_bytes
        waiting = self._written_effects
        if self.unstored.active:
            waiting_bytes += self.unstored.waiting_bytes
            waiting += self.unstored.waiting()
        self._full = waiting_bytes > _MAX_WAITING_BYTES or waiting > _MAX_WAITING_EFFECTS

    def _carry_out(self, effect: Effect) -> None:
        """What an effect stands for, now that it is committed."""
        channel = effect.channel
        delivery = self.delivery
        held = False
        if channel is not None and effect.frame and not channel.closed and not effect.answered:
            if effect.waiting is None and channel.held is None:
                channel.out.append(effect.frame)
                if not channel.dirty:
                    delivery.mark(channel)
            else:
                held = self.outside.holding.hold(channel, effect)
        if isinstance(effect, Passage):
            message = effect.message
            if message.retain:
                self._retained.keep(message)
            if message.qos:
                if channel is not None and message.qos == 1 and not held and not effect.answered:
                    channel.receiving -= 1
                # By the plan of now: who subscribed while it was under way is sent it, as when it is read from the log.
                delivery.deliver(effect, self.plan_for(message.topic))
                if message.position_us:
                    self.delivered[message.shard] = message.position_us
                if effect.waiting is not None:
                    self.outside.committed(effect)
        elif isinstance(effect, Sending):
            delivery.send_committed(effect)
        elif effect.then is not None:
            if channel is not None:
                channel.changing -= 1
            effect.then()

    def flush(self) -> None:
        """Write what the channels have, once for each."""
        dirty = self.delivery.dirty
        self.delivery.dirty = []
        walking = self.delivery.walking
        if walking.postponed:
            for postponed in walking.postponed:
                self.pump_soon(postponed)
            walking.postponed = []
        for channel in dirty:
            channel.dirty = False
            out = channel.out
            if out:
                channel.out = []
                data = out[0] if len(out) == 1 else b"".join(out)
                self.counters.bytes_out += len(data)
                channel.link.write(data)
            client = channel.client
            if client is not None and not channel.congested and (client.sends_beside_its_queue() or client.scans()):
                self.pump_soon(client)
        if self.delivery.searching:
            self._walkers.extend(self.delivery.searching)
            self.delivery.searching = []
        waits = self.unstored.active or self.under_way.empty() or self._log.busy()
        if self._walkers or self.delivery.dirty or not waits:
            self.wake()

    def pump_soon(self, client: Client) -> None:
        """Send what waits for a client at the end of the turn: once, however many acknowledgements made room."""
        if not client.pump_due:
            client.pump_due = True
            self._walkers.append(client)

    def after_commit(self, channel: Channel | None, frame: bytes, then: Callable[[], None] | None = None) -> None:
        """Send a frame, and go on, once everything up to now is committed.

        What goes on is the answer to CONNECT or SUBSCRIBE: no message reaches that channel before it.
        """
        if then is not None and channel is not None:
            channel.changing += 1
        self.under_way.effects.append(Effect(channel, frame, then))
        self.wake()

    # ---- messages

    def plan_for(self, topic: bytes) -> Plan:
        """Who gets the messages of a topic; PeerError if it is no valid topic name."""
        route = self.routes.route(topic)
        plan = route.plan
        if isinstance(plan, Plan):
            return plan
        made = make_plan(route.targets, topic)
        made.early = self.goes_early is not None and self.goes_early(topic)
        self.routes.attach(topic, route, made, made.cost_bytes())
        return made

    def accept(self, passage: Passage) -> None:
        """Take a message into the batch under way; it is delivered when that is committed, or a part of it early."""
        message = passage.message
        batch = self.under_way.batch
        if self.storing or (self.unstored.active and message.qos == 2):  # which waits for the disk anyway
            batch.messages.append(message)
        else:
            self.counters.not_stored += 1
        if message.retain:
            batch.retained.append(message)
        if passage.plan.outside:
            self.outside.take(passage, upgrade_qos=self._upgrade_qos)
        self.under_way.effects.append(passage)
        if passage.plan.early and message.qos == 1 and not self.unstored.active:
            self.delivery.early.send(passage)

    def pass_on(self, passage: Passage) -> None:
        """QoS 0: deliver now, without waiting for the commit. What is retained is found from the commit on."""
        message = passage.message
        if self.keeps_qos0 and not self.unstored.active:
            self.under_way.batch.messages.append(message)
        if message.retain:
            self.under_way.batch.retained.append(message)
            self.under_way.effects.append(passage)
        self.delivery.deliver(passage, passage.plan)

    def publish(self, message: Message, publisher: Client | None = None) -> None:
        """A message of the broker's own, or a will."""
        passage = Passage(message, self.plan_for(message.topic), publisher, None, b"")
        self.wake()
        if message.qos == 0:
            self.pass_on(passage)
        else:
            self.accept(passage)

    def passed_on(self) -> list[Message]:
        """QoS 0 messages that were delivered to whoever was live, and that cannot be read from the log yet."""
        batches = [self.under_way.batch]
        batches[:0] = [sealed.batch for sealed in self._written]
        if self._carried is not None:
            batches.insert(0, self._carried.batch)
        found: list[Message] = []
        for batch in batches:
            for message in batch.messages:
                unread = not message.position_us or message.position_us > self.delivered.get(message.shard, 0)
                if message.qos == 0 and unread:
                    found.append(message)
        return found

    def may_retain(self, topic: bytes, payload: bytes, now_us: int) -> bool:
        """Whether there is room for a retained message, or it needs none: it removes one, or replaces one.

        What is still under way to the store is not counted.
        """
        most = self.max_retained
        if most == 0 or not payload or self._retained.count() < most:
            return True
        return self._retained.get(topic, now_us) is not None

    def deny(self, channel: Channel, topic: bytes) -> None:
        """A publish was not allowed: have it logged."""
        self._control.denied(channel, topic)

    # ---- subscriptions

    def subscribe(self, subscribed: Subscribed) -> None:
        """Add or replace a subscription."""
        record = subscribed.record
        client = subscribed.client
        client.subscribed[record.filter.raw] = subscribed
        client.held_batch = self.under_way.batch.number  # what is under way reaches it with its commit
        self.routes.subscribe(record.filter, matcher_key(client, record.filter), subscribed)

    def unsubscribe(self, client: Client, topic_filter: TopicFilter) -> Subscribed | None:
        """Remove a subscription; None if there was none."""
        subscribed = client.subscribed.pop(topic_filter.raw, None)
        if subscribed is not None:
            self.routes.unsubscribe(topic_filter, matcher_key(client, topic_filter))
        return subscribed


def matcher_key(client: Client, topic_filter: TopicFilter) -> str:
    """A client may hold the same inner filter alone and in several groups: each has a key of its own."""
    if topic_filter.group:
        return f"{topic_filter.group}/{client.session.client_id}"
    return f"/{client.session.client_id}"
