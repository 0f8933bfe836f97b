"""Deferred acknowledgements: they wait for external queues, or behind one that does.

1. Acknowledgements leave a channel in the order of their packets: behind one that is deferred, all are.
2. Other answers are not deferred. What follows a SUBACK would have to wait with it.
3. What is deferred is bounded: a channel that has too much of it is not read from, others go on.
"""

from collections import deque
from typing import Final

from holdfast.exchange.client import Channel, DeferredAck
from holdfast.exchange.loop_state import LoopState, ReadFlow
from holdfast.exchange.pending_publish import Effect, PendingPublish

#: What a channel may have deferred, and all channels together; then they are not read from.
_MAX_DEFERRED: Final = 1000
_MAX_DEFERRED_BYTES: Final = 4 * 1024 * 1024
_MAX_ALL_BYTES: Final = 64 * 1024 * 1024
#: The first byte of acknowledgements of messages: PUBACK up to PUBCOMP.
_FIRST_ACK: Final = 0x40
_BEHIND_ACKS: Final = 0x80


class DeferredAcks:
    """The deferred acknowledgements of all channels."""

    def __init__(self, state: LoopState, flow: ReadFlow) -> None:
        self._state: Final = state
        self._flow: Final = flow
        #: How many acknowledgements a channel may have deferred before it is not read from.
        self.max_deferred = _MAX_DEFERRED
        self._all_bytes = 0
        self._stalled: list[Channel] = []

    def defer(self, channel: Channel, effect: Effect) -> bool:
        """Keep an acknowledgement back: it, or one before it on this channel, waits for queues. Else send it."""
        frame = effect.frame
        if effect.outstanding is None and not _FIRST_ACK <= frame[0] < _BEHIND_ACKS:
            self._state.send(channel, frame)  # an answer, and no acknowledgement
            return False
        if channel.deferred is None:
            channel.deferred = deque()
        ack = DeferredAck(frame)
        if isinstance(effect, PendingPublish):
            ack.receiving = effect.message.qos == 1
            ack.size_bytes = len(effect.message.payload) + len(effect.message.topic)
        if effect.outstanding is not None:
            ack.ready = False
            effect.outstanding.ack = ack
            effect.outstanding.channel = channel
        channel.deferred.append(ack)
        channel.deferred_bytes += ack.size_bytes
        self._all_bytes += ack.size_bytes
        if (
            len(channel.deferred) >= self.max_deferred
            or channel.deferred_bytes >= _MAX_DEFERRED_BYTES
            or self._all_bytes >= _MAX_ALL_BYTES
        ) and not channel.stalled:
            channel.stalled = True
            self._stalled.append(channel)
            self._flow.pause(channel)
        return True

    def release(self, channel: Channel) -> None:
        """Send the acknowledgements that wait for nothing any more, neither themselves nor in front of them."""
        deferred = channel.deferred
        while deferred and deferred[0].ready:
            ack = deferred.popleft()
            channel.deferred_bytes -= ack.size_bytes
            self._all_bytes -= ack.size_bytes
            if ack.receiving:
                channel.receiving -= 1
            self._state.send(channel, ack.frame)
        if not deferred:
            channel.deferred = None
        self._state.schedule()
        if self._stalled and self._all_bytes < _MAX_ALL_BYTES // 2:
            self._read_on()

    def _read_on(self) -> None:
        stalled = self._stalled
        self._stalled = []
        for channel in stalled:
            few = channel.deferred is None or len(channel.deferred) < self.max_deferred // 2
            if channel.closed or (few and channel.deferred_bytes < _MAX_DEFERRED_BYTES // 2):
                channel.stalled = False
                self._flow.read_on(channel)
            else:
                self._stalled.append(channel)

    def forget(self, channel: Channel) -> None:
        """A connection is gone, and with it what was deferred for it."""
        if channel.deferred is not None:
            self._all_bytes -= channel.deferred_bytes
            channel.deferred_bytes = 0
            channel.deferred = None
