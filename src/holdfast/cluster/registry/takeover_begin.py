"""Begin between nodes: a takeover asks the node of the old channel to stop it, before the claim.

    taker's node ── BeginRequest ──▶ old node: stops reading and sending, writes the session's progress
                 ◀── begun ───────── when that is applied there

1. Begin saves repetitions; nothing rests on it. No such channel, no answer within a second, an answer that cannot be
   read: all count as begun. The claim fences the old channel, whatever it does.
2. A channel is named by node, epoch, connection and the revision of its claim: numbers of connections are equal on
   different nodes.
3. A channel that is not replaced goes on by itself after 5 s (`broker/connections/channel_freeze.py`).
4. What cannot be begun with is answered with "gone" and counted: an unknown channel, a taker whose epoch is closed, a
   request that cannot be read.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.cluster import failpoints
from holdfast.cluster.node_requests import NodeRequests
from holdfast.durable.takeover.registry import ChannelVersion, NodeLife, Registration
from holdfast.durable.takeover.takeover import TakeoverCounts
from holdfast.model.errors import PermanentError
from holdfast.model.ids import ClientId
from holdfast.records.cluster.begin import (
    BEGUN,
    GONE,
    BeginRequest,
    ChannelName,
    decode_begin,
    decode_begin_answer,
    encode_begin,
    encode_begin_answer,
)

#: How long an answer is waited for.
ANSWER_S: Final = 1.0
#: The kind of request.
BEGIN: Final = "begin"

# Labels of counts.
ASKED_BEGUN: Final = "begun"
ASKED_GONE: Final = "gone"
NO_ANSWER: Final = "no_answer"
SERVED: Final = "served"
SERVED_GONE: Final = "served_gone"
BROKEN: Final = "broken"

#: Stops a channel of this node for a taker, and ends when what it did is applied; False if there is none.
Freeze = Callable[[Registration, ChannelName], Awaitable[bool]]


class TakeoverBegin:
    """Asks other nodes, and answers them."""

    def __init__(
        self,
        life: NodeLife,
        requests: NodeRequests,
        held_revision: Callable[[str], int | None],
        lives: Callable[[int, int], bool],
        counts: TakeoverCounts,
    ) -> None:
        """`held_revision` is that of the claim by which this node holds a session; `lives` tells of a node's epoch."""
        self._life: Final = life
        self._requests: Final = requests
        self._held_revision: Final = held_revision
        self._lives: Final = lives
        self._freeze: Freeze | None = None
        self._counts: Final = counts

    async def start(self, freeze: Freeze) -> None:
        """Answer from now on."""
        self._freeze = freeze
        await self._requests.serve(BEGIN, self.answer)

    async def begin(self, old: Registration, taker: Registration) -> None:
        """Have a channel of another node stopped. Ends within a second or so, whatever happens there."""
        failpoints.reach("begin.asking")
        request = BeginRequest(old.client_id, old.channel, old.revision, taker.channel)
        answer = await self._requests.ask(old.node, BEGIN, encode_begin(request), ANSWER_S)
        if answer is None:
            self._counts.begin(NO_ANSWER)
            return
        try:
            result = decode_begin_answer(answer)
        except PermanentError:
            self._counts.begin(BROKEN)
        else:
            self._counts.begin(ASKED_BEGUN if result == BEGUN else ASKED_GONE)

    async def answer(self, body: bytes) -> bytes:
        """Another node begins a takeover."""
        try:
            request = decode_begin(body)
        except PermanentError:
            self._counts.begin(BROKEN)
            return encode_begin_answer(GONE)
        is_begun = await self._answer(request)
        self._counts.begin(SERVED if is_begun else SERVED_GONE)
        return encode_begin_answer(BEGUN if is_begun else GONE)

    async def _answer(self, request: BeginRequest) -> bool:
        node, epoch, connection = request.old
        if (node, epoch) != (self._life.node, self._life.epoch) or not self._lives(*request.taker[:2]):
            return False
        if self._held_revision(request.session_id) != request.revision or self._freeze is None:
            return False
        version = ChannelVersion(0, 0, 0)  # a channel is frozen by its name
        old = Registration(ClientId(request.session_id), node, connection, version, epoch, request.revision)
        failpoints.reach("begin.asked")
        is_frozen = await self._freeze(old, request.taker)
        failpoints.reach("begin.frozen")
        return is_frozen
