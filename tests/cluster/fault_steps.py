"""The pairs of the fault suite: who is killed, and at which step; and how each step is brought about.

    victim ──▶ which processes die      step ──▶ at which node it is seen (the witness), and by which failpoint

A broker that is to die and comes to the step itself kills itself there. In all other cases the witness stops at the
step, the victims are killed, and the witness goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from holdfast.cluster.nats.streams import stream_info
from tests.cluster.fault_cluster import NODES, FaultCluster
from tests.cluster.fault_load import FaultLoad, Homed

PUBLISHER, SUBSCRIBER, LEADER = "publisher's broker", "subscriber's broker", "vnode leader"
LEADER_SERVER, FOLLOWER_SERVER = "stream leader's server", "stream follower's server"
TWO_SERVERS, ALL_SERVERS, ALL_BROKERS = "two servers", "all servers", "all brokers"
VICTIMS = (PUBLISHER, SUBSCRIBER, LEADER, LEADER_SERVER, FOLLOWER_SERVER, TWO_SERVERS, ALL_SERVERS, ALL_BROKERS)

#: Moments of a step that is a record, by repetition: at the node that writes it, and at another one.
_WRITTEN = ("sending", "answered", "applied")
_APPLIED = ("applied", "told", "applied")
#: Steps that only the leader of a vnode proposes.
_OF_LEADER = ("assign", "will", "border", "drop")
_POINTS = {
    "begin": ("begin.asking", "begin.asked", "begin.frozen"),
    "open": ("open.claimed", "open.covered", "open.claimed"),
    "trim": ("trim.sending", "trim.done", "trim.sending"),
    "install": ("install.piece", "install.copied", "install.begun"),
}
#: A step comes so soon after it was asked for, or the run has failed.
_REACHED_S = 90.0
_LOOK_S = 0.005


@dataclass(frozen=True)
class Roles:
    """Who is who when a run begins: nodes by number, servers by name."""

    leader: int
    publisher: int
    subscriber: int
    stream_leader: str
    followers: list[str]

    def brokers(self, victim: str) -> list[int]:
        if victim == ALL_BROKERS:
            return list(range(1, NODES + 1))
        return {PUBLISHER: [self.publisher], SUBSCRIBER: [self.subscriber], LEADER: [self.leader]}.get(victim, [])

    def servers(self, victim: str) -> list[str]:
        return {
            LEADER_SERVER: [self.stream_leader],
            FOLLOWER_SERVER: self.followers[:1],
            TWO_SERVERS: [self.stream_leader, self.followers[0]],
            ALL_SERVERS: [self.stream_leader, *self.followers],
        }.get(victim, [])


@dataclass(frozen=True)
class Plan:
    """Which node is to come to which point."""

    witness: int
    point: str


def plan(victim: str, step: str, repetition: int, roles: Roles) -> Plan:
    """A broker that is to die sees the step itself wherever it can."""
    brokers = roles.brokers(victim)
    own = brokers[0] if len(brokers) == 1 else roles.publisher
    if step == "trim":
        return Plan(roles.leader, _POINTS[step][repetition])
    if step in ("begin", "open", "install"):
        # It asks or is asked; it opens the session; it is installed.
        return Plan(own, _POINTS[step][repetition])
    if step in ("claim", "release"):
        return Plan(own, f"{step}.{_WRITTEN[repetition]}")
    writer = {"append": roles.publisher, "inflight": roles.subscriber}.get(step, roles.leader)
    witness = brokers[0] if len(brokers) == 1 else writer
    moments = _WRITTEN if witness == writer else _APPLIED
    return Plan(witness, f"{step}.{moments[repetition]}")


class Steps:
    """Brings steps about, until the witness has come to its point."""

    def __init__(self, cluster: FaultCluster, load: FaultLoad) -> None:
        self._cluster = cluster
        self._load = load
        self._by_name: dict[str, Callable[[int], Awaitable[None]]] = {
            "append": self._nothing,
            "inflight": self._nothing,
            "assign": self._nothing,
            "claim": self._visits,
            "release": self._visits,
            "open": self._moves,
            "begin": self._takeovers,
            "will": self._wills,
            "border": self._rotates,
            "drop": self._rotates,
            "trim": self._pumps,
            "install": self._installs,
        }

    def names(self) -> list[str]:
        return list(self._by_name)

    async def reach(self, step: str, at: Plan, action: str) -> None:
        """Have a node come to a point. TimeoutError: it does not."""
        node = self._cluster.nodes[at.witness - 1]
        node.arm(action, at.point)
        work = asyncio.ensure_future(self._by_name[step](at.witness))
        try:
            async with asyncio.timeout(_REACHED_S):
                while not node.has_reached():
                    if work.done():
                        work.result()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise TimeoutError(f"node {at.witness} did not come to {at.point} within {_REACHED_S:g} s") from None
        finally:
            node.disarm()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._load.rotating.going.clear()
            for pump in self._load.pumps:
                pump.going.clear()

    # ---- steps

    async def _nothing(self, witness: int) -> None:
        """Publishers and subscribers do it all the time."""
        await asyncio.Event().wait()

    async def _visits(self, witness: int) -> None:
        while True:
            visitor = self._load.visit(witness)
            await self._load.until(visitor.is_online, f"{visitor.name} connects")
            self._load.send_away()
            await asyncio.sleep(0.2)

    async def _moves(self, witness: int) -> None:
        """A session with a past comes from another node."""
        while True:
            for node in (witness % NODES + 1, witness):
                await self._load.homed({self._load.mover: node})

    async def _takeovers(self, witness: int) -> None:
        """Two connections of one client id, at two nodes: each takes over from the other, again and again."""
        first = self._load.visit(witness)
        await self._load.until(first.is_online, "the first connection")
        self._load.visit(witness % NODES + 1, name=first.name)
        await asyncio.Event().wait()

    async def _wills(self, witness: int) -> None:
        """A client without a broker that is to die leaves without a word."""
        while True:
            visitor = self._load.visit(witness % NODES + 1, will_delay_s=1)
            await self._load.until(visitor.is_online, f"{visitor.name} connects")
            self._load.die(visitor)
            await asyncio.sleep(5)

    async def _rotates(self, witness: int) -> None:
        self._load.rotating.going.set()
        await asyncio.Event().wait()

    async def _installs(self, witness: int) -> None:
        """A node comes back with nothing, and the logs do not begin at their beginning."""
        for pump in self._load.pumps:
            pump.going.set()
        async with self._cluster.servers.connected() as connection:
            first = 1
            while first == 1:
                await asyncio.sleep(0.2)
                first = (await stream_info(connection, self._cluster.streams[1]))["state"]["first_seq"]
        for pump in self._load.pumps:
            pump.going.clear()
        await self._cluster.wipe(witness)
        await asyncio.Event().wait()

    async def _pumps(self, witness: int) -> None:
        for pump in self._load.pumps:
            pump.going.set()
        await asyncio.Event().wait()


def homes(load: FaultLoad, roles: Roles) -> dict[Homed, int]:
    """Which client is where when a run begins."""
    rest = next(node for node in range(1, NODES + 1) if node not in (roles.publisher, roles.subscriber))
    found: dict[Homed, int] = dict.fromkeys(load.publishers[:2], roles.publisher)
    found[load.publishers[2]] = rest
    found |= dict.fromkeys(load.subscribers[:2], roles.subscriber)
    return found
