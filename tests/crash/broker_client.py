"""A client that keeps its side of the protocol across any number of connections, whatever happens to the broker.

What it holds for its session (`session state` of the standard) lives as long as the object. It connects again by
itself, and sees to it that Session Present is true.
"""

import asyncio
import random

from holdfast.model.protocol import SERVER, V5
from holdfast.wire.codec import decode_all, encode
from holdfast.wire.framing import Framer
from holdfast.wire.packets import Connack, Connect, Disconnect, Packet
from holdfast.wire.properties import NO_PROPERTIES, Properties
from tests.crash.broker_ledger import Ledger

#: Seconds between two attempts to connect, and that CONNACK may take before the client gives up on a connection.
_RETRY_S = 0.05
_CONNACK_S = 20.0
_EXPIRY_S = 3600
#: What a broker that is about to stop says to a CONNECT: MQTT 5, MQTT 3.
_STOPPING = (0x88, 0x03)


class SteadyClient:
    """One client id with a session that outlives connections. Publishers and subscribers say what to do in it."""

    def __init__(
        self,
        name: str,
        port: int,
        ledger: Ledger,
        dice: random.Random,
        version: int,
        *,
        receive_maximum: int = 0,
        restless: float = 0.0,
    ) -> None:
        """`restless`: how likely it drops its connection after a read."""
        self.name = name
        self.ledger = ledger
        self.dice = dice
        self.version = version
        self.receive_maximum = receive_maximum if version == V5 else 0
        self.restless = restless
        self.connects = 0
        self.online = False
        self.online_again = asyncio.Event()
        #: What the broker allows: from its CONNACK.
        self.window = 20
        #: By the present connection.
        self.sent_bytes = 0
        self._port = port
        self._writer: asyncio.StreamWriter | None = None
        #: Whether CONNECT was ever sent, and ever answered.
        self._asked = False
        self._has_session = False
        self._leaving = False
        self._silently = False

    # ---- for those who say what to do

    def begin(self, *, resumed: bool) -> None:
        """CONNACK came."""
        raise NotImplementedError

    def handle(self, packet: Packet) -> None:
        """Any packet behind it."""
        raise NotImplementedError

    def send(self, packet: Packet) -> None:
        if self._writer is not None and self.online and not self._writer.is_closing():
            content = encode(packet, self.version)
            self.sent_bytes += len(content)
            self._writer.write(content)

    def read_bytes(self, unread: dict[int, int]) -> int:
        """How much of what was sent by this connection its broker has read; 0 if there is none."""
        writer = self._writer
        if writer is None or not self.online or writer.is_closing():
            return 0
        own_port = writer.get_extra_info("sockname")[1]
        return self.sent_bytes - writer.transport.get_write_buffer_size() - unread.get(own_port, self.sent_bytes)

    # ---- connections

    async def run(self) -> None:
        """Stay connected until cancelled, or until `leave`."""
        while not self._leaving:
            try:
                await self._connection()
            except OSError:
                pass
            finally:
                self.online = False
                self.online_again.clear()
            await asyncio.sleep(_RETRY_S * (0.5 + self.dice.random()))

    def leave(self) -> None:
        """Say goodbye and do not come back."""
        self._leaving = True
        self.send(Disconnect())
        self.break_off()

    def break_off(self) -> None:
        """Close the present connection without a word."""
        if self._writer is not None:
            self._writer.close()

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.next_port())
        before, self._writer = self._writer, writer
        try:
            await self._converse(reader, writer)
        finally:
            if before is not None:
                before.close()
            if not self._silently:
                writer.close()
            self._silently = False

    def next_port(self) -> int:
        """Where the next connection goes."""
        return self._port

    def connect_packet(self) -> Connect:
        """What it says first on every connection."""
        properties = NO_PROPERTIES
        if self.version == V5:
            properties = Properties(session_expiry_interval=_EXPIRY_S, receive_maximum=self.receive_maximum or None)
        return Connect(self.version, self.name, clean_start=False, properties=properties)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        framer = Framer()
        framer.speak(self.version)
        connect = encode(self.connect_packet(), self.version)
        self.sent_bytes = len(connect)
        writer.write(connect)
        first_time, self._asked = not self._asked, True
        greeted = False
        while True:
            async with asyncio.timeout(None if greeted else _CONNACK_S):
                data = await reader.read(1 << 16)
            if not data:
                return
            for packet in decode_all(framer, data, self.version, SERVER):
                if not greeted:
                    greeted = True
                    if not self._greet(packet, first_time=first_time):
                        return
                elif isinstance(packet, Disconnect):
                    return
                else:
                    self.handle(packet)
            await self.pause()
            if self.restless and self.dice.random() < self.restless:
                # Half of the time the broker does not notice, and the next connection has to take over.
                self._silently = self.dice.random() < 0.5
                return

    async def pause(self) -> None:
        """Between two reads."""

    def _greet(self, packet: Packet, *, first_time: bool) -> bool:
        if isinstance(packet, Connack) and packet.reason in _STOPPING:
            return False
        if not isinstance(packet, Connack) or packet.reason:
            self.ledger.wrong(f"{self.name}: {packet} for a CONNECT")
            return False
        self.connects += 1
        if self._has_session and not packet.session_present:
            self.ledger.wrong(f"{self.name}: the session is gone")
        if first_time and packet.session_present:
            self.ledger.wrong(f"{self.name}: a session is present that nobody began")
        resumed, self._has_session = self._has_session and packet.session_present, True
        self.window = min(20, packet.properties.receive_maximum or 20)
        self.online = True
        self.online_again.set()
        self.begin(resumed=resumed)
        return True
