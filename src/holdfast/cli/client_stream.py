"""The command line's end of a connection: packets in and out, and the greeting. Knows no flows; `client` does."""

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Final

from holdfast.cli.client_errors import LostError, connect_refusal
from holdfast.cli.client_transport import Transport, open_socket
from holdfast.model.errors import PeerError
from holdfast.model.protocol import SERVER, V5
from holdfast.model.reasons import SUCCESS
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Disconnect, Packet
from holdfast.wire.properties import NO_PROPERTIES, Properties

#: Messages on their way without acknowledgement, in each direction; brokers may ask for fewer.
WINDOW_MESSAGES: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which broker, and as whom."""

    host: str = "127.0.0.1"
    port: int = 1883
    #: The path of a WebSocket; None without one.
    path: str | None = None
    #: What TLS goes by; None without TLS.
    tls: ssl.SSLContext | None = None
    #: Protocol level: V311 or V5.
    version: int = V5
    client_id: str = ""
    user_name: str | None = None
    #: Kept out of repr: what is printed ends in logs.
    password: bytes | None = field(default=None, repr=False)
    clean_start: bool = True
    #: How long the session outlives the connection; MQTT 5 only, MQTT 3 has `clean_start` alone.
    session_expiry_s: int = 0
    keep_alive_s: int = 60
    #: For each answer of the broker.
    timeout_s: float = 10.0


async def open_transport(target: Target) -> Transport:
    """A connection to the target's broker; LostError says why there is none."""
    try:
        async with asyncio.timeout(target.timeout_s):
            if target.path is None:
                return await open_socket(target.host, target.port, target.tls)
            # Not above: most connections need no WebSocket, and its library takes longer to import than they last.
            from holdfast.cli.client_websocket import open_websocket

            return await open_websocket(target.host, target.port, target.path, target.tls)
    except TimeoutError:
        raise LostError(f"{target.host}:{target.port} does not answer; is the address right?") from None


class PacketStream:
    """Packets over one connection."""

    def __init__(self, transport: Transport, target: Target) -> None:
        self.target: Final = target
        self._transport: Final = transport
        self._framer = Framer()
        self._framer.speak(target.version)
        #: Packets that came in one piece with CONNACK.
        self._early: list[Packet] = []
        #: Acknowledgements that leave together.
        self._gathered: list[bytes] = []

    def send(self, packet: Packet) -> None:
        self._flush()
        self._transport.write(encode(packet, self.target.version))

    def send_soon(self, packet: Packet) -> None:
        """Send a packet at the end of this turn of the loop, with all others that come until then."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._flush)
        self._gathered.append(encode(packet, self.target.version))

    def _flush(self) -> None:
        if self._gathered and not self._transport.is_closing():
            self._transport.write(b"".join(self._gathered))
        self._gathered.clear()

    async def write(self, frame: bytes) -> None:
        """Send an encoded packet, and wait while the broker is slow; ConnectionError if it is gone."""
        self._flush()
        self._transport.write(frame)
        await self._transport.drain()

    async def next_packets(self) -> list[Packet]:
        """What the next bytes complete, perhaps nothing. LostError at the end."""
        chunk = await self._transport.read()
        if not chunk:
            raise LostError("the broker closed the connection without a reason")
        try:
            return decode_all(self._framer, chunk, self.target.version, SERVER)
        except PeerError as error:
            raise LostError(f"the broker sent what is not MQTT: {error.detail}") from None

    async def greet(self) -> Connack:
        """Send CONNECT; the answer, if it is yes."""
        target = self.target
        self.send(_connect_packet(target))
        try:
            async with asyncio.timeout(target.timeout_s):
                while not self._early:
                    self._early = await self.next_packets()
        except TimeoutError:
            raise LostError(f"the broker did not answer CONNECT within {target.timeout_s:g} s") from None
        except LostError as error:
            other = "-V 3" if target.version == V5 else "-V 5"
            # Many a TLS server that misses a certificate closes the connection and does not say so.
            secure = "speaks TLS: --tls" if target.tls is None else "wants a certificate: --cert FILE and --key FILE"
            raise LostError(
                f"{error}, instead of answering CONNECT; perhaps it speaks another version: {other}, or {secure}"
            ) from None
        connack = self._early.pop(0)
        if not isinstance(connack, Connack):
            raise LostError(f"the broker answered CONNECT with {type(connack).__name__}")
        if connack.reason != SUCCESS:
            raise connect_refusal(connack, target.version)
        return connack

    def take_early(self) -> list[Packet]:
        """What came together with the answer to CONNECT."""
        early, self._early = self._early, []
        return early

    async def close(self) -> None:
        """Say goodbye if there is somebody left to hear it."""
        if not self._transport.is_closing():
            self.send(Disconnect())
        await self._transport.close()


def _connect_packet(target: Target) -> Connect:
    properties = NO_PROPERTIES
    if target.version == V5:
        expiry_s = target.session_expiry_s or None
        properties = Properties(session_expiry_interval=expiry_s, receive_maximum=WINDOW_MESSAGES)
    return Connect(
        target.version,
        target.client_id,
        target.clean_start,
        target.keep_alive_s,
        user_name=target.user_name,
        password=target.password,
        properties=properties,
    )
