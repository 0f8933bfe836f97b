"""How the members of a cluster are, by the tables of its control log: for `holdfast cluster status` and the console."""

from dataclasses import dataclass, field
from typing import Final

from holdfast.model.time import SECOND_US
from holdfast.records.cluster.control_rows import FENCED, LEFT, BeatRow, MemberRow

#: Seconds without a beat after which a member is shown as silent; by then others fence it.
_SILENT_S: Final = 15

LIVE: Final = "live"
SILENT: Final = "silent"


@dataclass(frozen=True)
class MemberStatus:
    """A node that has joined, as the control log has it."""

    node: int
    name: str
    epoch: int
    #: LIVE, SILENT, `fenced` or `left`.
    state: str
    #: Since its last beat, by the clocks of the log and of this machine; None without a beat in this epoch.
    beat_age_s: float | None
    ready: bool
    #: Where it is furthest behind.
    lag_s: float
    connections: int
    #: By vnode.
    applied: dict[int, int]
    synced: dict[int, int]
    addresses: dict[str, str]
    #: By vnode: for how long the record behind the applied one has been in the log.
    lags_s: dict[int, float] = field(default_factory=dict)
    leads: list[int] = field(default_factory=list)
    #: Why it is not ready, in its own words.
    reasons: list[str] = field(default_factory=list)
    #: What it has counted since its start.
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterStatus:
    """The cluster as its logs have it."""

    name: str
    cluster_id: str
    members: list[MemberStatus]
    #: The last sequence of each vnode's log, by vnode.
    last: dict[int, int]
    #: Descriptions of streams that miss a server or a leader.
    streams: list[str]

    def problems(self) -> list[str]:
        """Why the cluster is not ready; empty if it is."""
        found = list(self.streams)
        there = [member for member in self.members if member.state != "left"]
        if not there:
            found.append("no node has joined")
        for member in there:
            why = f": {'; '.join(member.reasons)}" if member.reasons else ""
            if member.state != LIVE:
                found.append(f"node {member.node} is {member.state}{why}")
            elif not member.ready:
                found.append(f"node {member.node} is not ready{why}")
        return found

    def leader(self, vnode: int) -> int:
        """The node that says it leads a vnode; 0 if none does."""
        return next((one.node for one in self.members if one.state == LIVE and vnode in one.leads), 0)


def member_status(node: int, member: MemberRow, row: BeatRow | None, now_us: int) -> MemberStatus:
    """A member by its row and its last beat."""
    age_s = None if row is None else max(0, now_us - row.stamp_us) / SECOND_US
    state = {FENCED: "fenced", LEFT: "left"}.get(member.reason, LIVE)
    if state == LIVE and age_s is not None and age_s > _SILENT_S:
        state = SILENT
    beat = None if row is None else row.beat
    vnodes = () if beat is None else beat.vnodes
    return MemberStatus(
        node,
        member.join.name,
        member.epoch,
        state,
        age_s,
        ready=beat is not None and beat.ready,
        lag_s=0.0 if beat is None else beat.lag_ms / 1000,
        connections=0 if beat is None else beat.connections,
        applied={each.vnode: each.applied for each in vnodes},
        synced={each.vnode: each.synced for each in vnodes},
        addresses=dict(member.join.addresses),
        lags_s={each.vnode: each.lag_ms / 1000 for each in vnodes},
        leads=[each.vnode for each in vnodes if each.leads],
        reasons=[] if beat is None else list(beat.reasons),
        counts={} if beat is None else dict(beat.counts),
    )
