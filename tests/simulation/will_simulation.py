"""Wills by chance: clients leave with and without a goodbye, move while their will waits, and lose their nodes.

Every connection has a will of its own. Promised, of each connection that was accepted:

    twice       its will comes once at most
    too many    it does not come behind a goodbye that the node has read, if that node has stayed, and the client
                has not gone to another one before it was accepted again
    missing     it comes if the connection was lost and the client is not back within the delay: at once without a
                delay, and for the last connection of a client in any case
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from holdfast.client.core import ClientCore, SessionOptions
from holdfast.wire.packets import Will
from holdfast.wire.properties import Properties
from tests.cluster_world import ClusterNode
from tests.simulation.seeded_cluster import Action, SeededCluster
from tests.simulation.sim_client import KEPT, KEPT_S, SimClient

DOOMED: Final = ("d1", "d2", "d3")
WATCHER: Final = "w1"
#: Seconds after which every will has come: the delay of one, and the time that a closed node's clients have.
_ALL_DUE_S: Final = 60


@dataclass
class _Connection:
    """One connection of a client, as its client knows it."""

    will: bytes
    node: ClusterNode
    delay_s: int
    #: CONNACK came; the client said goodbye; the network was lost first.
    accepted: bool = False
    parted: bool = False
    lost: bool = False


class WillSimulation(SeededCluster):
    """Clients with wills, and a watcher that receives all of them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.clients[WATCHER] = SimClient(
            self.world, WATCHER, self.story, replace(KEPT, client_id=WATCHER), (b"wills/#", 2)
        )
        self._connections: dict[str, list[_Connection]] = {name: [] for name in DOOMED}
        #: Nodes that were fenced or killed. A fence is on its way for a while, and clients go on connecting.
        self._failed: list[ClusterNode] = []
        self._finished = False
        for name in DOOMED:
            self.clients[name] = SimClient(self.world, name, self.story, KEPT)

    def begin(self) -> None:
        self.clients[WATCHER].connect(self.random.choice(self.world.nodes))
        self.work()
        for _second in range(3):
            self.world.lead()

    def actions(self) -> list[Action]:
        return [(self._come, 7.0), (self._go, 5.0), (self._lead, 5.0), (self._move_watcher, 1.0)]

    # ---- what clients do

    def _come(self) -> None:
        name = self.random.choice(DOOMED)
        client = self.clients[name]
        self._note(name)
        alive = self.alive()
        earlier = self._connections[name]
        delay_s = self.random.choice([0, 5])
        expiry_s = self.random.choice([0, KEPT_S])
        payload = f"{name}-{len(earlier)}".encode()
        will = Will(f"wills/{name}", payload, 2, properties=Properties(will_delay_interval=delay_s or None))
        options = SessionOptions(
            client_id=name, clean_start=False, session_expiry_s=expiry_s, keep_alive_s=0, will=will
        )
        if client.link is not None:
            self._lose(name)
        client.core = ClientCore(options)
        node = self.random.choice(alive)
        self.story.append(f"{name} has the will {payload!r} with delay {delay_s} and expiry {expiry_s}")
        # A will waits no longer than its session [MQTT-3.1.3-9].
        earlier.append(_Connection(payload, node, min(delay_s, expiry_s)))
        client.connect(node)

    def _go(self) -> None:
        name = self.random.choice(DOOMED)
        client = self.clients[name]
        client.read()
        self._note(name)
        if client.core.connected and self.random.random() < 0.5:
            self.story.append(f"{name} says goodbye")
            client.core.disconnect()
            client.flush()
            self._connections[name][-1].parted = True
            client.leave()
        elif client.link is not None:
            self._lose(name)

    def _lose(self, name: str) -> None:
        self.story.append(f"{name} loses its connection")
        self._note(name)
        self._connections[name][-1].lost = True
        self.clients[name].leave()

    def _lead(self) -> None:
        self.world.lead()

    def _move_watcher(self) -> None:
        self.clients[WATCHER].connect(self.random.choice(self.alive()))

    def _note(self, name: str) -> None:
        """Note whether the present connection was accepted."""
        client = self.clients[name]
        if self._connections[name] and client.core.connected:
            self._connections[name][-1].accepted = True

    def node_fails(self, node: ClusterNode) -> None:
        for name in DOOMED:
            self._note(name)
        self._failed.append(node)

    # ---- the end

    def mend_round(self) -> None:
        watcher = self.clients[WATCHER]
        for name in DOOMED:
            self.clients[name].read()
            self._note(name)
            if self.clients[name].link is not None:
                self._lose(name)
        watcher.read()
        if not watcher.core.connected:
            watcher.connect(self.random.choice(self.world.nodes))
        if not self._finished:
            self.work()
            self.pass_led_time(_ALL_DUE_S)
            self._finished = True

    def is_finished(self) -> bool:
        return self._finished and set(self._wills()) <= set(self.clients[WATCHER].received)

    def _wills(self) -> list[bytes]:
        return [payload for payload in self.stored() if payload.startswith(b"d")]

    def judge(self) -> None:
        wills = Counter(self._wills())
        received = Counter(self.clients[WATCHER].received)
        self.check(wills == received, f"the watcher got {received}, published were {wills}")
        for connections in self._connections.values():
            for index, connection in enumerate(connections):
                self._judge_connection(connection, connections[index + 1 :], wills[connection.will])
        self.check_digests()

    def _judge_connection(self, connection: _Connection, later: list[_Connection], count: int) -> None:
        will = connection.will
        node_failed = any(node is connection.node for node in self._failed)
        self.check(count <= 1, f"twice: the will {will!r}")
        if not connection.accepted:
            return
        if connection.parted:
            if not node_failed and not _may_be_overtaken(connection, later):
                self.check(count == 0, f"too many: the will {will!r} behind a goodbye")
        elif not later or (connection.delay_s == 0 and not node_failed):
            self.check(count == 1, f"missing: the will {will!r}")


def _may_be_overtaken(connection: _Connection, later: list[_Connection]) -> bool:
    """Whether a later connection, at another node, may overtake a goodbye, which nobody acknowledges.

    One that was accepted at the same node came behind the goodbye, and so did all that followed it.
    """
    accepted = next((index for index, one in enumerate(later) if one.accepted), len(later))
    return any(one.node is not connection.node for one in later[: accepted + 1])
