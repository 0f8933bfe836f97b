"""QoS 0 between nodes: what is published at one is passed on to others at once, over core NATS, without the log.

    PUBLISH QoS 0 ──▶ clients of this node
                  └─▶ nodes whose filters match (`filter_exchange.py`), each with its own pack of what came in the same
                      loop iteration ──▶ their clients

As QoS 0 promises, at most once: what is sent while there is no connection, or faster than the servers take it, is
dropped, counted and reported. Nothing is acknowledged, repeated or ordered against messages of the log. A message that
no other node wants is not encoded; one that several want is encoded once.

    a pack    version u8 = 1 │ node u32 │ messages u32, each u32 bytes and a message record (`records/messages.py`)
              without a place
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from holdfast.cluster.filter_exchange import FilterExchange
from holdfast.cluster.nats.connection import NatsConnection
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

#: Sends a pack to another node. TransientError: there is no connection.
Send = Callable[[int, bytes], Awaitable[None]]


async def connect_relay(
    nats: NatsConnection,
    cluster: str,
    node: int,
    others: Callable[[], Iterable[int]],
    deliver: Callable[[list[Message]], None],
    dropped: Callable[[int, str], None],
) -> "tuple[Qos0Relay, FilterExchange]":
    """The relay of a node and the filters that it goes by, on the subjects of a cluster.

    Requires: `run` of both and `keep_time` of the filters are run. TransientError: there is no connection.
    """
    subject = f"holdfast-{cluster}"

    async def tell_filters(news: bytes) -> None:
        nats.publish(f"{subject}.filters", news)

    async def send(to_node: int, pack: bytes) -> None:
        nats.publish(f"{subject}.qos0.{to_node}", pack)

    filters = FilterExchange(node, tell_filters, others)
    relay = Qos0Relay(node, send, filters.nodes_for, deliver, dropped)
    await nats.listen(f"{subject}.filters", filters.received)
    await nats.listen(f"{subject}.qos0.{node}", relay.received)
    nats.on_connected(filters.reconnected)
    return relay, filters


class Qos0Relay:
    """Requires: the event loop. `run` sends for as long as it is not cancelled."""

    def __init__(
        self,
        node: int,
        send: Send,
        nodes_for: Callable[[bytes], tuple[int, ...]],
        deliver: Callable[[list[Message]], None],
        dropped: Callable[[int, str], None],
    ) -> None:
        """`nodes_for` are the nodes that want a topic; `deliver` is given what others have sent, `dropped` how many
        messages did not leave for a node, and why."""
        self._head: Final = u8(VERSION) + u32(node)
        self._node: Final = node
        self._send: Final = send
        self._nodes_for: Final = nodes_for
        self._deliver: Final = deliver
        self._dropped: Final = dropped
        #: Encoded messages by node.
        self._waiting: dict[int, list[bytes]] = {}
        self._waiting_bytes = 0
        self._changed: Final = asyncio.Event()

    def add(self, message: Message) -> None:
        """Pass a message on to the nodes that want it, soon."""
        nodes = self._nodes_for(message.topic)
        if not nodes:
            return
        encoded = blob(encode_message(message, 0, 0))
        if self._waiting_bytes + len(encoded) * len(nodes) > MAX_WAITING_BYTES:
            self._dropped(len(nodes), "the servers take QoS 0 messages slower than they come")
            return
        for node in nodes:
            self._waiting.setdefault(node, []).append(encoded)
        self._waiting_bytes += len(encoded) * len(nodes)
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            waiting, self._waiting = self._waiting, {}
            self._waiting_bytes = 0
            for node, messages in waiting.items():
                await self._send_packs(node, messages)

    async def _send_packs(self, node: int, messages: list[bytes]) -> None:
        begin = 0
        while begin < len(messages):
            end = _end_of_pack(messages, begin)
            try:
                await self._send(node, b"".join((self._head, u32(end - begin), *messages[begin:end])))
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
