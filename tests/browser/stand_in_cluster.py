"""A cluster of three nodes, as the node says whose page is tested. In the structs of the control socket."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.control.words import ClusterInfo, DigestInfo, MemberInfo, TakeoverInfo
from tests.browser.stand_in_data import NOW_US

_VNODES: Final = 8
_APPLIED: Final = 481_207
_DIGEST: Final = 480_256


def _member(node: int, **more: Any) -> MemberInfo:
    vnodes = range(_VNODES)
    member = MemberInfo(
        node=node,
        name=f"plant-{node}",
        epoch=3 + node,
        state="live",
        beat_age_s=0.4,
        ready=True,
        lag_s=0.02,
        connections=3_300 + node,
        applied={vnode: _APPLIED + 10 * vnode for vnode in vnodes},
        synced=dict.fromkeys(vnodes, _APPLIED),
        addresses={"mqtt": f"10.0.0.{node}:1883"},
        lags_s=dict.fromkeys(vnodes, 0.0),
        leads=tuple(vnode for vnode in vnodes if vnode % 3 == node - 1),
        reasons=(),
        counts={"registry/happy_ending": 9_000 + node, "registry/most_expensive": 2, "records/applied": 4_100_000},
    )
    return msgspec.structs.replace(member, **more)


#: Node 3 is behind in one vnode, and differs in another.
CLUSTER: Final = ClusterInfo(
    name="plant",
    cluster_id="5f1d0c2e9ab34c77",
    node=1,
    epoch=4,
    clock_skew_s=-0.012,
    members=(
        _member(1),
        _member(2),
        _member(3, ready=False, lag_s=14.2, lags_s={5: 14.2}, reasons=("14 s behind in vnode 5",)),
    ),
    last={vnode: _APPLIED + 10 * vnode for vnode in range(_VNODES)},
    leaders={vnode: (vnode % 3) + 1 if vnode != 7 else 0 for vnode in range(_VNODES)},
    digests=tuple(
        DigestInfo(vnode, node, _DIGEST, equal=(vnode, node) != (2, 3)) for vnode in range(_VNODES) for node in (2, 3)
    ),
    problems=("node 3 is not ready: 14 s behind in vnode 5",),
)

_HOSTILE: Final = "<img src=x onerror=alert(1)>"
TAKEOVERS: Final = (
    TakeoverInfo("press-00004", NOW_US - 3_000_000, 2, 91, "10.2.91", True, 7, "connection 40 of node 1"),
    TakeoverInfo(_HOSTILE, NOW_US - 9_000_000, 3, 17, "10.3.17", False, 0, "connection 18 of node 2"),
    TakeoverInfo("press-00004", NOW_US - 60_000_000, 1, 40, "10.1.40", True, 6, ""),
)


def show_cluster(cluster: ClusterInfo) -> Any:
    return msgspec.json.decode(msgspec.json.encode(cluster))


def show_takeovers(client: str) -> Any:
    found = [one for one in TAKEOVERS if (one.session_id == client if client else one.other)]
    return {"as_of_us": NOW_US, "items": msgspec.json.decode(msgspec.json.encode(found))}
