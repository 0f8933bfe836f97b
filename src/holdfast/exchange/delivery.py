"""Delivery: from a passage to its clients, and from a client's queue to its channel.

A client that is live gets a message at once. Else the message goes into its queue, and from there to the
channel as acknowledgements make room. QoS 0 is for who is live now; it is never queued.
"""

from typing import Final

from holdfast.durable.log_queue import LogQueue
from holdfast.durable.memory_queue import MemoryQueue
from holdfast.durable.outside_queue import OutsideQueue
from holdfast.durable.sessions import DropInflight, KeepInflight, KeepProgress
from holdfast.exchange.channel import Channel
from holdfast.exchange.client import Client, ReplayWalk
from holdfast.exchange.counters import (
    DROP_DENIED,
    DROP_EXPIRED,
    DROP_QUEUE,
    DROP_SLOW,
    DROP_TOO_LARGE,
)
from holdfast.exchange.drops import Drops
from holdfast.exchange.early import Early
from holdfast.exchange.frames import frame_for
from holdfast.exchange.group_delivery import GroupDelivery
from holdfast.exchange.pace import Drain
from holdfast.exchange.passage import Effect, Passage, Sending
from holdfast.exchange.plans import Plan, Target, plan_at
from holdfast.exchange.progress import progress_of, walk_steps
from holdfast.exchange.replaying import Replaying
from holdfast.exchange.timer import Timer
from holdfast.exchange.under_way import UnderWay
from holdfast.exchange.walking import Walking
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.owed import Owed, OwedQueued, place_of
from holdfast.session.inflight import RESERVE
from holdfast.wire.primitives import U16

#: Messages read from a queue at once.
_READ: Final = 100
#: Why a message is denied.
_NO_RIGHT: Final = "the client may not read this topic"
#: … and at most in one turn for one client.
_MOST: Final = 1000
#: Above every serial.
_UNKNOWN_SERIAL: Final = 2**62
#: PUBREL.
_PUBREL: Final = b"\x62\x02"


class Delivery:
    """Sends messages to clients, by their plans and from their queues."""

    def __init__(self, drops: Drops, under_way: UnderWay, *, upgrade_qos: bool) -> None:
        self._drops: Final = drops
        self._counters: Final = drops.counters
        self._under_way: Final = under_way
        #: The QoS of the subscription alone decides, also above the message's own.
        self._upgrade_qos: Final = upgrade_qos
        #: Channels that have something to send.
        self.dirty: list[Channel] = []
        #: Clients whose groups look for their next message, a stretch in each turn.
        self.searching: list[Client] = []
        #: Clients whose progress is to be stored some time soon.
        self.unsaved: list[Client] = []
        self.now_us = 0
        #: What paces wait with; without one, nothing is paced.
        self.timer: Timer | None = None
        #: Messages a second out of the backlog of a client that is back; 0 for as fast as it takes them.
        self.backlog_rate = 0
        self.replaying: Final = Replaying(self, under_way)
        self.groups: Final = GroupDelivery(self, drops, under_way, upgrade_qos=upgrade_qos)
        self.walking: Final = Walking(self, under_way, upgrade_qos=upgrade_qos)
        self.early: Final = Early(self, under_way, upgrade_qos=upgrade_qos)

    def mark(self, channel: Channel) -> None:
        """The channel has something to send."""
        if not channel.dirty:
            channel.dirty = True
            self.dirty.append(channel)

    def send(self, channel: Channel, frame: bytes) -> None:
        """Put a frame into a channel's output."""
        if not channel.closed:
            channel.out.append(frame)
            self.mark(channel)

    def deliver(self, passage: Passage, plan: Plan) -> None:
        """Give a message to everybody in a plan."""
        message = passage.message
        if message.expires_us:
            # The commit may have taken its time.
            if message.expired(self.now_us):
                self._drops.drop(DROP_EXPIRED, "", message, self.now_us, "before it was sent to anybody")
                return
            passage.fresh = self.now_us - message.received_us < 1_000_000
        if plan.ending:
            position_us = message.position_us if message.qos and message.position_us else self.now_us
            if position_us >= plan.ends_us:
                plan = plan_at(plan, message.topic, position_us)
        publisher = passage.publisher
        early = passage.early
        outside = plan.outside
        for target in plan.targets:
            if outside and self._comes_from_its_queue(target, passage):
                continue
            if early is not None and target.client in early:
                self.early.settle(target.client, message)
            elif target.client is publisher:  # [MQTT-3.8.3-3] no local
                own = target.own
                if own is not None:
                    self.deliver_to(own, passage)
            else:
                self.deliver_to(target, passage)
        early_groups = passage.early_groups
        for group in plan.groups:
            if early_groups is None or group not in early_groups:
                self.groups.deliver(group, passage)
        for client in plan.denied:
            self.drop_denied(client, message)

    def drop_denied(self, client: Client, message: Message) -> None:
        self._drops.drop(DROP_DENIED, client.session.client_id, message, self.now_us, _NO_RIGHT)

    @staticmethod
    def _comes_from_its_queue(target: Target, passage: Passage) -> bool:
        """Whether a client gets a message from a queue outside the log; QoS 0 is for who is there, as for anybody."""
        if not target.client.outside or passage.message.qos == 0:
            return False
        chosen = target.own if target.client is passage.publisher else target
        return chosen is not None and chosen.qos > 0

    def deliver_to(self, target: Target, passage: Passage) -> None:
        """Give a message to one client, now or later."""
        client = target.client
        channel = client.channel
        message = passage.message
        qos = message.qos
        if target.qos < qos or self._upgrade_qos:
            qos = target.qos
        retain = message.retain and target.keep_retain
        if qos == 0:
            if channel is None:
                return
            if channel.congested:
                self._drops.drop(DROP_SLOW, client.session.client_id, message, self.now_us)
            elif channel.plain and target.plain and not retain and passage.fresh and not channel.changing:
                channel.out.append(passage.whole(channel.version))
                if not channel.dirty:
                    self.mark(channel)
                self._counters.messages_out += 1
            else:
                self.send_owed(client, channel, Owed(message, 0, retain=retain, identifiers=target.identifiers))
            return
        window = client.session.window
        if channel is None or client.behind or channel.congested or not window.room():
            self.owe(client, Owed(message, qos, retain=retain, identifiers=target.identifiers))
        elif (
            channel.plain
            and target.plain
            and not retain
            and passage.fresh
            and not channel.changing
            and (qos == 1 or not client.stored())
        ):
            packet_id = window.admit(passage.owed(qos))
            out = channel.out
            out.append(passage.head(channel.version, qos))
            out.append(U16[packet_id])
            out.append(passage.tail(channel.version))
            if not channel.dirty:
                self.mark(channel)
            self._counters.messages_out += 1
        else:
            self.send_owed(client, channel, Owed(message, qos, retain=retain, identifiers=target.identifiers))

    def owe(self, client: Client, owed: Owed) -> None:
        """Put a message into a client's queue."""
        client.behind = True
        self._drops.lose(DROP_QUEUE, client.session.client_id, client.queue.append([owed]), self.now_us)

    def pump(self, client: Client) -> None:
        """Send what waits, as far as the window and the socket allow: what was in flight, retained, queued."""
        channel = client.channel
        if channel is None or channel.closed:
            return
        while not channel.congested:
            packet_id = client.session.window.next_unsent()
            if packet_id == 0:
                break
            self._send_again(client, channel, packet_id)
        self.walking.send(client, channel)
        if client.replays is not None:
            self.replaying.send(client, channel)
        self._drain_queue(client, channel)
        for group in client.groups:
            if group.owes():
                self.groups.drain(group)

    def _drain_queue(self, client: Client, channel: Channel) -> None:
        window = client.session.window
        left = _MOST
        while client.behind and window.room() and not channel.congested:
            if left <= 0:
                self.mark(channel)  # enough for one turn
                return
            limit = _READ if client.drain is None else self._allowed(client, client.drain)
            if limit == 0:
                return
            # Only what fits: what was read is in flight, and no longer counts toward the queue's limits.
            pack = client.queue.read(client.cursor, min(limit, window.free()))
            if not pack:
                client.behind = not client.queue.at_end()
                if client.outside and self._waits(client):
                    return
                if client.behind:
                    self.mark(channel)  # a long stretch without anything for it: go on in the next turn
                else:
                    client.drain = None
                return
            left -= len(pack)
            for owed in pack:
                if owed.serial:  # 0 for what lies in the log
                    client.cursor = owed.serial
                self.send_owed(client, channel, owed)
            if client.drain is not None:
                client.drain.take(len(pack))

    @staticmethod
    def _waits(client: Client) -> bool:
        """Whether more comes from its queue outside the log, when that has answered."""
        queue = client.queue
        return isinstance(queue, OutsideQueue) and queue.waits()

    def begin_drain(self, client: Client) -> None:
        """A client is back: what is owed to it now goes out at the pace that is set."""
        queue = client.queue
        client.drain = None
        if self.backlog_rate and self.timer is not None:
            now_us = self.timer.now_us()
            if isinstance(queue, LogQueue):
                client.drain = Drain(now_us, queue.places(), queue.last_serial())
            elif isinstance(queue, MemoryQueue):
                client.drain = Drain(now_us, {}, queue.last_serial())
            elif isinstance(queue, OutsideQueue):
                client.drain = Drain(now_us, {}, _UNKNOWN_SERIAL)  # until it has been read to its end

    def _allowed(self, client: Client, drain: Drain) -> int:
        """How many messages of a backlog may be sent now; if none, the client is pumped when some may."""
        queue = client.queue
        rate = self.backlog_rate
        sent = not isinstance(queue, LogQueue) or queue.has_sent(drain.places)
        if not rate or self.timer is None or (sent and client.cursor >= drain.serial):
            client.drain = None  # live messages that came meanwhile follow as fast as they are taken
            return _READ
        allowed = min(_READ, drain.allowed(rate, self.timer.now_us()))
        if not allowed:
            self.timer.pump_after(drain.wait_us(rate), client)
        return allowed

    def start_replay(self, replay: ReplayWalk) -> None:
        client = replay.subscribed.client
        client.drop_walks(replay.subscribed.record.filter.raw)
        client.add_replay(replay)
        self.pump(client)

    def tell(self, client: Client, topic: bytes, payload: bytes) -> None:
        """A word of the broker's own to a client, with QoS 0, behind everything that it was sent so far."""
        channel = client.channel
        if channel is None or channel.closed:
            return
        owed = Owed(Message(channel.mount + topic, payload, 0, ClientId(""), self.now_us), 0)
        if channel.changing:
            channel.changing += 1
            self._under_way.effects.append(Sending(client, channel, owed, 0))
        else:
            self._send_custom(channel, owed, 0)

    def send_owed(self, client: Client, channel: Channel, owed: Owed, *, after_commit: bool = False) -> None:
        """Send a message that is owed, or note why it is not."""
        why = self._obstacle(channel, owed)
        if why:
            detail = _NO_RIGHT if why == DROP_DENIED else ""
            self._drops.drop(why, client.session.client_id, owed.message, self.now_us, detail)
            if owed.serial:
                client.queue.acknowledge(owed.serial)
        else:
            packet_id = 0
            if isinstance(owed, OwedQueued) and owed.packet_id:
                packet_id = client.session.window.admit_again(owed, owed.packet_id)  # [MQTT-4.4.0-1]
            elif owed.qos:
                packet_id = client.session.window.admit(owed)
            durable = owed.qos == 2 and client.stored()
            if durable:
                order = client.session.next_order()
                self._under_way.step(KeepInflight(client.session.client_id, packet_id, owed, order))
            if durable or after_commit or channel.changing:
                channel.changing += 1  # whatever follows stays behind it
                self._under_way.effects.append(Sending(client, channel, owed, packet_id))
            elif not self._send_custom(channel, owed, packet_id, dup=owed.repeated) and packet_id:
                self._discard(client, packet_id)

    def save_progress(self, client: Client) -> None:
        """Store how far the session has come, with a reservation of packet ids that holds when that is committed."""
        progress = progress_of(client)
        if progress is not None:
            window = client.session.window
            reserved = window.given + RESERVE
            self._under_way.step(KeepProgress(client.session.client_id, progress))
            for step in walk_steps(client):
                self._under_way.step(step)
            self._under_way.effects.append(Effect(None, b"", lambda: self._reserve(client, reserved)))

    def has_come_further(self, client: Client) -> None:
        """Have its progress stored some time soon."""
        if not client.unsaved:
            client.unsaved = True
            self.unsaved.append(client)

    def save_all_progress(self) -> None:
        """Store the progress of every session that has come further."""
        unsaved = self.unsaved
        self.unsaved = []
        for client in unsaved:
            client.unsaved = False
            if client.stored() and client.owner is not None:
                self.save_progress(client)

    def _reserve(self, client: Client, reserved: int) -> None:
        window = client.session.window
        waits = window.given >= window.reserved
        client.reserving = False
        if window.reserved < reserved:
            window.reserved = reserved
        if waits:
            self.pump(client)

    def send_committed(self, sending: Sending) -> None:
        """The entry in flight is stored: now the message may go, unless its connection has gone meanwhile."""
        channel = sending.channel
        client = sending.client
        packet_id = sending.packet_id
        if channel is None:
            return
        channel.changing -= 1
        if channel.closed or client.channel is not channel:
            return
        if packet_id and client.session.window.owed(packet_id) is not sending.owed:
            return
        if not self._send_custom(channel, sending.owed, packet_id, dup=sending.owed.repeated) and packet_id:
            self._discard(client, packet_id)

    def _discard(self, client: Client, packet_id: int) -> None:
        """A message is too large for this connection: as if it had been sent and acknowledged [MQTT-3.1.2-25]."""
        owed = client.session.window.discard(packet_id)
        if owed is not None:
            self.done(client, packet_id, owed)

    def done(self, client: Client, packet_id: int, owed: Owed) -> None:
        """A message is off our hands: its place in the queue and its stored entry go."""
        if owed.serial:
            client.queue.acknowledge(owed.serial)
        if not client.stored():
            return
        self.has_come_further(client)
        if not client.reserving and client.session.window.runs_low():
            client.reserving = True
            self.save_progress(client)
        if owed.qos == 2:
            shard, position = place_of(owed)
            self._under_way.step(DropInflight(client.session.client_id, packet_id, shard, position))

    def _obstacle(self, channel: Channel, owed: Owed) -> str:
        """Why a message is not sent to this client now; empty if it can be."""
        if owed.message.expired(self.now_us):
            return DROP_EXPIRED
        if channel.access is not None and not channel.access.may_receive(owed.message.topic):
            return DROP_DENIED
        if channel.mount and not owed.message.topic.startswith(channel.mount):
            return DROP_DENIED
        return ""

    def _send_custom(self, channel: Channel, owed: Owed, packet_id: int, *, dup: bool = False) -> bool:
        """Make a frame for this client alone and send it; False if it is too large."""
        if channel.closed:
            return True
        frame = frame_for(channel, owed, owed.qos, packet_id, self.now_us, dup=dup)
        if not frame:
            client = channel.client
            detail = f"the client takes packets up to {channel.max_packet_bytes} bytes"
            self._drops.drop(
                DROP_TOO_LARGE, "" if client is None else client.session.client_id, owed.message, self.now_us, detail
            )
            return False
        channel.out.append(frame)
        self.mark(channel)
        self._counters.messages_out += 1
        return True

    def _send_again(self, client: Client, channel: Channel, packet_id: int) -> None:
        """What was in flight when the last connection ended: same packet id, DUP, or PUBREL [MQTT-4.4.0-1]."""
        window = client.session.window
        if window.is_released(packet_id):
            self.send(channel, _PUBREL + U16[packet_id])
            return
        owed = window.owed(packet_id)
        if owed is not None and not self._send_custom(channel, owed, packet_id, dup=True):
            self._discard(client, packet_id)
