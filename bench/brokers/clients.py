"""The two roles of a load: publishers that keep a window full, subscribers that count and check what they get.

Everything is done by runs (see `stream`): the packet ids of all acknowledgements in a read are compared with the
expected ones in one go, and so are the sequence numbers of all messages. Nothing is left unchecked.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque

from bench.brokers.packets import CONNACK, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, Cycle, Ring, sent_ns
from bench.brokers.stream import LostError, Stream


class Client(Stream):
    """A connection that was opened and may subscribe."""

    def __init__(self, poll: select.epoll, port: int, version: int) -> None:
        super().__init__(poll, socket.create_connection(("127.0.0.1", port), timeout=20))
        self.version = version
        self.connected = False
        #: SUBSCRIBE packets that were answered.
        self.answered = 0

    def on_run(self, data: bytearray, first: int, at: int, body: int, step: int, count: int) -> None:
        kind = first & 0xF0
        end = at + step * count
        if kind == PUBLISH:
            self.on_messages(data, first, body, end, step, count)
        elif first == PUBACK and step == 4:
            self.on_acknowledgements(first, data[body:end:4], data[body + 1 : end : 4])
        elif kind == CONNACK:
            if data[body + 1]:
                raise LostError(f"CONNACK with reason {data[body + 1]}")
            self.connected = True
        elif kind == SUBACK:
            codes = data[body + (3 if self.version == 5 else 2) : at + step]
            if max(codes) >= 0x80:
                raise LostError("a subscription was refused")
            self.answered += count
        else:
            if step > 4 and max(data[body + 2 : end : step]) >= 0x80:
                raise LostError("a message was refused")
            self.on_acknowledgements(first, data[body:end:step], data[body + 1 : end : step])

    # The names of what these two get are for those who take something.

    def on_messages(self, data: bytearray, first: int, body: int, end: int, step: int, count: int) -> None:  # noqa: ARG002
        raise LostError("a message for a client that asked for none")

    def on_acknowledgements(self, first: int, high: bytearray, low: bytearray) -> None:  # noqa: ARG002
        raise LostError(f"unexpected packet {first:#x}")


class Publisher(Client):
    """Sends its ring, as far as its windows allow.

    1. acked ≤ sent, and sent - acked ≤ window at QoS 1 and 2.
    2. In `ready` of its load exactly if it is `queued` there.
    """

    def __init__(self, poll: select.epoll, port: int, version: int, ring: Ring, cycle: Cycle, ready: list[Publisher]):
        super().__init__(poll, port, version)
        self._ring = ring
        self._ids = cycle
        self._ready = ready
        self.queued = False
        self.qos = 1
        self.window = 1
        #: Messages in one send at most.
        self.batch = 64
        #: Messages that may be on their way to subscribers; 0 for no bound.
        self.undelivered = 0
        #: How many subscribers get each message.
        self.receivers = 1
        self.quota = 0
        self.sent = 0
        self.acked = 0
        self.delivered = 0
        #: Acknowledgements that did not come in the order of their messages.
        self.disorder = 0
        #: If acknowledgements are timed: when each message that waits for one was due, and how long they took.
        self.due_ns: deque[int] = deque()
        self.waits_ns: list[int] | None = None

    def call(self) -> None:
        """There may be room: schedule a round."""
        if not self.queued:
            self.queued = True
            self._ready.append(self)

    def pump(self) -> bool:
        """Send one batch; whether there is room for another."""
        if self.congested:
            return True
        sent = self.sent
        room = self.quota - sent
        if self.qos:
            room = min(room, self.window - sent + self.acked)
        if self.undelivered:
            room = min(room, self.undelivered - sent + self.delivered // self.receivers)
        if room <= 0:
            return False
        ring = self._ring
        place = sent % ring.count
        count = min(room, self.batch, ring.count - place)
        self.sent = sent + count
        self.send(ring.data[place * ring.frame_bytes : (place + count) * ring.frame_bytes])
        return room > count

    def on_acknowledgements(self, first: int, high: bytearray, low: bytearray) -> None:
        count = len(low)
        if first == PUBREC:
            self.answer(PUBREL, high, low)
            return
        if first not in (PUBACK, PUBCOMP):
            raise LostError(f"unexpected packet {first:#x}")
        place = self.acked % self._ring.count
        if low != self._ids.low[place : place + count] or high != self._ids.high[place : place + count]:
            self.disorder += count
        self.acked += count
        if self.waits_ns is not None:
            now = time.monotonic_ns()
            self.waits_ns += [now - self.due_ns.popleft() for _message in range(count)]
        if not self.queued:
            self.call()


class Subscriber(Client):
    """Counts messages, checks their order, acknowledges them.

    `sources` says whose messages it gets: one publisher's, which makes the check a comparison, or several.
    """

    def __init__(self, poll: select.epoll, port: int, version: int, sources: list[int], cycle: Cycle, count: int):
        super().__init__(poll, port, version)
        self._cycle = cycle
        self._cycle_count = count
        self._source = sources[0] if len(sources) == 1 else -1
        #: By publisher: the low byte of the next sequence number. Whole numbers are counted at the end.
        self._next = dict.fromkeys(sources, 0)
        #: Whose window the messages open, if publishers wait for delivery.
        self.partner: Publisher | None = None
        self.latencies_ns: list[int] | None = None
        self.got = 0
        self.disorder = 0

    def on_messages(self, data: bytearray, first: int, body: int, end: int, step: int, count: int) -> None:
        header = body + 2 + (data[body] << 8 | data[body + 1])
        if first & 6:
            high, low = data[header:end:step], data[header + 1 : end : step]
            self.answer(PUBREC if first & 4 else PUBACK, high, low)
            header += 2
        if self.version == 5:
            header += 1 + data[header]
        self._check(data, header, end, step, count)
        self.got += count
        partner = self.partner
        if partner is not None:
            partner.delivered += count
            if not partner.queued:
                partner.call()
        if self.latencies_ns is not None:
            now = time.monotonic_ns()
            self.latencies_ns += [now - sent_ns(data, at) for at in range(header, end, step)]

    def _check(self, data: bytearray, header: int, end: int, step: int, count: int) -> None:
        lows = data[header + 3 : end : step]
        if self._source >= 0:
            place = self.got % self._cycle_count
            highs = data[header + 2 : end : step]
            cycle = self._cycle
            if lows != cycle.low[place : place + count] or highs != cycle.high[place : place + count]:
                self.disorder += count
            return
        following = self._next
        for source, low in zip(data[header + 1 : end : step], lows, strict=True):
            if following[source] != low:
                self.disorder += 1
            following[source] = (low + 1) & 255

    def on_acknowledgements(self, first: int, high: bytearray, low: bytearray) -> None:
        if first != PUBREL:
            raise LostError(f"unexpected packet {first:#x}")
        self.answer(PUBCOMP, high, low)
