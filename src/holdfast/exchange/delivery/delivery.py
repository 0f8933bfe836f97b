"""Delivery: from a pending publish to its clients, and from a client's queue to its channel."""

from typing import Final

from holdfast.durable.sessions.session_store import DropInflight
from holdfast.exchange.client import BrokerClient, Channel, ReplayDelivery
from holdfast.exchange.control import Timer
from holdfast.exchange.delivery.group_delivery import GroupDelivery
from holdfast.exchange.delivery.progress_queue import ProgressQueue
from holdfast.exchange.delivery.replay_sender import ReplaySender
from holdfast.exchange.delivery.retained_sender import RetainedSender
from holdfast.exchange.delivery.sender import Sender
from holdfast.exchange.drops import DROP_EXPIRED
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pace import Drain
from holdfast.exchange.pending_publish import PendingPublish, Reservation
from holdfast.exchange.plans import DeliveryPlan, DeliveryTarget, plan_at
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.message import Message
from holdfast.model.time import SECOND_US

#: Messages read from a queue at once.
_READ: Final = 100
#: … and at most in one loop iteration for one client.
_MOST: Final = 1000


class EarlyDelivery:
    """QoS 1 before the commit: where a zone asks for it, live subscribers do not wait for the disk.

        PUBLISH ──▶ batch ──▶ write ──▶ sync ──▶ PUBACK, and clients that were not live
           └──▶ live subscribers

    What a subscriber gets early may be gone after a power loss; its publisher was not told that it is stored, then. So:

    1. Never with QoS 2, never for groups: both promise that a message has one fate.
    2. The progress of a session is told by what is committed. An early message counts from its own commit on.
    3. Order holds: a client that had to wait for one message gets no later one early, until that one is on its way.
    """

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
            self._sender.progress.save(client)


class Delivery:
    """Delivers messages by their plans, and pumps clients that have something waiting."""

    def __init__(self, state: LoopState, settings: ExchangeSettings, timer: Timer, delivered: dict[int, int]) -> None:
        self._state: Final = state
        self._settings: Final = settings
        self._timer: Final = timer
        self.progress: Final = ProgressQueue(state, timer, delivered)
        self.sender: Final = Sender(state, settings, self.progress)
        self.retained: Final = RetainedSender(state, settings, self.sender)
        self.replays: Final = ReplaySender(state, timer, self.sender)
        self.groups: Final = GroupDelivery(state, settings, timer, self.sender)
        self.early: Final = EarlyDelivery(state, settings, self.sender)

    # ---- by a plan

    def deliver(self, pending: PendingPublish, plan: DeliveryPlan) -> None:
        """Give a message to every client and group of a plan."""
        message = pending.message
        now_us = self._state.now_us
        if message.expires_us:
            # The commit may have taken its time.
            if message.expired(now_us):
                self._state.drops.drop(DROP_EXPIRED, "", message, now_us, "before it was sent to any client")
                return
            pending.fresh = now_us - message.received_us < SECOND_US
        if plan.ending:
            position_us = message.position_us if message.qos and message.position_us else now_us
            if position_us >= plan.ends_us:
                plan = plan_at(plan, message.topic, position_us)
        publisher = pending.publisher
        sender = self.sender
        # Most plans have no such client: then nothing is asked per client.
        asks = plan.external or pending.early is not None
        for target in plan.targets:
            if asks and self._is_served_otherwise(target, pending):
                continue
            if target.client is publisher:  # [MQTT-3.8.3-3] no local
                own = target.own()
                if own is not None:
                    sender.deliver_to(own, pending)
            else:
                sender.deliver_to(target, pending)
        early_groups = pending.early_groups
        for group in plan.groups:
            if early_groups is None or group not in early_groups:
                self.groups.deliver(group, pending)
        for client in plan.denied:
            sender.drop_denied(client, message)

    def _is_served_otherwise(self, target: DeliveryTarget, pending: PendingPublish) -> bool:
        """Whether a client gets a message from its external queue, or was sent it before the commit.

        QoS 0 goes to its channel, as for any client.
        """
        if target.client.external is not None and pending.message.qos:
            chosen = target.own() if target.client is pending.publisher else target
            if chosen is not None and chosen.qos > 0:
                return True
        if pending.early is not None and target.client in pending.early:
            self.early.settle(target.client, pending.message)
            return True
        return False

    # ---- what waits for a client

    def pump(self, client: BrokerClient) -> None:
        """Send what waits, as far as the window and the socket allow: what was in flight, retained, queued."""
        channel = client.channel
        if channel is None or channel.closed:
            return
        while not channel.congested:
            packet_id = client.session.window.next_unsent()
            if packet_id == 0:
                break
            self.sender.send_again(client, channel, packet_id)
        self.retained.send(client, channel)
        if client.replays is not None:
            self.replays.send(client, channel)
        self._drain_queue(client, channel)
        for group in client.groups:
            if group.owes():
                self.groups.drain(group)

    def _drain_queue(self, client: BrokerClient, channel: Channel) -> None:
        window = client.session.window
        left = _MOST
        while client.behind and window.room() and not channel.congested:
            if left <= 0:
                self._state.mark(channel)  # enough for one iteration
                return
            limit = _READ if client.drain is None else self._allowed(client, client.drain)
            if limit == 0:
                return
            # Only what fits: what was read is in flight, and no longer counts toward the queue's limits.
            found = client.queue.read(client.cursor, min(limit, window.free()))
            if not found:
                client.behind = not client.queue.at_end()
                if client.queue.waits():
                    return
                if client.behind:
                    self._state.mark(channel)  # a long stretch without anything for it: go on in the next iteration
                else:
                    client.drain = None
                return
            left -= len(found)
            for owed in found:
                if owed.serial:  # 0 for what lies in the log
                    client.cursor = owed.serial
                self.sender.send_owed(client, channel, owed)
            if client.drain is not None:
                client.drain.take(len(found))

    def begin_drain(self, client: BrokerClient) -> None:
        """A client is back: what is owed to it now goes out at the pace that is set."""
        client.drain = None
        if self._settings.backlog_rate:
            client.drain = Drain(self._timer.now_us(), client.queue.backlog_end())

    def _allowed(self, client: BrokerClient, drain: Drain) -> int:
        """How many messages of a backlog may be sent now; if none, the client is pumped when some may."""
        rate = self._settings.backlog_rate
        if not rate or client.queue.has_sent(drain.end, client.cursor):
            client.drain = None  # live messages that came meanwhile follow as fast as they are taken
            return _READ
        allowed = min(_READ, drain.allowed(rate, self._timer.now_us()))
        if not allowed:
            self._timer.pump_after(drain.wait_us(rate), client)
        return allowed

    def start_replay(self, replay: ReplayDelivery) -> None:
        """Begin to send the history of a subscription."""
        client = replay.subscribed.client
        client.end_deliveries(replay.subscribed.record.filter.raw)
        client.add_replay(replay)
        self.pump(client)

    def reserve(self, reservation: Reservation) -> None:
        """A reservation of packet ids is committed: a client that waited for it goes on."""
        client = reservation.client
        window = client.session.window
        waits = window.given >= window.reserved
        client.reserving = False
        if window.reserved < reservation.reserved:
            window.reserved = reservation.reserved
        if waits:
            self.pump(client)
