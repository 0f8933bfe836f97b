"""One connection of the generator: a socket without asyncio, and the packets that come out of it, in runs.

A run is a row of packets with the same first byte and the same length. Because the first one begins where the last
run ended, and each has the length of the one before, every one of them begins where a step of that length leads:
slices with a step reach the same field of all of them at once, at the speed of C.

    ┌────────────┬────────────┬────────────┬──────┐
    │ 32 4d …    │ 32 4d …    │ 32 4d …    │ 40 … │     data[at : to : step] → 32 32 32
    └────────────┴────────────┴────────────┴──────┘
"""

from __future__ import annotations

import select
import socket

from bench.brokers.packets import PUBACK, PUBCOMP, PUBREC, PUBREL

#: One read at most; shared by all connections, each read is dealt with before the next.
_READ_BYTES = 1 << 20
_BUFFER = bytearray(_READ_BYTES + (1 << 16))
_VIEW = memoryview(_BUFFER)
#: Packets looked at before a run is taken to be a long one: runs are short where kinds alternate.
_PROBE = 32

#: More acknowledgements than a read can ask for, by their first byte; only the packet ids are missing.
_ACKNOWLEDGEMENTS = {first: bytes((first, 2, 0, 0)) * (_READ_BYTES // 4) for first in (PUBACK, PUBREC, PUBREL, PUBCOMP)}
_SINGLE = [bytes((value,)) for value in range(256)]


class LostError(Exception):
    """The broker closed a connection, or never answered."""


class Stream:
    """A connected socket. Subclasses say what to do with a run.

    1. `_unsent` is empty exactly if the poll is not asked for room to write.
    """

    def __init__(self, poll: select.epoll, connected: socket.socket) -> None:
        self._poll = poll
        self._socket = connected
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self.fd = self._socket.fileno()
        self._tail = b""
        self._unsent = b""
        self._answers: list[bytearray] = []
        poll.register(self.fd, select.EPOLLIN)

    def on_run(self, data: bytearray, first: int, at: int, body: int, step: int, count: int) -> None:
        """`count` packets of `step` bytes from `at`; the first one's body begins at `body`."""
        raise NotImplementedError

    def ready(self, events: int) -> None:
        """The poll has something to say."""
        if events != select.EPOLLIN and events & select.EPOLLOUT:
            self._send_rest()
            if events == select.EPOLLOUT:
                return
        self.receive()

    def receive(self) -> None:
        """Read once, and deal with every complete packet."""
        kept = len(self._tail)
        if kept:
            _BUFFER[:kept] = self._tail
        try:
            got = self._socket.recv_into(_VIEW[kept:] if kept else _VIEW, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise LostError(str(error)) from None
        if got == 0:
            raise LostError("the broker closed a connection")
        end = kept + got
        at = 0
        while at + 2 <= end:
            length = _BUFFER[at + 1]
            body = at + 2
            if length >= 0x80:
                if at + 3 > end:
                    break
                length = (length & 0x7F) | _BUFFER[at + 2] << 7  # no packet here has 16 KB
                body += 1
            step = body - at + length
            count = (end - at) // step
            if count == 0:
                break
            if count > 1:
                count = _run_length(at, step, count)
            self.on_run(_BUFFER, _BUFFER[at], at, body, step, count)
            at += step * count
        self._tail = bytes(_BUFFER[at:end]) if at < end else b""
        if self._answers:
            answers, self._answers = self._answers, []
            self.send(answers[0] if len(answers) == 1 else b"".join(answers))

    def answer(self, first: int, high: bytearray, low: bytearray) -> None:
        """Acknowledge the packet ids with these bytes, once all that was read is dealt with."""
        count = len(low)
        if count == 1:
            self._answers.append(bytearray((first, 2, high[0], low[0])))
            return
        packets = bytearray(_ACKNOWLEDGEMENTS[first][: 4 * count])
        packets[2::4] = high
        packets[3::4] = low
        self._answers.append(packets)

    @property
    def congested(self) -> bool:
        return bool(self._unsent)

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send now what the socket takes, and the rest later."""
        if self._unsent:
            self._unsent += bytes(data)
            return
        try:
            done = self._socket.send(data)
        except BlockingIOError:
            done = 0
        except OSError as error:
            raise LostError(str(error)) from None
        if done < len(data):
            self._unsent = bytes(data[done:])
            self._poll.modify(self.fd, select.EPOLLIN | select.EPOLLOUT)

    def _send_rest(self) -> None:
        data, self._unsent = self._unsent, b""
        self._poll.modify(self.fd, select.EPOLLIN)
        if data:
            self.send(data)

    def close(self) -> None:
        if self.fd >= 0:
            self._poll.unregister(self.fd)
            self._socket.close()
            self.fd = -1


def _run_length(at: int, step: int, most: int) -> int:
    """How many of the `most` packets that would fit are like the first one."""
    probe = min(most, _PROBE)
    found = _alike(at, step, probe)
    return found if found < probe or probe == most else _alike(at, step, most)


def _alike(at: int, step: int, most: int) -> int:
    end = at + step * most
    found = _prefix(_BUFFER[at:end:step], _BUFFER[at])
    digit = _BUFFER[at + 1]
    found = min(found, _prefix(_BUFFER[at + 1 : end : step], digit))
    if digit >= 0x80:
        found = min(found, _prefix(_BUFFER[at + 2 : end : step], _BUFFER[at + 2]))
    return found


def _prefix(values: bytearray, value: int) -> int:
    """How many of the values are `value`, before the first that is not."""
    return len(values) - len(values.lstrip(_SINGLE[value]))
