"""Whether this node has come to the same as the others: digests of vnodes, compared at every 1,024th sequence.

Equal digests are equal tables (`durable/state_machine/machine`). Each beat of a node has its last digest of each vnode.
A node compares it with its own at the same place, as far as it remembers that.

1. A node that differs from half of the members or more, itself counted, is wrong, or cannot know that it is not. It has
   to stop there, and acknowledges nothing more. If it differs from more than half, it is installed again from another.
2. A node that others differ from goes on, and says so: they will stop by themselves.
3. A member counts as it was last compared. One that was not compared yet counts for neither side.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.records.cluster.control import Beat

#: Digests are compared at multiples of this. All nodes of a cluster have the same.
DIGEST_EVERY: Final = 1024
#: Digests of each vnode that a node remembers: it may be ahead of the slowest one by so many.
_REMEMBERED: Final = 256


@dataclass(frozen=True)
class Divergence:
    """Nodes whose digest of a vnode differs from this node's."""

    vnode: int
    nodes: tuple[int, ...]
    #: The place at which the last of them was compared.
    sequence: int
    #: Whether this node has to stop (rule 1).
    must_stop: bool
    #: Whether more than half of the members differ from it: it has to be installed again.
    is_outvoted: bool = False

    def describe(self) -> str:
        """Why this node stops; for people."""
        why = f"its tables of vnode {self.vnode} differ from those of nodes {self.nodes} at {self.sequence}"
        end = "; it is installed again" if self.is_outvoted else ", and there is no majority that says which are right"
        return why + end


class DigestWatch:
    """The digests of one node, and how the other members compare with them."""

    def __init__(self, node: int, vnodes: int) -> None:
        self._node: Final = node
        self._own: Final[list[dict[int, bytes]]] = [{} for _vnode in range(vnodes)]
        self._order: Final[list[deque[int]]] = [deque() for _vnode in range(vnodes)]
        #: By vnode: the members that were compared, at which place, and whether they were equal.
        self._compared: Final[list[dict[int, tuple[int, bool]]]] = [{} for _vnode in range(vnodes)]
        #: Digests that were compared, and how many were different.
        self.compared = 0
        self.different = 0

    def applied(self, vnode: int, sequence: int, digest: bytes) -> None:
        """A record was applied here, and its outcome has this digest."""
        if sequence % DIGEST_EVERY:
            return
        self._own[vnode][sequence] = digest
        self._order[vnode].append(sequence)
        if len(self._order[vnode]) > _REMEMBERED:
            del self._own[vnode][self._order[vnode].popleft()]

    def last(self, vnode: int) -> tuple[int, bytes]:
        """The last place that is compared, and the digest there, for a beat; zeros if there is none yet."""
        if not self._order[vnode]:
            return 0, bytes(16)
        sequence = self._order[vnode][-1]
        return sequence, self._own[vnode][sequence]

    def verdicts(self, vnode: int) -> dict[int, tuple[int, bool]]:
        """The members that were compared: at which place last, and whether they were equal there."""
        return dict(self._compared[vnode])

    def compare(self, beats: Mapping[int, Beat]) -> list[Divergence]:
        """Compare with the last beats of all members that live, by node; this node's own may be among them."""
        for node, beat in beats.items():
            if node != self._node:
                self._compare(node, beat)
        found: list[Divergence] = []
        members = {*beats, self._node}
        for vnode, compared in enumerate(self._compared):
            for gone in compared.keys() - members:
                del compared[gone]
            different = {node: place for node, (place, equal) in compared.items() if not equal}
            if different:
                differ, last = 2 * len(different), max(different.values())
                must_stop, is_outvoted = differ >= len(members), differ > len(members)
                found.append(Divergence(vnode, tuple(sorted(different)), last, must_stop, is_outvoted))
        return found

    def _compare(self, node: int, beat: Beat) -> None:
        for progress in beat.vnodes:
            if progress.vnode >= len(self._own):
                continue
            own = self._own[progress.vnode].get(progress.digest_at)
            before = self._compared[progress.vnode].get(node, (0, True))[0]
            if own is not None and progress.digest_at >= before:
                if progress.digest_at > before:
                    self.compared += 1
                    self.different += own != progress.digest
                self._compared[progress.vnode][node] = (progress.digest_at, own == progress.digest)
