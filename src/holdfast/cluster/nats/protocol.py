"""The client's side of the NATS protocol, without sockets: bytes of a server become messages, calls become bytes.

    from a server                                to a server
    ───────────────────────────────────────────  ────────────────────────────────
    INFO {json}                                  CONNECT {json}
    MSG  subject sid [reply] bytes       payload  PUB subject [reply] bytes  payload
    HMSG subject sid [reply] head bytes  payload  SUB subject sid
    PING   PONG   +OK   -ERR 'text'              UNSUB sid   PING   PONG

1. A call of `receive` may bring any part of any number of frames. What is not complete waits for the next call; of a
   frame it is kept in pieces, and joined once.
2. What waits is bounded: a line of 64 KiB, a payload of 64 MiB. Above that, and for anything that is no frame,
   PermanentError: the connection has to be given up.
3. What a message says is not looked at, but for the status line of its headers.
"""

from typing import Final

from holdfast.model.errors import PermanentError

#: A server's INFO names all servers of the cluster: a few KiB.
_MAX_LINE_BYTES: Final = 64 << 10
_MAX_PAYLOAD_BYTES: Final = 64 << 20
#: A status line begins like this, and goes on with a number and a text.
_STATUS: Final = b"NATS/1.0 "

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"

#: The status of a heartbeat of JetStream, and that of a request that no one hears.
HEARTBEAT: Final = b"100"
NO_RESPONDERS: Final = b"503"


class NatsMessage:
    """A message of a subscription."""

    def __init__(self, subject: bytes, sid: int, reply: bytes, headers: bytes, data: bytes) -> None:
        self.subject: Final = subject
        self.sid: Final = sid
        #: Empty if there is none.
        self.reply: Final = reply
        self.headers: Final = headers
        self.data: Final = data

    def status(self) -> bytes:
        """What the server says itself, in three digits; empty if the message is of another client."""
        headers = self.headers
        return headers[len(_STATUS) : len(_STATUS) + 3] if headers.startswith(_STATUS) else b""

    def description(self) -> bytes:
        """The text behind the status."""
        line, _end, _rest = self.headers.partition(b"\r\n")
        return line[len(_STATUS) + 3 :].strip()


class NatsDecoder:
    """What a server has sent, frame by frame. The caller takes what was found out of the attributes."""

    def __init__(self) -> None:
        self._pieces: Final[list[bytes]] = []
        #: Bytes without which looking again is in vain.
        self._missing = 0
        #: The last INFO; None until there is one.
        self.info: bytes | None = None
        #: How many there were.
        self.pings = 0
        self.pongs = 0
        #: What the server has complained about.
        self.errors: Final[list[str]] = []

    def receive(self, data: bytes) -> list[NatsMessage]:
        """The messages that are complete now. PermanentError: this is no NATS server."""
        if len(data) < self._missing:
            self._pieces.append(data)
            self._missing -= len(data)
            return []
        if self._pieces:
            self._pieces.append(data)
            data = b"".join(self._pieces)
            self._pieces.clear()
        found: list[NatsMessage] = []
        at = self._take_frames(data, found)
        if at < len(data):
            self._pieces.append(data[at:])
        return found

    def _take_frames(self, data: bytes, found: list[NatsMessage]) -> int:
        """Take all complete frames; where the rest begins."""
        at, end = 0, len(data)
        self._missing = 0
        while at < end:
            line_end = data.find(b"\r\n", at)
            if line_end < 0:
                if end - at > _MAX_LINE_BYTES:
                    raise PermanentError(f"a line of a NATS server has more than {_MAX_LINE_BYTES} bytes")
                return at
            line = data[at:line_end]
            begin = line_end + 2
            if line.startswith((b"MSG ", b"HMSG ")):
                words = line.split()
                size = _number(words[-1])
                if size > _MAX_PAYLOAD_BYTES:
                    raise PermanentError(f"a NATS server sends a message of {size} bytes")
                after = begin + size + 2
                if after > end:
                    self._missing = after - end
                    return at
                found.append(_message(words, data, begin, begin + size))
                at = after
            else:
                self._note(line)
                at = begin
        return at

    def _note(self, line: bytes) -> None:
        if line == b"PING":
            self.pings += 1
        elif line == b"PONG":
            self.pongs += 1
        elif line.startswith(b"INFO "):
            self.info = line[5:]
        elif line.startswith(b"-ERR"):
            self.errors.append(line[4:].strip().strip(b"'").decode("utf-8", "replace"))
        elif line != b"+OK":
            raise PermanentError(f"a NATS server sends {line[:40]!r}, which is no frame")


def publish_frame(subject: bytes, reply: bytes, payload: bytes) -> bytes:
    """A message for a subject; `reply` may be empty."""
    if reply:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def subscribe_frame(subject: bytes, sid: int) -> bytes:
    return b"SUB %b %d\r\n" % (subject, sid)


def unsubscribe_frame(sid: int) -> bytes:
    return b"UNSUB %d\r\n" % sid


def connect_frame(options: bytes) -> bytes:
    """`options` are a JSON object."""
    return b"CONNECT %b\r\n" % options


def _message(words: list[bytes], data: bytes, begin: int, end: int) -> NatsMessage:
    """Of `MSG subject sid [reply] bytes` or `HMSG subject sid [reply] head bytes`."""
    has_headers = words[0] == b"HMSG"
    sizes = 2 if has_headers else 1
    count = len(words) - sizes
    if count not in (3, 4):
        raise PermanentError(f"a NATS server sends {b' '.join(words)[:80]!r}, which is no message")
    head = begin + _number(words[-2]) if has_headers else begin
    if head > end:
        raise PermanentError(f"a message of a NATS server has {head - begin} bytes of headers in {end - begin}")
    reply = words[3] if count == 4 else b""
    return NatsMessage(words[1], _number(words[2]), reply, data[begin:head], data[head:end])


def _number(word: bytes) -> int:
    if not word.isdigit() or len(word) > 18:
        raise PermanentError(f"a NATS server sends {word[:40]!r} where a number belongs")
    return int(word)
