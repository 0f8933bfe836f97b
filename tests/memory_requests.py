"""Requests between nodes without a network: answered at once, late, or never, as a test says."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.cluster.node_requests import Answer
from tests.unit.cluster.node_world import FakeTimers


class MemoryNetwork:
    """What all nodes are reached by. Only the loop's owner lets time pass."""

    def __init__(self, timers: FakeTimers) -> None:
        self._timers = timers
        self._answers: dict[tuple[int, str], Answer] = {}
        self._listeners: dict[tuple[int, str], Callable[[bytes], None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        #: Nodes that are reached by nothing: what is asked of them has no answer.
        self.silent: set[int] = set()
        #: Whether a request or a message for all is lost on its way to a node.
        self.is_lost: Callable[[int], bool] = lambda _node: False
        #: Messages for all are on their way until they are delivered by hand: (node, what, body).
        self.hold_told = False
        self.held: list[tuple[int, str, bytes]] = []
        #: What no node answers, as if its old owner were gone: known at once.
        self.unanswered: set[str] = set()
        #: What was asked: (node, what).
        self.asked: list[tuple[int, str]] = []

    def of(self, node: int) -> "MemoryRequests":
        return MemoryRequests(self, node)

    def leave(self, node: int) -> None:
        """A node is gone: no one answers there, and no one listens."""
        for table in (self._answers, self._listeners):
            for key in [key for key in table if key[0] == node]:
                del table[key]

    def deliver(self, index: int = 0) -> None:
        """Let one of the messages for all arrive."""
        node, what, body = self.held.pop(index)
        received = self._listeners.get((node, what))
        if received is not None:
            received(body)

    def deliver_all(self) -> None:
        while self.held:
            self.deliver()

    # ---- for `MemoryRequests`

    def serve(self, node: int, what: str, answer: Answer) -> None:
        self._answers[node, what] = answer

    def hear(self, node: int, what: str, received: Callable[[bytes], None]) -> None:
        self._listeners[node, what] = received

    async def ask(self, node: int, what: str, body: bytes, timeout_s: float) -> bytes | None:
        self.asked.append((node, what))
        answer = self._answers.get((node, what))
        if answer is None or what in self.unanswered:
            return None  # no responder, which is known at once
        done: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def settle(result: bytes | None) -> None:
            if not done.done():
                done.set_result(result)

        async def respond() -> None:
            settle(await answer(body))

        timer = self._timers.call_later(timeout_s, lambda: settle(None))
        if node not in self.silent and not self.is_lost(node):
            task = asyncio.get_running_loop().create_task(respond())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            return await done
        finally:
            timer.cancel()

    def tell(self, sender: int, what: str, body: bytes) -> None:
        for node, named in list(self._listeners):
            if named != what:
                continue
            if node != sender and (node in self.silent or sender in self.silent or self.is_lost(node)):
                continue
            self.held.append((node, what, body))
            if not self.hold_told:
                self.deliver(len(self.held) - 1)


class MemoryRequests:
    """`NodeRequests` by shape: those of one node."""

    def __init__(self, network: MemoryNetwork, node: int) -> None:
        self._network = network
        self._node = node

    async def ask(self, node: int, what: str, body: bytes, timeout_s: float) -> bytes | None:
        if self._node in self._network.silent:
            node = -1
        return await self._network.ask(node, what, body, timeout_s)

    async def serve(self, what: str, answer: Answer) -> None:
        self._network.serve(self._node, what, answer)

    async def tell(self, what: str, body: bytes) -> None:
        self._network.tell(self._node, what, body)

    async def hear(self, what: str, received: Callable[[bytes], None]) -> None:
        self._network.hear(self._node, what, received)
