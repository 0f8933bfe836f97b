"""The lock around a takeover, where the registry is eventual: one channel of a client id at a time, if all goes well.

    taker ── lock ──▶ node that leads the vnode ── granted, taken ──▶ taker … ── unlock ──▶

1. The lock is in the memory of the leader. It does not protect the registration: another leader does not know it, and
   a claim counts with or without it. That is what the linear registry has no lock for.
2. A lock whose owner died stays for 30 s. Until then the client id is refused with 0x88.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.cluster.node_requests import NodeRequests
from holdfast.cluster.vnodes.writer import Timers
from holdfast.durable.takeover.registry import Registration
from holdfast.model.clock import Clock
from holdfast.model.errors import PermanentError
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.gossip import (
    GRANTED,
    LOCK,
    NO_LEADER,
    TAKEN,
    UNLOCK,
    LockRequest,
    decode_lock,
    decode_lock_answer,
    encode_lock,
    encode_lock_answer,
)

#: After which a lock counts as left behind.
LEFT_BEHIND_US: Final = 30 * SECOND_US
#: Before a lock that is taken is asked for again.
_AGAIN_S: Final = 0.05
_ANSWER_S: Final = 1.0
#: The kind of request.
LOCKS: Final = "lock"

#: Node, epoch, connection.
_Owner = tuple[int, int, int]


class LeaderLocks:
    """The locks of the vnodes that this node leads."""

    def __init__(self, leads: Callable[[str], bool], clock: Clock) -> None:
        """`leads` tells whether this node leads the vnode of a session."""
        self._leads: Final = leads
        self._clock: Final = clock
        #: By session id: whose, and until when.
        self._taken: Final[dict[str, tuple[_Owner, int]]] = {}

    async def start(self, requests: NodeRequests) -> None:
        await requests.serve(LOCKS, self.answer)

    async def answer(self, body: bytes) -> bytes:
        try:
            request = decode_lock(body)
        except PermanentError:
            return encode_lock_answer(NO_LEADER)
        return encode_lock_answer(self._decide(request))

    def _decide(self, request: LockRequest) -> int:
        session_id, owner = request.session_id, request.channel
        now_us = self._clock.monotonic_us()
        taken = self._taken.get(session_id)
        if request.act == UNLOCK:
            if taken is not None and taken[0] == owner:
                del self._taken[session_id]
            return GRANTED
        if not self._leads(session_id):
            return NO_LEADER
        if taken is not None and taken[0] != owner and taken[1] > now_us:
            return TAKEN
        self._taken[session_id] = (owner, now_us + LEFT_BEHIND_US)
        return GRANTED


class TakeoverLock:
    """A `ClusterLock` of the broker by shape."""

    def __init__(self, requests: NodeRequests, leader_of: Callable[[str], int], clock: Clock, timers: Timers) -> None:
        """`leader_of` is the node that leads the vnode of a session; 0 if none does."""
        self._requests: Final = requests
        self._leader_of: Final = leader_of
        self._clock: Final = clock
        self._timers: Final = timers
        #: By session id: the node that granted the lock.
        self._granted: Final[dict[str, int]] = {}

    async def acquire(self, taker: Registration, patience_s: float) -> bool:
        """Whether the lock is granted within the patience."""
        ends_us = self._clock.monotonic_us() + int(patience_s * SECOND_US)
        body = encode_lock(LockRequest(LOCK, taker.client_id, taker.channel))
        while True:
            leader = self._leader_of(taker.client_id)
            left_s = (ends_us - self._clock.monotonic_us()) / SECOND_US
            if left_s <= 0:
                return False
            answer = await self._requests.ask(leader, LOCKS, body, min(_ANSWER_S, left_s)) if leader else None
            if answer is not None and decode_lock_answer(answer) == GRANTED:
                self._granted[taker.client_id] = leader
                return True
            await self._pause()

    async def release(self, taker: Registration) -> None:
        """Give the lock back. If that is lost on its way, the lock stays until it counts as left behind."""
        leader = self._granted.pop(taker.client_id, 0)
        if leader:
            body = encode_lock(LockRequest(UNLOCK, taker.client_id, taker.channel))
            await self._requests.ask(leader, LOCKS, body, _ANSWER_S)

    async def _pause(self) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timers.call_later(_AGAIN_S, lambda: None if over.done() else over.set_result(None))
        await over
