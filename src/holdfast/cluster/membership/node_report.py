"""What a node tells of itself and its cluster below `$SYS/broker/cluster/`."""

from holdfast.cluster.cluster_node import ClusterNode


def cluster_topics(node: ClusterNode) -> dict[str, str]:
    """By the name below `$SYS/broker/`."""
    readiness = node.readiness
    live = node.membership.live()
    found = {
        "node": str(node.life.node),
        "epoch": str(node.life.epoch),
        "ready": "1" if readiness.is_ready else "0",
        "not_ready": "; ".join(readiness.reasons()),
        "clock_skew_ms": str(readiness.skew_us() // 1000),
        "members/live": " ".join(str(number) for number in sorted(live)),
        "members/live/count": str(len(live)),
    }
    for number, applier in enumerate(node.appliers):
        place = applier.place.sequence
        found[f"vnodes/{number}/applied"] = str(place)
        found[f"vnodes/{number}/lag_ms"] = str(readiness.lag_us(number, place) // 1000)
        found[f"vnodes/{number}/leader"] = str(node.leader_of(number))
    found |= {name: str(count) for name, count in node.all_counts().items()}
    return {f"cluster/{name}": value for name, value in found.items()}
