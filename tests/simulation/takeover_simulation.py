"""Takeovers by chance: several devices share one client id, connect at any node at once, leave and come back.

Some begin anew (clean start), some with a session that ends with its connection. Promised:

    present     Session Present is true exactly if the session of the last connection that was accepted goes on
    newest      the newest connection stays; in the end it is registered, alone
    orphan      when all have left, nobody is registered
    expired     a session whose time has passed is not there
"""

from dataclasses import dataclass
from typing import Final

from holdfast.client.core import ClientCore, SessionOptions
from holdfast.cluster.vnodes.vnode_leader import registration_of
from holdfast.model.time import MILLISECOND_US
from holdfast.records.cluster.rows import RegistrationRow
from holdfast.records.cluster.vnode_keys import vnode_of
from tests.cluster_world import ClusterNode
from tests.simulation.seeded_cluster import Action, SeededCluster
from tests.simulation.sim_client import KEPT_S, SimClient

SHARED: Final = "shared"
DEVICES: Final = ("a", "b", "c")
#: Of a session that ends in the end, and how long that may take: its time, and that of a leader that was lost.
_SHORT_S: Final = 20
_ENDED_S: Final = 90
#: Rounds until every node has found out what happened to it, and is back.
_ROUNDS: Final = 4


@dataclass
class _Attempt:
    """A connection, in the order in which they began."""

    device: SimClient
    node: ClusterNode
    clean_start: bool
    expiry_s: int
    #: CONNACKs of the device before it.
    before: int
    #: Its CONNACK was looked at, or its device has given it up.
    judged: bool = False
    #: What it may find: a session; none.
    may_be: bool = False
    may_be_gone: bool = False
    accepted: bool = False
    #: Its device has left by itself.
    over: bool = False

    def widen(self, other: "_Attempt") -> None:
        """Another connection may have taken effect before this one."""
        self.may_be = self.may_be or other.expiry_s > 0
        self.may_be_gone = self.may_be_gone or other.clean_start or other.expiry_s == 0


class TakeoverSimulation(SeededCluster):
    """One client id and its devices."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        for name in DEVICES:
            self.clients[name] = SimClient(self.world, name, self.story, SessionOptions(client_id=SHARED))
        #: Whether the session may be there, and whether it may not be, for the next connection.
        self._may_be = False
        self._may_be_gone = True
        self._failed: list[ClusterNode] = []
        self._attempts: list[_Attempt] = []
        self._rounds = 0
        self._stuck: object = None

    def actions(self) -> list[Action]:
        return [(self._connect, 6.0), (self._leave, 4.0), (self._look, 10.0), (self._stick, 4.0), (self._silence, 1.0)]

    def let_through(self) -> None:
        """As elsewhere, in the log that counts; but one record is on its way for long."""
        log = self.world.log_of(SHARED)
        while log.held and self.random.random() < 0.8:
            index = self.random.randrange(len(log.held))
            if log.held[index] is not self._stuck:
                self.world.do(lambda index=index: log.arrive(index))  # type: ignore[misc]
        for reading in log.readings():
            if self.random.random() < 0.7:
                self.world.do(lambda reading=reading: log.deliver(reading))  # type: ignore[misc]

    def _silence(self) -> None:
        """The logs do not answer for so long that every claim is given up."""
        for _second in range(20):
            self.world.advance(1)

    def _stick(self) -> None:
        """Another record is on its way for long, and the one before is not any more."""
        held = self.world.log_of(SHARED).held
        self._stuck = self.random.choice(held) if held else None

    # ---- what devices do

    def _connect(self) -> None:
        self._look()
        device = self.clients[self.random.choice(DEVICES)]
        clean_start, expiry_s = self.random.random() < 0.2, self.random.choice([0, KEPT_S, KEPT_S, KEPT_S])
        self._attempt(device, clean_start=clean_start, expiry_s=expiry_s)

    def _attempt(self, device: SimClient, *, clean_start: bool, expiry_s: int) -> None:
        self._go(device)
        # Connections of one millisecond have no order that clients could know of.
        self.world.clock.advance(MILLISECOND_US)
        self.story.append(f"{device.name}: clean start {clean_start}, expiry {expiry_s}")
        device.core = ClientCore(
            SessionOptions(client_id=SHARED, clean_start=clean_start, session_expiry_s=expiry_s, keep_alive_s=0)
        )
        node = self.random.choice(self.alive())
        attempt = _Attempt(device, node, clean_start, expiry_s, len(device.present))
        attempt.may_be, attempt.may_be_gone = self._may_be, self._may_be_gone
        for other in self._attempts:
            if not other.judged:
                other.widen(attempt)
        self._attempts.append(attempt)
        self._may_be = self._may_be or expiry_s > 0
        self._may_be_gone = self._may_be_gone or clean_start or expiry_s == 0
        device.connect(node)

    def _leave(self) -> None:
        self._look()
        self._go(self.clients[self.random.choice(DEVICES)])

    def _go(self, device: SimClient) -> None:
        device.leave()
        for attempt in self._attempts:
            if attempt.device is device:
                attempt.judged = attempt.over = True

    def node_fails(self, node: ClusterNode) -> None:
        self._failed.append(node)

    def _look(self) -> None:
        """Judge the CONNACKs that have come."""
        for attempt in self._attempts:
            attempt.device.read()
            if not attempt.judged and len(attempt.device.present) > attempt.before:
                attempt.judged = True
                attempt.accepted = True
                self._judge_present(attempt, present=attempt.device.present[attempt.before])
        self._check_newest()

    def _check_newest(self) -> None:
        """The last connection that began, if it was let in, stays until its device leaves or its node fails."""
        last = self._attempts[-1] if self._attempts else None
        if last is None or not last.accepted or last.over:
            return
        failed = any(node is last.node for node in self._failed)
        self.check(last.device.node is not None or failed, f"newest: {last.device.name} was sent away")

    def _judge_present(self, attempt: _Attempt, *, present: bool) -> None:
        name = attempt.device.name
        self.story.append(f"{name} was let in, Session Present is {present}")
        if attempt.clean_start:
            self.check(not present, f"present: {name} began anew, and found a session")
        else:
            self.check(attempt.may_be or not present, f"present: {name} found a session that is none")
            self.check(attempt.may_be_gone or present, f"present: {name} found no session")
        # What it left is certain if nobody else has begun to connect since, or may still be on his way.
        if attempt is self._attempts[-1] and all(other.judged or other.device.link is None for other in self._attempts):
            self._may_be, self._may_be_gone = attempt.expiry_s > 0, attempt.expiry_s == 0

    # ---- the end

    def mend_round(self) -> None:
        self._look()
        self.work()
        self.world.lead()  # who writes finds out that its epoch is closed
        self._rounds += 1

    def is_finished(self) -> bool:
        return self._rounds == _ROUNDS

    def judge(self) -> None:
        for client in self.clients.values():
            self._go(client)
        self._check_registered(is_registered=False)
        last = self.clients[DEVICES[0]]
        for expiry_s in (KEPT_S, _SHORT_S):
            self._attempt(last, clean_start=False, expiry_s=expiry_s)
            self.work()
            self._look()
            others = [name for name in DEVICES[1:] if self.clients[name].core.connected]
            self.check(last.core.connected and not others, f"newest: {last.name} is not in alone, but {others}")
            self._check_registered(is_registered=True)
        self._go(last)
        self._check_registered(is_registered=False)
        self.pass_led_time(_ENDED_S)
        self._may_be, self._may_be_gone = False, True
        self._attempt(last, clean_start=False, expiry_s=0)
        self.work()
        self._look()
        self.check(not last.present[-1], "expired: the session is there")
        self.check_digests()

    def _check_registered(self, *, is_registered: bool) -> None:
        """Whether every node has the one registration that there is to be."""
        vnode = vnode_of(SHARED, len(self.world.logs))
        rows = [registration_of(node.tables[vnode], SHARED) for node in self.world.nodes]
        last = self.clients[DEVICES[0]]
        for row in rows:
            registered = row is not None and not row.released_us
            self.check(registered == is_registered, f"orphan: {describe(row)}")
            if is_registered and row is not None and last.node is not None:
                self.check(row.node == last.node.life.node, f"newest: registered is {describe(row)}")


def describe(row: RegistrationRow | None) -> str:
    return "nobody" if row is None else f"connection {row.connection_id} of node {row.node} in epoch {row.epoch}"
