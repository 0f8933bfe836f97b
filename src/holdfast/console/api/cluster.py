"""The cluster of the node: members, vnodes, digests, registry paths, and who took over from whom."""

import msgspec

from holdfast.console.web.endpoints import Call, Endpoint, Parameter
from holdfast.control.words import ClusterInfo, Nothing, TakeoverInfo, TakeoverRows, TakeoversRequest
from holdfast.model.roles import VIEWER

_NO_CLUSTER = "The broker is a single node."
_STARTING = "The broker is starting."


class TakeoverPage(msgspec.Struct, frozen=True):
    as_of_us: int
    #: The newest first.
    items: tuple[TakeoverInfo, ...]


async def cluster(call: Call) -> ClusterInfo:
    found = await call.console.link.request("cluster", Nothing())
    assert isinstance(found, ClusterInfo)
    return found


async def takeovers(call: Call) -> TakeoverPage:
    found = await call.console.link.request("takeovers", TakeoversRequest(call.parameters.get("client", "")))
    assert isinstance(found, TakeoverRows)
    return TakeoverPage(call.console.clock.wall_us(), found.items)


ENDPOINTS = (
    Endpoint(
        "GET",
        "cluster",
        VIEWER,
        cluster,
        "The cluster as this node knows it: members, how far each is in each vnode, leaders, digests, counts.",
        answer=ClusterInfo,
        missing=_NO_CLUSTER,
        conflicts=_STARTING,
    ),
    Endpoint(
        "GET",
        "cluster/takeovers",
        VIEWER,
        takeovers,
        "The last takeovers and refused connections, the newest first; of one client, each of its last connections.",
        (Parameter("client", "Of this session: the client id, behind a mount point with that in front."),),
        answer=TakeoverPage,
        missing=_NO_CLUSTER,
        conflicts=_STARTING,
    ),
)
