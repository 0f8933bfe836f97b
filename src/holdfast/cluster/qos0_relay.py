"""QoS 0 between nodes: what is published at one is passed on to the others at once, over core NATS, without the log.

    PUBLISH QoS 0 ──▶ clients of this node
                  └─▶ packed with what else came in the same loop iteration ──▶ every other node ──▶ its clients

As QoS 0 promises, at most once: what is sent while there is no connection, or faster than the servers take it, is
dropped, counted and reported. Nothing is acknowledged, repeated or ordered against messages of the log.

    a pack    version u8 = 1 │ node u32 │ messages u32, each u32 bytes and a message record (`records/messages.py`)
              without a place
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from holdfast.model.errors import PermanentError, TransientError
from holdfast.model.message import Message
from holdfast.records.fields import RecordReader, blob, u8, u32
from holdfast.records.messages import decode_message, encode_message

_log = structlog.get_logger()

#: Never change.
VERSION: Final = 1
#: Messages of one pack; a larger message is a pack alone.
PACK_BYTES: Final = 256 * 1024
#: What may wait for the servers; beyond that messages are dropped.
MAX_WAITING_BYTES: Final = 8 << 20

#: Sends a pack to all other nodes. TransientError: there is no connection.
Send = Callable[[bytes], Awaitable[None]]


class Qos0Relay:
    """Requires: the event loop. `run` sends for as long as it is not cancelled."""

    def __init__(
        self, node: int, send: Send, deliver: Callable[[list[Message]], None], dropped: Callable[[int, str], None]
    ) -> None:
        """`deliver` is given what others have sent, `dropped` how many messages did not leave, and why."""
        self._head: Final = u8(VERSION) + u32(node)
        self._node: Final = node
        self._send: Final = send
        self._deliver: Final = deliver
        self._dropped: Final = dropped
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._changed: Final = asyncio.Event()

    def add(self, message: Message) -> None:
        """Pass a message on to the other nodes, soon."""
        encoded = blob(encode_message(message, 0, 0))
        if self._waiting_bytes + len(encoded) > MAX_WAITING_BYTES:
            self._dropped(1, "the servers take QoS 0 messages slower than they come")
            return
        self._waiting.append(encoded)
        self._waiting_bytes += len(encoded)
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            waiting, self._waiting = self._waiting, []
            self._waiting_bytes = 0
            begin = 0
            while begin < len(waiting):
                end = _end_of_pack(waiting, begin)
                try:
                    await self._send(b"".join((self._head, u32(end - begin), *waiting[begin:end])))
                except TransientError as error:
                    self._dropped(end - begin, str(error))
                begin = end

    def received(self, pack: bytes) -> None:
        """A pack of any node. One that cannot be read is passed over, with a warning."""
        try:
            fields = RecordReader(pack, "a pack of QoS 0 messages", VERSION)
            if fields.u32("the node") == self._node:
                return
            count = fields.u32("the messages")
            messages = [decode_message(fields.blob("a message")).message for _message in range(count)]
            fields.end()
        except PermanentError as error:
            _log.warning("a pack of another node cannot be read", why=str(error))
            return
        self._deliver(messages)


def _end_of_pack(encoded: list[bytes], begin: int) -> int:
    """Behind the last message that fits; at least one does."""
    size_bytes = 0
    for index in range(begin, len(encoded)):
        size_bytes += len(encoded[index])
        if size_bytes > PACK_BYTES and index > begin:
            return index
    return len(encoded)
