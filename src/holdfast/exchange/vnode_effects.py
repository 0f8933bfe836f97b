"""Effects that wait for their vnodes, where the log decides.

A batch is decided in parts, one for each vnode that its sessions belong to. A part has its effects, and is carried out
when its vnode has decided it, whatever other vnodes do:

    batch 7 ─┬─ vnode 0: PUBACK, PUBACK          carried out when vnode 0 is at 7
             └─ vnode 2: SUBACK                  waits: vnode 2 stands still
    batch 8 ─── vnode 0: PUBACK                  carried out when vnode 0 is at 8

1. Parts of one vnode are carried out in the order of their batches. A connection has one session, and a session one
   vnode: so its acknowledgements leave in the order in which their packets came.
2. What belongs to no session waits for no vnode.
3. Each vnode has its share of what may wait. The clients of a vnode that has used it up are not read from; others are.
"""

from collections import deque
from typing import Final

from holdfast.durable.commit import Receipt
from holdfast.exchange.loop_state import SealedBatch
from holdfast.exchange.pending_publish import Effect
from holdfast.model.message import Message
from holdfast.records.cluster.vnode_keys import vnode_of

#: What an effect or a session step takes in memory until it is decided, about.
_CHANGE_BYTES: Final = 200


class BatchPart:
    """What a batch has of the sessions of one vnode."""

    def __init__(self, number: int) -> None:
        #: Of the batch.
        self.number: Final = number
        self.effects: Final[list[Effect]] = []
        #: QoS 0 messages: live clients have them, and the log does not yet.
        self.passed_on: Final[list[Message]] = []
        self.size_bytes = 0


class VnodeEffects:
    """The parts of all batches that are not decided, by vnode."""

    def __init__(self, vnodes: int, max_bytes: int, max_effects: int) -> None:
        """So much may wait in all vnodes together."""
        self._vnodes: Final = vnodes
        self._max_bytes: Final = max_bytes // vnodes
        self._max_effects: Final = max_effects // vnodes
        self._waiting: Final[list[deque[BatchPart]]] = [deque() for vnode in range(vnodes)]
        self._size_bytes: Final = [0] * vnodes
        self._effects: Final = [0] * vnodes
        #: The last batch, and the last one that each vnode has decided.
        self._last = 0
        self._decided: Final = [0] * vnodes
        #: The part that is carried out.
        self._current: BatchPart | None = None
        #: How many vnodes have used up their share.
        self._full_vnodes = 0

    def add(self, sealed: SealedBatch) -> list[Effect]:
        """Have the parts of a batch wait for their vnodes; the effects that wait for none."""
        batch = sealed.batch
        parts: dict[int, BatchPart] = {}
        unbound = BatchPart(batch.number)
        session_id = ""
        part = unbound
        for effect in sealed.effects:
            waits_for = effect.waits_for()
            if waits_for != session_id:  # else as the one before, which is what a client that is pipelining gives
                session_id = waits_for
                part = self._part(parts, session_id, unbound)
            part.effects.append(effect)
            part.size_bytes += _CHANGE_BYTES
        for message in batch.messages:
            if message.publisher != session_id:
                session_id = message.publisher
                part = self._part(parts, session_id, unbound)
            part.size_bytes += len(message.payload) + len(message.topic)
            if message.qos == 0:
                part.passed_on.append(message)
        for step in batch.steps:
            self._part(parts, step.client_id, unbound).size_bytes += _CHANGE_BYTES
        for progress in batch.progress:
            self._part(parts, progress.client_id, unbound).size_bytes += len(progress.value)
        self._last = batch.number
        for vnode, waiting in parts.items():
            self._waiting[vnode].append(waiting)
            self._weigh(vnode, waiting, 1)
        return unbound.effects

    def _part(self, parts: dict[int, BatchPart], session_id: str, unbound: BatchPart) -> BatchPart:
        if not session_id:
            return unbound
        vnode = vnode_of(session_id, self._vnodes)
        part = parts.get(vnode)
        if part is None:
            part = parts[vnode] = BatchPart(unbound.number)
        return part

    def _weigh(self, vnode: int, part: BatchPart, sign: int) -> None:
        was_full = self._is_full(vnode)
        self._size_bytes[vnode] += sign * part.size_bytes
        self._effects[vnode] += sign * len(part.effects)
        self._full_vnodes += int(self._is_full(vnode)) - int(was_full)

    def next_decided(self, receipt: Receipt) -> BatchPart | None:
        """Take the next part that a receipt covers; None if there is no other."""
        self._current = None
        for vnode, number in enumerate(receipt.by_vnode):
            self._decided[vnode] = number
            waiting = self._waiting[vnode]
            if waiting and waiting[0].number <= number:
                part = waiting.popleft()
                self._weigh(vnode, part, -1)
                self._current = part
                return part
        return None

    def is_settled(self) -> bool:
        """Whether every vnode has decided everything."""
        return min(self._decided) == self._last

    def passed_on(self) -> list[Message]:
        """QoS 0 messages that were delivered to live clients, and are not decided yet."""
        found = [] if self._current is None else list(self._current.passed_on)
        for waiting in self._waiting:
            for part in waiting:
                found += part.passed_on
        return found

    # ---- shares

    def any_full(self) -> bool:
        """Whether some vnode has used up its share."""
        return self._full_vnodes > 0

    def is_full(self, session_id: str) -> bool:
        """Whether the vnode of a session has used up its share: nothing more should be taken for it."""
        return self._full_vnodes > 0 and self._is_full(vnode_of(session_id, self._vnodes))

    def _is_full(self, vnode: int) -> bool:
        return self._size_bytes[vnode] > self._max_bytes or self._effects[vnode] > self._max_effects
