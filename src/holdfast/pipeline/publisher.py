"""Publishes message after message, many at a time, and sends again what was not acknowledged.

    send ──▶ out ──▶ socket            at most a window of messages is unacknowledged, and at most so many bytes
               unacked ◀── PUBACK      a connection that breaks: a new one, and everything unacknowledged once more

1. Messages leave in the order of `send`, also when they are sent again.
2. After `finish` each message of QoS 1 and 2 was acknowledged, and those of QoS 0 were read.
3. What the broker refuses for good ends it, with the topic and the reason. Losses end it when nothing was acknowledged
   for `retry_for_s`.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.model.ids import FIRST_PACKET_ID, packet_id_after
from holdfast.model.protocol import PUBACK, PUBREC, PUBREL, V5
from holdfast.model.reasons import UNSPECIFIED_ERROR
from holdfast.pipeline.broker_connection import PASSING, BrokerConnection, ending
from holdfast.wire.codec import PINGREQ_FRAME, encode
from holdfast.wire.packets import Ack, Disconnect, Packet, Pingresp
from holdfast.wire.primitives import encode_varint
from holdfast.wire.publish import RETAIN, frame_publish
from holdfast.wire.refusals import LostError, RefusedError, in_words

#: Written to the socket in one piece.
_PIECE_BYTES: Final = 65_536
#: Unacknowledged messages are kept, because they may have to be sent again; large ones are therefore fewer.
MAX_UNACKED_BYTES: Final = 16 << 20
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class Message(NamedTuple):
    """What is published, checked and encoded as far as it is the same for every attempt."""

    #: The first byte of PUBLISH.
    first: int
    topic: bytes
    #: The property list without its length.
    properties: bytes
    payload: bytes

    @property
    def qos(self) -> int:
        return self.first >> 1 & 3


class Publisher:
    """Connects when there is something to send."""

    def __init__(
        self,
        connect: Callable[[], BrokerConnection],
        window: int,
        retry_for_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connect: Final = connect
        self._own_window: Final = window
        self._retry_for_s: Final = retry_for_s
        self._clock: Final = clock
        self._sleep: Final = sleep
        self._connection: BrokerConnection | None = None
        self._packet_id = FIRST_PACKET_ID
        #: By packet id, oldest first: the frame, the topic, and how many messages were sent before it.
        self._unacked: Final[dict[int, tuple[bytes, bytes, int]]] = {}
        self._sent = 0
        self._unacked_bytes = 0
        #: QoS 2: taken by the broker, whose PUBCOMP is still to come.
        self._released: Final[set[int]] = set()
        self._out: list[bytes] = []
        self._out_bytes = 0
        #: Messages of QoS 0 that the broker may not have read.
        self._unread = False
        #: Since when nothing was acknowledged, in spite of trying; None while all is well.
        self._lost_at: float | None = None

    def send(self, message: Message) -> None:
        """Send a message, now or together with the next ones."""
        connection = self._connected()
        self._check(connection, message)
        while self._is_full():
            self._turn(wait=True)
        packet_id = 0
        if message.qos:
            packet_id = self._free_packet_id()
        else:
            self._unread = True
        frame = frame_publish(
            message.first,
            message.topic,
            packet_id,
            encode_varint(len(message.properties)) + message.properties,
            message.payload,
        )
        largest = self._connected().limits.maximum_packet_size
        if largest is not None and len(frame) > largest:
            raise RefusedError(
                f"the message to {message.topic.decode()!r} makes a packet of {len(frame)} bytes; the broker takes at "
                f"most {largest}"
            )
        if packet_id:
            self._unacked[packet_id] = (frame, message.topic, self._sent)
            self._unacked_bytes += len(frame)
        self._sent += 1
        self._out.append(frame)
        self._out_bytes += len(frame)
        if self._out_bytes >= _PIECE_BYTES:
            self._turn(wait=False)

    def flush(self) -> None:
        """Have everything on its way: the next message may take a while."""
        if self._out:
            self._turn(wait=False)

    @property
    def settled(self) -> int:
        """How many of the messages that were sent first are acknowledged, without a gap."""
        return next(iter(self._unacked.values()))[2] if self._unacked else self._sent

    def ping(self) -> None:
        """Have a connection outlast a time in which nothing is sent."""
        self.flush()
        self._unread = True
        while self._unread:
            self._ask()

    def finish(self) -> None:
        """Wait for every acknowledgement, and say goodbye."""
        while self._out or self._unacked or self._released:
            self._turn(wait=bool(self._unacked or self._released))
        while self._unread:
            self._ask()
        if self._connection is not None:
            self._connection.close(goodbye=True)
            self._connection = None

    def close(self) -> None:
        """Leave as it is."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ---- one step

    def _turn(self, *, wait: bool) -> None:
        """Send what there is, and take what came; with `wait`, something has to come."""
        try:
            connection = self._connected()
            self._flush(connection)
            if wait or connection.has_news():
                self._take(connection.receive())
                if self._out:  # PUBREL
                    self._flush(connection)
        except LostError as error:
            self._recover(error)

    def _flush(self, connection: BrokerConnection) -> None:
        if self._out:
            piece = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            connection.send(piece)

    def _take(self, packets: list[Packet]) -> None:
        for packet in packets:
            if isinstance(packet, Ack):
                self._acknowledged(packet)
            elif isinstance(packet, Pingresp):
                self._unread = False
            elif isinstance(packet, Disconnect):
                raise ending(packet)
            else:
                raise LostError(f"the broker sent {type(packet).__name__}, for which there is no occasion")

    def _acknowledged(self, ack: Ack) -> None:
        found = self._unacked.get(ack.packet_id)
        if ack.kind in (PUBACK, PUBREC) and found is not None:
            if ack.reason >= UNSPECIFIED_ERROR:
                words = f"the broker refused the message to {found[1].decode()!r}: "
                words += in_words(ack, ack.reason, ack.kind)
                raise LostError(words) if ack.reason in PASSING else RefusedError(words)
            del self._unacked[ack.packet_id]
            self._unacked_bytes -= len(found[0])
            if ack.kind == PUBREC:
                self._released.add(ack.packet_id)
                self._out.append(encode(Ack(PUBREL, ack.packet_id), V5))
        self._lost_at = None
        if ack.kind not in (PUBACK, PUBREC):
            self._released.discard(ack.packet_id)

    def _ask(self) -> None:
        """An answer to a ping shows that everything before it was read."""
        try:
            connection = self._connected()
            connection.send(PINGREQ_FRAME)
            while self._unread:
                self._take(connection.receive())
        except LostError as error:
            self._recover(error)

    # ---- connections

    def _connected(self) -> BrokerConnection:
        if self._connection is None:
            try:
                self._connection = self._connect()
            except LostError as error:
                self._recover(error)
        assert self._connection is not None
        return self._connection

    def _recover(self, error: LostError) -> None:
        """A new connection on which everything unacknowledged is sent; LostError when that takes too long."""
        if self._lost_at is None:
            self._lost_at = self._clock()
        pause_s = _FIRST_PAUSE_S
        while True:
            self.close()
            if self._clock() - self._lost_at > self._retry_for_s:
                raise LostError(f"gave up after {self._retry_for_s:g} s without progress: {error}") from error
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                self._connection = self._connect()
                self._send_again(self._connection)
            except LostError as another:
                error = another
                if self._lost_at is None:  # there was progress, and another loss
                    self._lost_at, pause_s = self._clock(), _FIRST_PAUSE_S
                continue
            return

    def _send_again(self, connection: BrokerConnection) -> None:
        """All that is unacknowledged, in its order, a window at a time. It includes what was still in `out`."""
        # A new session knows nothing of the old hand-shakes, and those messages were taken.
        self._released.clear()
        self._out.clear()
        self._out_bytes = 0
        waiting = list(self._unacked.items())
        window = max(1, min(connection.window, self._own_window))
        for start in range(0, len(waiting), window):
            page = waiting[start : start + window]
            connection.send(b"".join([frame for _packet_id, (frame, _topic, _before) in page]))
            if start + window >= len(waiting):
                return
            while any(packet_id in self._unacked for packet_id, _sent in page) or self._released:
                self._take(connection.receive())
                if self._out:
                    self._flush(connection)

    # ---- limits

    def _is_full(self) -> bool:
        count = len(self._unacked) + len(self._released)
        window = min(self._own_window, self._connected().window)
        return count >= window or self._unacked_bytes >= MAX_UNACKED_BYTES

    def _check(self, connection: BrokerConnection, message: Message) -> None:
        limits = connection.limits
        if limits.maximum_qos is not None and message.qos > limits.maximum_qos:
            raise RefusedError(
                f"QoS {message.qos} to {message.topic.decode()!r}; the broker takes {limits.maximum_qos}"
            )
        if message.first & RETAIN and limits.retain_available == 0:
            raise RefusedError(f"{message.topic.decode()!r} is to be retained; the broker keeps no retained messages")

    def _free_packet_id(self) -> int:
        while self._packet_id in self._unacked or self._packet_id in self._released:
            self._packet_id = packet_id_after(self._packet_id)
        packet_id = self._packet_id
        self._packet_id = packet_id_after(packet_id)
        return packet_id
