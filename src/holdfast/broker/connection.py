"""One client's connection, without I/O: bytes in, bytes out, and when to close.

This broker answers CONNECT, PINGREQ and DISCONNECT. It stores and routes nothing yet, says so in CONNACK
(no retained messages, no subscriptions of any kind), and refuses PUBLISH and SUBSCRIBE with a reason,
so that no client believes its message was taken.
"""

from typing import Final

from holdfast.model.clock import Clock
from holdfast.model.errors import PeerError
from holdfast.model.protocol import CLIENT, CONNECT, PACKET_NAMES, V5, V311
from holdfast.model.reasons import (
    IMPLEMENTATION_SPECIFIC_ERROR,
    KEEP_ALIVE_TIMEOUT,
    PROTOCOL_ERROR,
    SUCCESS,
    connack_v3,
)
from holdfast.wire.codec import PINGRESP_FRAME, decode, encode
from holdfast.wire.connect import connect_version
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Disconnect, Packet, Pingreq
from holdfast.wire.properties import Properties

#: Largest packet accepted: far above any CONNECT, far below what would hurt.
LIMIT_BYTES: Final = 1024 * 1024
#: A connection that has not sent CONNECT by then is closed.
CONNECT_DEADLINE_US: Final = 10_000_000

_SECOND_US: Final = 1_000_000


class Connection:
    """What one client said, and what it is to be told.

    1. Nothing is sent before CONNACK, and nothing after `closed`.
    2. Once `closed`, further bytes are ignored.
    """

    def __init__(self, clock: Clock, assigned_client_id: str) -> None:
        self._clock: Final = clock
        self._assigned_client_id: Final = assigned_client_id
        self._framer: Final = Framer(LIMIT_BYTES)
        self._version = 0
        self._connected = False
        self._allowed_silence_us = CONNECT_DEADLINE_US
        self._heard_us = clock.monotonic_us()
        self._out: list[bytes] = []
        self.client_id = ""
        self.closed = False
        #: Why it was closed, for the log; empty if the client left properly.
        self.complaint = ""

    def receive(self, chunk: bytes) -> None:
        """Take bytes from the client."""
        if self.closed:
            return
        try:
            self._framer.feed(chunk)
            while not self.closed and self._framer.advance():
                self._heard(self._framer)
        except PeerError as error:
            self._refuse(error)

    def check_silence(self) -> int:
        """Close if the client was silent for too long; microseconds until the next check, 0 for none."""
        if self.closed or self._allowed_silence_us == 0:
            return 0
        left_us = self._heard_us + self._allowed_silence_us - self._clock.monotonic_us()
        if left_us > 0:
            return left_us
        self._refuse(PeerError(KEEP_ALIVE_TIMEOUT, "nothing came in time"))  # [MQTT-3.1.2-22]
        return 0

    def take_output(self) -> bytes:
        """What is to be sent, once."""
        out = b"".join(self._out)
        self._out = []
        return out

    def _heard(self, framer: Framer) -> None:
        kind = framer.first >> 4
        if kind == CONNECT:
            if self._connected:  # [MQTT-3.1.0-2]
                raise PeerError(PROTOCOL_ERROR, "a second CONNECT")
            self._version = connect_version(framer.data[framer.body : framer.end])
            framer.speak(self._version)
        elif not self._connected:  # [MQTT-3.1.0-1]
            raise PeerError(PROTOCOL_ERROR, "the first packet is not CONNECT")
        self._handle(decode(framer.data, framer.first, framer.body, framer.end, self._version, CLIENT), kind)
        self._heard_us = self._clock.monotonic_us()

    def _handle(self, packet: Packet, kind: int) -> None:
        if isinstance(packet, Connect):
            self._accept(packet)
        elif isinstance(packet, Pingreq):
            self._out.append(PINGRESP_FRAME)  # [MQTT-3.12.4-1]
        elif isinstance(packet, Disconnect):
            self.closed = True
        else:
            raise PeerError(
                IMPLEMENTATION_SPECIFIC_ERROR,
                f"{PACKET_NAMES[kind]} is not served yet: this build answers CONNECT, PINGREQ and DISCONNECT only",
            )

    def _accept(self, packet: Connect) -> None:
        self._connected = True
        self.client_id = packet.client_id or self._assigned_client_id
        self._allowed_silence_us = packet.keep_alive_s * _SECOND_US * 3 // 2
        properties = Properties(
            assigned_client_identifier=None if packet.client_id else self.client_id,  # [MQTT-3.1.3-7]
            session_expiry_interval=0,
            maximum_packet_size=LIMIT_BYTES,
            maximum_qos=0,
            retain_available=0,
            wildcard_subscription_available=0,
            subscription_identifiers_available=0,
            shared_subscription_available=0,
        )
        self._out.append(encode(Connack(SUCCESS, session_present=False, properties=properties), self._version))

    def _refuse(self, error: PeerError) -> None:
        """Tell the client why, in what its version has for it, and close."""
        self.closed = True
        self.complaint = str(error)
        if self._connected:
            if self._version == V5:  # MQTT 3 servers have no word for it
                properties = Properties(reason_string=error.detail)
                self._out.append(encode(Disconnect(error.reason, properties), V5))
        elif self._version == V5:
            properties = Properties(reason_string=error.detail)
            self._out.append(encode(Connack(error.reason, session_present=False, properties=properties), V5))
        elif connack_v3(error.reason) > 0:
            # Also for a protocol level that nobody knows: every MQTT client reads this form.
            self._out.append(encode(Connack(connack_v3(error.reason)), V311))
