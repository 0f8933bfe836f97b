"""What a node tells of its cluster by the control socket: members, vnodes, digests, and who took over from whom.

It is read from the tables of this node and from its memory: no other node, and no server, is asked.
"""

from dataclasses import asdict

import msgspec

from holdfast.cluster.cluster_node import ClusterNode
from holdfast.cluster.registry.claim_history import PastClaim
from holdfast.control.words import ClusterInfo, DigestInfo, MemberInfo, TakeoverInfo, TakeoverRows
from holdfast.model.time import SECOND_US

#: Bytes of session ids in one answer: a frame has to hold them.
_MAX_NAMES = 512 * 1024


def view_cluster(node: ClusterNode) -> ClusterInfo:
    status = node.describe_members()
    vnodes = range(len(node.appliers))
    return ClusterInfo(
        name=status.name,
        cluster_id=status.cluster_id,
        node=node.life.node,
        epoch=node.life.epoch,
        clock_skew_s=node.readiness.skew_us() / SECOND_US,
        members=tuple(msgspec.convert(asdict(member), MemberInfo) for member in status.members),
        last=status.last,
        leaders={vnode: node.leader_of(vnode) for vnode in vnodes},
        digests=tuple(
            DigestInfo(vnode, other, sequence, equal)
            for vnode in vnodes
            for other, (sequence, equal) in sorted(node.digest_verdicts(vnode).items())
        ),
        problems=tuple(status.problems()),
    )


def view_takeovers(node: ClusterNode, session_id: str = "") -> TakeoverRows:
    """The last takeovers, or all claims of one session that are known here."""
    claims = node.claims
    found = [(session_id, claim) for claim in claims.of(session_id)] if session_id else claims.takeovers()
    shown: list[TakeoverInfo] = []
    names = 0
    for name, claim in reversed(found):
        names += len(name.encode())
        if names > _MAX_NAMES and shown:
            break
        shown.append(_takeover(name, claim))
    return TakeoverRows(tuple(shown))


def _takeover(session_id: str, claim: PastClaim) -> TakeoverInfo:
    return TakeoverInfo(session_id, **asdict(claim))
