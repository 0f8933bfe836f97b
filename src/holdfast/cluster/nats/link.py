"""One connection to one NATS server, from its first byte to its last.

    INFO ──▶ CONNECT, PING ──▶ PONG: ready ──▶ messages, requests ──▶ lost, once, with a reason

1. What is sent within one iteration of the loop leaves with one write.
2. A server that answers no PING for two intervals is left: it hangs.
3. When the connection is lost, every request that waits is answered with nothing, and then `lost` is called.
4. What a server does not take is bounded: above that, `publish` refuses.

It is an `asyncio.Protocol` by shape.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from holdfast.cluster.nats.protocol import (
    NO_RESPONDERS,
    PING,
    PONG,
    NatsDecoder,
    NatsMessage,
    connect_frame,
    publish_frame,
    subscribe_frame,
    unsubscribe_frame,
)
from holdfast.model.errors import PermanentError, TransientError

#: Seconds between two pings, and how many may be without an answer.
PING_S: Final = 2.0
_PINGS: Final = 2
#: Bytes that a server has not taken yet; a record is up to 8 MB, and there are few at a time.
MAX_UNSENT_BYTES: Final = 64 << 20

Received = Callable[[NatsMessage], None]
#: A message, or nothing: no answer came in time, or will.
Answered = Callable[[NatsMessage | None], None]

#: Errors after which a server does not close the connection.
_HARMLESS: Final = ("permissions violation", "invalid subject")


class _Request:
    """A request that waits."""

    def __init__(self, answered: Answered, timer: asyncio.TimerHandle) -> None:
        self.answered: Final = answered
        self.timer: Final = timer


class NatsLink:
    """Requires: `ready` is awaited before anything is sent; all calls are made on the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, inbox: str, login: dict[str, Any], *, ping_s: float = PING_S
    ) -> None:
        """`inbox` is a subject of our own, below which answers come; `login` goes into CONNECT."""
        self._loop: Final = loop
        self._inbox: Final = inbox.encode() + b"."
        self._login: Final = login
        self._ping_s: Final = ping_s
        self._decoder: Final = NatsDecoder()
        self._transport: Any = None
        self._out: Final[list[bytes]] = []
        self._out_bytes = 0
        self._subscriptions: Final[dict[int, Received]] = {}
        self._requests: Final[dict[int, _Request]] = {}
        self._last_sid = 0
        self._last_request = 0
        self._pings = 0
        self._ping_timer: asyncio.TimerHandle | None = None
        self._is_greeted = False
        #: What the server says of itself.
        self.info: dict[str, Any] = {}
        #: Done when the server has let this client in; fails with the reason if it does not.
        self.ready: Final[asyncio.Future[None]] = loop.create_future()
        #: Called once, when a connection that was ready is lost.
        self.lost: Callable[[str], None] | None = None
        #: Why it is lost; empty while it is not.
        self.end = ""

    # ---- what is sent

    def publish(self, subject: bytes, payload: bytes, reply: bytes = b"") -> None:
        """TransientError: the connection is lost, or the server does not take what it was sent."""
        if self.end:
            raise TransientError(f"the connection is lost: {self.end}")
        unsent_bytes = self._out_bytes + self._transport.get_write_buffer_size()
        if unsent_bytes + len(payload) > MAX_UNSENT_BYTES:
            raise TransientError(f"the server has not taken {unsent_bytes} bytes yet")
        self._write(publish_frame(subject, reply, payload))

    def request(self, subject: bytes, payload: bytes, timeout_s: float, answered: Answered) -> None:
        """Ask; `answered` is called once, never inside this call. Fails as `publish` does."""
        self._last_request += 1
        number = self._last_request
        self.publish(subject, payload, self._inbox + str(number).encode())
        timer = self._loop.call_later(timeout_s, self._time_out, number)
        self._requests[number] = _Request(answered, timer)

    def subscribe(self, subject: bytes, received: Received) -> int:
        """The number of the subscription. TransientError: the connection is lost."""
        if self.end:
            raise TransientError(f"the connection is lost: {self.end}")
        self._last_sid += 1
        self._subscriptions[self._last_sid] = received
        self._write(subscribe_frame(subject, self._last_sid))
        return self._last_sid

    def unsubscribe(self, sid: int) -> None:
        if self._subscriptions.pop(sid, None) is not None and not self.end:
            self._write(unsubscribe_frame(sid))

    def close(self) -> None:
        """Send what is left, and end the connection in order."""
        if not self.end and self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self, why: str) -> None:
        """Drop the connection with all that was not sent."""
        self._lose(why)

    def _write(self, frame: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)
        self._out_bytes += len(frame)

    def _flush(self) -> None:
        if self._out and not self.end:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            self._transport.write(data)

    def _time_out(self, number: int) -> None:
        request = self._requests.pop(number, None)
        if request is not None:
            request.answered(None)

    # ---- what comes

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        decoder = self._decoder
        try:
            messages = decoder.receive(data)
        except PermanentError as error:
            self._lose(str(error))
            return
        if not self._is_greeted and decoder.info is not None:
            self._greet(decoder.info)
        if decoder.pings:
            decoder.pings = 0
            self._write(PONG)
        if decoder.pongs:
            decoder.pongs = 0
            self._pings = 0
            self._let_in()
        for message in messages:
            received = self._subscriptions.get(message.sid)
            if received is not None:
                received(message)
        if decoder.errors:
            self._complain(decoder.errors)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """What is not taken is counted by `publish`."""

    def resume_writing(self) -> None:
        """See `pause_writing`."""

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not self.ready.done():
            self.ready.set_exception(error)
        self._lose(str(error) if error is not None else "the server has closed it")

    def _greet(self, info: bytes) -> None:
        try:
            said = json.loads(info)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            self._lose(f"the server says {info[:80]!r} of itself, which is no JSON object")
            return
        if said.get("tls_required") and self._transport.get_extra_info("sslcontext") is None:
            self._lose("the server wants TLS, and cluster.tls_ca is not set")
            return
        self._is_greeted = True
        self.info = said
        self._write(connect_frame(json.dumps(self._login).encode()))
        self._write(PING)

    def _let_in(self) -> None:
        if self.ready.done() or self.end:
            return
        self._last_sid += 1
        self._subscriptions[self._last_sid] = self._answer
        self._write(subscribe_frame(self._inbox + b"*", self._last_sid))
        self._ping_timer = self._loop.call_later(self._ping_s, self._ping)
        self.ready.set_result(None)

    def _answer(self, message: NatsMessage) -> None:
        number = message.subject[len(self._inbox) :]
        request = self._requests.pop(int(number), None) if number.isdigit() else None
        if request is not None:
            request.timer.cancel()
            request.answered(None if message.status() == NO_RESPONDERS and not message.data else message)

    def _complain(self, errors: list[str]) -> None:
        said = [error for error in errors if not error.lower().startswith(_HARMLESS)]
        errors.clear()
        if said:
            why = f"the server says: {said[0]}"
            if not self.ready.done():
                self.ready.set_exception(PermanentError(said[0]))
            self._lose(why)

    def _ping(self) -> None:
        if self._pings >= _PINGS:
            self._lose(f"the server does not answer {_PINGS} pings")
            return
        self._pings += 1
        self._write(PING)
        self._ping_timer = self._loop.call_later(self._ping_s, self._ping)

    def _lose(self, why: str) -> None:
        if self.end:
            return
        self.end = why or "it has ended"
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        requests = list(self._requests.values())
        self._requests.clear()
        self._subscriptions.clear()
        for request in requests:
            request.timer.cancel()
            request.answered(None)
        if not self.ready.done():
            self.ready.set_exception(TransientError(self.end))
        elif self.lost is not None:
            self.lost(self.end)
