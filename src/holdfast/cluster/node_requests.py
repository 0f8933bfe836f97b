"""Requests from one node to another, beside the logs: over core NATS, at most once, without a promise.

    node A ── ask(B, "begin", body) ──▶ holdfast-<cluster>.node.B.begin ──▶ answer at B
           ◀───────── answer, or None after a time ─────────────────────────┘

What rests on an answer must be right without it: a node that is stopped, cut off or gone gives none. Only nodes have
the credentials to send and to hear on these subjects.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from holdfast.cluster.nats.connection import NatsConnection
from holdfast.model.errors import TransientError

#: Answers a request; must not raise.
Answer = Callable[[bytes], Awaitable[bytes]]


class NodeRequests(Protocol):
    """Requests between the nodes of a cluster."""

    async def ask(self, node: int, what: str, body: bytes, timeout_s: float) -> bytes | None:
        """The answer of a node; None if there is none in time."""

    async def serve(self, what: str, answer: Answer) -> None:
        """Answer such requests to this node from now on, several at a time."""

    async def tell(self, what: str, body: bytes) -> None:
        """Send to every node, this one included, without an answer. TransientError: there is no connection."""

    async def hear(self, what: str, received: Callable[[bytes], None]) -> None:
        """Be told what any node tells all."""


class NatsRequests:
    """`NodeRequests` by shape, over core NATS."""

    def __init__(self, connection: NatsConnection, cluster: str, node: int) -> None:
        """`node` is this node's number; 0 for a program that is no node, and only asks."""
        self._connection: Final = connection
        self._prefix: Final = f"holdfast-{cluster}"
        self._node: Final = node

    async def ask(self, node: int, what: str, body: bytes, timeout_s: float) -> bytes | None:
        try:
            return await self._connection.request(self._subject(node, what), body, timeout_s)
        except TransientError:
            return None

    async def serve(self, what: str, answer: Answer) -> None:
        await self._connection.answer(self._subject(self._node, what), answer)

    async def tell(self, what: str, body: bytes) -> None:
        self._connection.publish(f"{self._prefix}.{what}", body)

    async def hear(self, what: str, received: Callable[[bytes], None]) -> None:
        await self._connection.listen(f"{self._prefix}.{what}", received)

    def _subject(self, node: int, what: str) -> str:
        return f"{self._prefix}.node.{node}.{what}"
