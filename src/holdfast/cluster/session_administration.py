"""What `holdfast sessions` does in a cluster: it asks the nodes that live, over core NATS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from holdfast.cluster.administration import connected, replay_control
from holdfast.cluster.nats.log import NatsOrderedLog
from holdfast.cluster.node_cluster import ClusterOptions
from holdfast.cluster.node_requests import NatsRequests, NodeRequests
from holdfast.cluster.node_service import CLAIMS, KICK, ask_all, past_claims
from holdfast.cluster.registry.claim_history import PastClaim
from holdfast.durable.state_machine.control import all_members
from holdfast.model.clock import Clock


@dataclass(frozen=True)
class KickOutcome:
    """What became of a connection that was to be ended."""

    #: By node: from where the connection came that was closed.
    closed: dict[int, str]
    #: Nodes that live and gave no answer: the connection may be there.
    silent: list[int]


@dataclass(frozen=True)
class ClaimsOfClient:
    """The last claims of a client id."""

    #: Of the node that knows most of them, the newest last.
    claims: list[PastClaim]
    silent: list[int]


async def kick_session(options: ClusterOptions, clock: Clock, session_id: str) -> KickOutcome:
    """End the connection of a session, on whichever node it is. TransientError: no server answers."""
    async with _asking(options, clock) as (requests, nodes):
        answers = await ask_all(requests, nodes, KICK, {"session": session_id})
    closed = {node: str(answer.get("address")) for node, answer in answers.items() if answer.get("address")}
    return KickOutcome(closed, [node for node in nodes if node not in answers])


async def read_claims(options: ClusterOptions, clock: Clock, session_id: str) -> ClaimsOfClient:
    """The last claims of a session, as far as nodes have applied them since their start."""
    async with _asking(options, clock) as (requests, nodes):
        answers = await ask_all(requests, nodes, CLAIMS, {"session": session_id})
    known = [past_claims(answer) for answer in answers.values()]
    # All nodes apply the same claims; one that was restarted knows fewer, one that is behind has not the newest.
    found = {claim.revision or (claim.version, claim.at_us): claim for claims in known for claim in claims}
    claims = sorted(found.values(), key=lambda claim: claim.at_us)
    return ClaimsOfClient(claims, [node for node in nodes if node not in answers])


@asynccontextmanager
async def _asking(options: ClusterOptions, clock: Clock) -> AsyncIterator[tuple[NodeRequests, list[int]]]:
    """Requests, and the nodes that live by the control log."""
    async with connected(options) as (connection, tasks):
        log = await NatsOrderedLog.open(connection, options.streams()[0], tasks, clock)
        try:
            _founded, tables = await replay_control(log)
        finally:
            await log.close()
        nodes = sorted([node for node, member in all_members(tables).items() if member.lives])
        yield NatsRequests(connection, options.name, 0), nodes
