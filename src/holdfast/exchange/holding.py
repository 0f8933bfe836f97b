"""Acknowledgements that may not leave yet: they wait for queues outside the log, or behind one that does.

1. Acknowledgements leave a channel in the order of their packets: behind one that is held, all are.
2. Answers that are none go on: what follows a SUBACK would have to wait with it.
3. What is held is bounded: a channel that has too much of it is not read from, others go on.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from holdfast.exchange.channel import Channel, Held
from holdfast.exchange.passage import Effect, Passage

if TYPE_CHECKING:
    from holdfast.exchange.exchange import Exchange

#: What a channel may have held, and all channels together; then they are not read from.
_MAX_HELD: Final = 1000
_MAX_HELD_BYTES: Final = 4 * 1024 * 1024
_MAX_ALL_BYTES: Final = 64 * 1024 * 1024
#: The first byte of acknowledgements of messages: PUBACK up to PUBCOMP.
_FIRST_ACK: Final = 0x40
_BEHIND_ACKS: Final = 0x80


class Holding:
    """What is held, for all channels."""

    def __init__(self, exchange: "Exchange") -> None:
        self._exchange: Final = exchange
        #: How many acknowledgements a channel may have held before it is not read from.
        self.max_held = _MAX_HELD
        self._held_bytes = 0
        self._stalled: list[Channel] = []

    def hold(self, channel: Channel, effect: Effect) -> bool:
        """Keep an acknowledgement back: it, or one before it on this channel, waits for queues. Else send it."""
        frame = effect.frame
        if effect.waiting is None and not _FIRST_ACK <= frame[0] < _BEHIND_ACKS:
            self._exchange.delivery.send(channel, frame)  # an answer, and no acknowledgement
            return False
        if channel.held is None:
            channel.held = deque()
        held = Held(frame)
        if isinstance(effect, Passage):
            held.receiving = effect.message.qos == 1
            held.size_bytes = len(effect.message.payload) + len(effect.message.topic)
        if effect.waiting is not None:
            held.ready = False
            effect.waiting.held = held
            effect.waiting.channel = channel
        channel.held.append(held)
        channel.held_bytes += held.size_bytes
        self._held_bytes += held.size_bytes
        if (
            len(channel.held) >= self.max_held
            or channel.held_bytes >= _MAX_HELD_BYTES
            or self._held_bytes >= _MAX_ALL_BYTES
        ) and not channel.stalled:
            channel.stalled = True
            self._stalled.append(channel)
            self._exchange.pause(channel)
        return True

    def let_go(self, channel: Channel) -> None:
        """Send what nothing in front of it holds back any more."""
        line = channel.held
        while line and line[0].ready:
            held = line.popleft()
            channel.held_bytes -= held.size_bytes
            self._held_bytes -= held.size_bytes
            if held.receiving:
                channel.receiving -= 1
            self._exchange.delivery.send(channel, held.frame)
        if not line:
            channel.held = None
        self._exchange.wake()
        if self._stalled and self._held_bytes < _MAX_ALL_BYTES // 2:
            self._read_on()

    def _read_on(self) -> None:
        stalled = self._stalled
        self._stalled = []
        for channel in stalled:
            few = channel.held is None or len(channel.held) < self.max_held // 2
            if channel.closed or (few and channel.held_bytes < _MAX_HELD_BYTES // 2):
                channel.stalled = False
                self._exchange.read_on(channel)
            else:
                self._stalled.append(channel)

    def closed(self, channel: Channel) -> None:
        """A connection is gone, and with it what was held for it."""
        if channel.held is not None:
            self._held_bytes -= channel.held_bytes
            channel.held_bytes = 0
            channel.held = None
