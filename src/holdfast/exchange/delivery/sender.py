"""Messages to one client: sent now, put into its queue, or sent once their entry in flight is stored.

A client that is live gets a message at once. Else it goes into its queue, from which `delivery.pump` takes it.
QoS 0 is for clients that are live now; it is never queued.
"""

from collections.abc import Callable
from typing import Final

from holdfast.durable.sessions.session_store import DropInflight, KeepInflight
from holdfast.exchange.client import BrokerClient, Channel
from holdfast.exchange.delivery.frames import frame_for
from holdfast.exchange.delivery.progress_queue import ProgressQueue
from holdfast.exchange.drops import DROP_DENIED, DROP_EXPIRED, DROP_QUEUE, DROP_SLOW, DROP_TOO_LARGE
from holdfast.exchange.loop_state import LoopState
from holdfast.exchange.pending_publish import PendingPublish, Sending
from holdfast.exchange.plans import DeliveryTarget
from holdfast.exchange.settings import ExchangeSettings
from holdfast.model.ids import ClientId
from holdfast.model.message import ArchivedMessage, Message
from holdfast.model.owed import Owed, OwedQueued, OwedShared, place_of
from holdfast.wire.primitives import U16

#: Why a message is denied.
_NO_RIGHT: Final = "the client may not read this topic"
#: PUBREL.
_PUBREL: Final = b"\x62\x02"


class Sender:
    """Sends messages to clients, and tells how far their sessions have come."""

    def __init__(self, state: LoopState, settings: ExchangeSettings, progress: ProgressQueue) -> None:
        self._state: Final = state
        self._drops: Final = state.drops
        self._counters: Final = state.counters
        #: The QoS of the subscription alone decides, also above the message's own.
        self._upgrade_qos: Final = settings.upgrade_outgoing_qos
        self.progress: Final = progress
        #: In a cluster: told of every message of a group that a member is done with, or will never get.
        self.shared_done: Callable[[BrokerClient, Owed], None] | None = None

    def deliver_to(self, target: DeliveryTarget, pending: PendingPublish) -> None:
        """Give a message to one client, now or later."""
        client = target.client
        channel = client.channel
        message = pending.message
        qos = message.qos
        if target.qos < qos or self._upgrade_qos:
            qos = target.qos
        retain = message.retain and target.keep_retain
        if qos == 0:
            if channel is None:
                return
            if channel.congested:
                self._drops.drop(DROP_SLOW, client.session.client_id, message, self._state.now_us)
            elif channel.plain and target.plain and not retain and pending.fresh and not channel.changing:
                channel.put(pending.whole(channel.version))
                if not channel.dirty:
                    self._state.mark(channel)
                self._counters.messages_out += 1
            else:
                self.send_owed(client, channel, Owed(message, 0, retain=retain, identifiers=target.identifiers))
            return
        window = client.session.window
        if channel is None or client.behind or channel.congested or not window.room():
            self._owe(client, Owed(message, qos, retain=retain, identifiers=target.identifiers))
        elif (
            channel.plain
            and target.plain
            and not retain
            and pending.fresh
            and not channel.changing
            and (qos == 1 or not client.stored())
        ):
            packet_id = window.admit(pending.owed(qos))
            out = channel.out
            if out is None:
                channel.out = [pending.head(channel.version, qos), U16[packet_id], pending.tail(channel.version)]
            else:
                out.append(pending.head(channel.version, qos))
                out.append(U16[packet_id])
                out.append(pending.tail(channel.version))
            if not channel.dirty:
                self._state.mark(channel)
            self._counters.messages_out += 1
        else:
            self.send_owed(client, channel, Owed(message, qos, retain=retain, identifiers=target.identifiers))

    def _owe(self, client: BrokerClient, owed: Owed) -> None:
        """Put a message into a client's queue."""
        client.behind = True
        self._drops.lose(DROP_QUEUE, client.session.client_id, client.queue.append([owed]), self._state.now_us)

    def drop_denied(self, client: BrokerClient, message: Message) -> None:
        self._drops.drop(DROP_DENIED, client.session.client_id, message, self._state.now_us, _NO_RIGHT)

    # ---- one message that is owed

    def send_owed(self, client: BrokerClient, channel: Channel, owed: Owed, *, after_commit: bool = False) -> int:
        """Send a message that is owed, or note why it is not; its packet id, 0 if it is not in flight now."""
        packet_id = 0
        why = self._obstacle(channel, owed)
        if why:
            detail = _NO_RIGHT if why == DROP_DENIED else ""
            self._drops.drop(why, client.session.client_id, owed.message, self._state.now_us, detail)
            if owed.serial:
                client.queue.acknowledge(owed.serial)
        else:
            if isinstance(owed, OwedQueued) and owed.packet_id:
                packet_id = client.session.window.admit_again(owed, owed.packet_id)  # [MQTT-4.4.0-1]
            elif owed.qos:
                packet_id = client.session.window.admit(owed)
            durable = owed.qos == 2 and client.stored()
            if durable or (owed.qos == 1 and isinstance(owed.message, ArchivedMessage) and client.stored()):
                # The log cannot give a message of a lake again. With QoS 1 it may go before its entry is stored: the
                # position of its replay is in the same batch.
                order = client.session.next_order()
                self._state.step(KeepInflight(client.session.client_id, packet_id, owed, order))
            if durable or after_commit or channel.changing:
                channel.changing += 1  # whatever follows stays behind it
                self._state.effects.append(Sending(client, channel, owed, packet_id))
            else:
                self._send_custom(client, channel, owed, packet_id, dup=owed.repeated)
        return packet_id

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
        self._send_custom(client, channel, sending.owed, packet_id, dup=sending.owed.repeated)

    def send_again(self, client: BrokerClient, channel: Channel, packet_id: int) -> None:
        """What was in flight when the last connection ended: same packet id, DUP, or PUBREL [MQTT-4.4.0-1]."""
        window = client.session.window
        if window.is_released(packet_id):
            self._state.send(channel, _PUBREL + U16[packet_id])
            return
        owed = window.owed(packet_id)
        if owed is not None:
            self._send_custom(client, channel, owed, packet_id, dup=True)

    def send_notice(self, client: BrokerClient, topic: bytes, payload: bytes) -> None:
        """A message of the broker to one client, with QoS 0, behind everything that it was sent so far."""
        channel = client.channel
        if channel is None or channel.closed:
            return
        owed = Owed(Message(channel.mount + topic, payload, 0, ClientId(""), self._state.now_us), 0)
        if channel.changing:
            channel.changing += 1
            self._state.effects.append(Sending(client, channel, owed, 0))
        else:
            self._send_custom(client, channel, owed, 0)

    def _obstacle(self, channel: Channel, owed: Owed) -> str:
        """Why a message is not sent to this client now; empty if it can be."""
        if owed.message.expired(self._state.now_us):
            return DROP_EXPIRED
        if channel.access is not None and not channel.access.may_receive(owed.message.topic):
            return DROP_DENIED
        if channel.mount and not owed.message.topic.startswith(channel.mount):
            return DROP_DENIED
        return ""

    def _send_custom(
        self, client: BrokerClient, channel: Channel, owed: Owed, packet_id: int, *, dup: bool = False
    ) -> None:
        """Make a frame for this client alone and send it; one too large counts as acknowledged [MQTT-3.1.2-25]."""
        if channel.closed:
            return
        frame = frame_for(channel, owed, owed.qos, packet_id, self._state.now_us, dup=dup)
        if frame:
            channel.put(frame)
            self._state.mark(channel)
            self._counters.messages_out += 1
            return
        detail = f"the client takes packets up to {channel.max_packet_bytes} bytes"
        self._drops.drop(DROP_TOO_LARGE, client.session.client_id, owed.message, self._state.now_us, detail)
        discarded = client.session.window.discard(packet_id)
        if discarded is not None:
            self.done(client, packet_id, discarded)

    # ---- how far sessions have come

    def done(self, client: BrokerClient, packet_id: int, owed: Owed) -> None:
        """A message is acknowledged, or will never be sent: its place in the queue and its stored entry go."""
        if owed.serial:
            client.queue.acknowledge(owed.serial)
        if self.shared_done is not None and isinstance(owed, OwedShared):
            self.shared_done(client, owed)
        elif owed.group:
            for group in client.groups:
                if group.key == owed.group:
                    self.progress.group_changed(group)
        if not client.stored():
            return
        if not client.unsaved:
            self.progress.client_changed(client)
        if not client.reserving and client.session.window.runs_low():
            client.reserving = True
            self.progress.save(client)
        archived = isinstance(owed.message, ArchivedMessage)
        if owed.qos == 2 or archived:
            shard, position = place_of(owed)
            if archived:
                position = 0  # the position of its replay has passed it
            elif isinstance(owed, OwedShared) and owed.revision:
                position = 0  # its assignment is done: another subscription of the client may have this place, too
            self._state.step(DropInflight(client.session.client_id, packet_id, shard, position))
