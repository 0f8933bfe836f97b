"""A channel: one live connection, as the path of messages sees it.

Everything here dies with the connection. What outlives it is the client's session (`client.py`).
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from holdfast.exchange.access import Access
from holdfast.exchange.link import Link
from holdfast.wire.framing import MAX_PACKET_BYTES, Framer
from holdfast.wire.publish import PublishScan

if TYPE_CHECKING:
    from holdfast.exchange.client import Client


class Held:
    """An acknowledgement that may not leave yet."""

    def __init__(self, frame: bytes) -> None:
        self.frame: Final = frame
        self.ready = True
        #: Whether it counts toward what the client may have unacknowledged.
        self.receiving = False
        self.size_bytes = 0


class Channel:
    """One connection.

    1. `out` is sent once per loop turn; `dirty` while it waits for that.
    2. Nothing is added to `out` once `closed`.
    3. While `blocked`, packets wait in the framer: an answer to an earlier one is still being worked out.
    """

    def __init__(self, link: Link, limit_bytes: int, number: int = 0) -> None:
        self.link: Final = link
        #: By which the broker knows the connection.
        self.number: Final = number
        self.framer: Final = Framer(limit_bytes)
        self.scan: Final = PublishScan()
        self.version = 0
        #: None until CONNECT was accepted, and after the channel has left its client.
        self.client: Client | None = None
        self.out: list[bytes] = []
        self.dirty = False
        self.closed = False
        self.blocked = False
        #: The socket's send buffer is full: nothing more for this client until it drains.
        self.congested = False
        self.reading_paused = False
        #: Answers to CONNECT or SUBSCRIBE, and QoS 2 messages, that wait for their commit: messages wait behind them.
        self.changing = 0
        #: Monotonic time of the last bytes from the client.
        self.heard_us = 0
        #: Packets handled so far. The incomplete one has this number, if it is noted in `begun`.
        self.packets = 0
        #: The number of the packet that has begun and is not complete, -1 for none.
        self.begun = -1
        #: Monotonic time of its beginning, or of the last look at it, and the bytes of it that were there by then.
        self.begun_us = 0
        self.begun_bytes = 0
        #: Whether somebody looks whether it is completed in time.
        self.watched = False
        #: Bytes of an incomplete frame that the link holds back.
        self.link_bytes = 0
        #: No message for this client may be larger.
        self.max_packet_bytes = MAX_PACKET_BYTES
        #: Topic aliases the client gave, by number, and how many it may give.
        self.aliases_in: Final[dict[int, bytes]] = {}
        self.alias_limit_in = 0
        #: Topic aliases given to the client, and how many it takes.
        self.aliases_out: Final[dict[bytes, int]] = {}
        self.alias_limit_out = 0
        #: QoS 1 messages taken and not acknowledged yet, and how many an MQTT 5 client may have so.
        self.receiving = 0
        self.receive_limit = 0
        #: In front of every topic of this connection; empty for none.
        self.mount = b""
        #: None if everything is allowed.
        self.access: Access | None = None
        self.may_publish: Final[dict[bytes, bool]] = {}
        #: Whether frames made for everybody fit this client too: no aliases, no mount point, no small packets.
        self.plain = True
        #: Acknowledgements that wait for queues outside the log, or behind one that does; None for none.
        self.held: deque[Held] | None = None
        self.held_bytes = 0
        #: It has so many of them that it is not read from.
        self.stalled = False
        #: Messages that may be taken before the rate limit pauses reading; -1 without a limit.
        self.publish_credit = -1

    def unfinished_bytes(self) -> int:
        """Bytes that are kept of a packet that is not complete."""
        return self.framer.buffered_bytes() + self.link_bytes

    def settle(self) -> None:
        """Call when the limits are known: decides whether the channel is plain."""
        self.plain = self.alias_limit_out == 0 and not self.mount and self.max_packet_bytes >= MAX_PACKET_BYTES
