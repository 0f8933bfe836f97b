"""What every simulation of a cluster has: three nodes over two vnodes, faults of logs and nodes, and the mending.

Every choice comes from one seed, so that a run can be told again. A simulation adds its clients, what they do, and what
was promised to them.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from holdfast.cluster.registry.takeover_begin import BEGIN
from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from holdfast.durable.state_machine.record_time import MAX_LEAP_US
from tests.cluster_world import ClusterNode, ClusterWorld
from tests.simulation.sim_client import SimClient

STEPS: Final = 200
#: Of so many seeds one has takeovers that begin with the old channel, or wait for a node that does not answer. In the
#: others no node answers, and the claim follows at once: begin makes fewer things happen at the same time.
BEGIN_EVERY: Final = 4
#: Rounds of mending: each brings back nodes and clients, and delivers everything that waits.
_ROUNDS: Final = 60

#: What may happen with a step, and how often.
Action = tuple[Callable[[], None], float]


class ViolationError(AssertionError):
    """A promise was broken; the story tells how."""


class SeededCluster:
    """One seed, from the first record to the judgement."""

    #: Whether records and readers of logs wait until chance lets them through.
    holds: bool = True

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.story: list[str] = []
        self.random = Random(seed)
        self.world = ClusterWorld()
        if seed % BEGIN_EVERY:
            self.world.network.unanswered.add(BEGIN)
        else:
            lost = Random(seed)
            self.world.network.is_lost = lambda _node: lost.random() < 0.2
        self.clients: dict[str, SimClient] = {}

    def run(self) -> None:
        """ViolationError if a promise was broken, or a node failed in a way that no fault explains."""
        try:
            self._run()
        except ViolationError:
            raise
        except Exception as error:
            raise ViolationError("\n".join([f"seed {self.seed}: {error!r}", *self.story])) from error

    def _run(self) -> None:
        with self.world:
            self.begin()
            for log in self.world.logs:
                log.hold_appends = log.hold_reads = self.holds
            actions = [
                (self.let_through, 50.0),
                (self._read, 30.0),
                *self.actions(),
                (self._pass_time, 4.0),
                (self._fault, 2.0),
                (self._fate, 1.5),
            ]
            names, weights = zip(*actions, strict=True)
            for _step in range(STEPS):
                self.random.choices(names, weights)[0]()
            self._mend()
            for client in self.clients.values():
                self.check(not client.errors, f"{client.name} was told {client.errors}")
            self.judge()

    # ---- what a simulation adds

    def begin(self) -> None:
        """What happens before anything goes wrong."""

    def actions(self) -> list[Action]:
        """What clients do."""
        raise NotImplementedError

    def mend_round(self) -> None:
        """Everything works again: have every client connected, and what it waits for finished."""
        for client in self.clients.values():
            client.read()
            if not client.core.connected and self.random.random() < 0.7:
                client.connect(self.random.choice(self.world.nodes))

    def is_finished(self) -> bool:
        """Whether mending has come to its end."""
        raise NotImplementedError

    def judge(self) -> None:
        """Look at what was promised."""
        raise NotImplementedError

    # ---- for simulations

    def alive(self) -> list[ClusterNode]:
        return [node for node in self.world.nodes if not node.dead]

    def work(self) -> None:
        for _turn in range(4):
            for client in list(self.clients.values()):
                client.read()

    def pass_led_time(self, seconds: int) -> None:
        """Let seconds pass, with what leaders do every now and then."""
        for _part in range(seconds // 5):
            self.world.advance(4)
            self.world.lead()

    def slow_clock(self) -> None:
        """The time of one vnode stands still for as long as it may, and that of the other goes on."""
        self.slow_stamps(self.random.choice(self.world.logs))

    def slow_stamps(self, slow: MemoryOrderedLog) -> None:
        for log in self.world.logs:
            log.stamp_offset_us = -MAX_LEAP_US + 1 if log is slow else 0
        self.world.advance(1)

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            raise ViolationError("\n".join([f"seed {self.seed}: {what}", *self.story]))

    def check_digests(self) -> None:
        digests = self.world.digests()
        self.check(all(other == digests[0] for other in digests), "digests differ")

    def stored(self) -> list[bytes]:
        """The payloads of all stored messages, vnode by vnode."""
        vnodes = range(len(self.world.logs))
        return [message.payload for vnode in vnodes for message in self.world.nodes[0].messages.of(vnode)]

    # ---- what happens to logs and nodes

    def _fault(self) -> None:
        log = self.random.choice(self.world.logs)
        what = self.random.choice(["lose_answers", "lose_appends", "repeat_appends", "clock"])
        self.story.append(f"log {self.world.logs.index(log)}: {what}")
        if what == "clock":
            log.stamp_offset_us = self.random.choice([0, 600_000_000, -600_000_000])
        else:
            setattr(log, what, 1)

    def _read(self) -> None:
        for client in list(self.clients.values()):
            if self.random.random() < 0.7:
                client.read()

    def _pass_time(self) -> None:
        self.world.advance(self.random.choice([0.1, 1, 3, 11]))

    def _fate(self) -> None:
        """A node is fenced, killed, or comes back."""
        node = self.random.choice(self.world.nodes)
        if node.dead:
            self.story.append(f"node {node.life.node} comes back")
            self.world.start(node.life.node)
        elif self.random.random() < 0.5:
            self.story.append(f"node {node.life.node} is fenced")
            self.node_fails(node)
            node.fence()
        elif len(self.alive()) > 1:
            self.story.append(f"node {node.life.node} is killed")
            self.node_fails(node)
            node.kill()

    def node_fails(self, node: ClusterNode) -> None:
        """A node is about to be fenced or killed."""

    def chosen_log(self) -> MemoryOrderedLog:
        """The log in which something goes on."""
        return self.random.choice(self.world.logs)

    def let_through(self) -> None:
        """Something that waits in a log goes on."""
        log = self.chosen_log()
        while log.held and self.random.random() < 0.8:
            self.world.do(lambda: log.arrive(self.random.randrange(len(log.held))))
        for reading in log.readings():
            if self.random.random() < 0.7:
                limit = self.random.choice([0, 0, 1])
                self.world.do(lambda reading=reading, limit=limit: log.deliver(reading, limit))  # type: ignore[misc]

    # ---- the end

    def _mend(self) -> None:
        self.story.append("everything is mended")
        world = self.world
        for log in world.logs:
            log.hold_appends = log.hold_reads = False
            log.lose_answers = log.lose_appends = log.repeat_appends = log.stamp_offset_us = 0
            while log.held:
                world.do(log.arrive)
            for reading in log.readings():
                world.do(lambda log=log, reading=reading: log.deliver(reading))  # type: ignore[misc]
        for _round in range(_ROUNDS):
            self._restart_nodes()
            world.advance(3)
            self.mend_round()
            self.work()
            if self.is_finished():
                break
        self.work()

    def _restart_nodes(self) -> None:
        """Nodes that are dead, or find that their epoch is closed, begin another life."""
        for node in list(self.world.nodes):
            if node.dead or any(writer.closed for writer in node.writers):
                if not node.dead:
                    node.kill()
                self.world.start(node.life.node)
