"""Wrong clocks by chance (A12): the log's, one writer's, or both, by ten minutes or ten years, ahead or behind.

One node of the three has a clock that is not to be trusted; it may lead. A stream whose stamps are wrong gets another
leader within half a minute, as nodes ask for. Promised:

    positions   of each shard increase, in the order of the log
    missed      what is published behind a SUBACK reaches its subscriber, whichever vnode it is stored in
    too early   a session is there for its client within its expiry, less 30 s, and 30 s for each change of the stamps
"""

from dataclasses import replace
from typing import Final

from holdfast.durable.memory_ordered_log import MemoryOrderedLog
from tests.cluster_world import ClusterNode
from tests.simulation.seeded_cluster import Action
from tests.simulation.sim_client import KEPT, SimClient
from tests.simulation.subscription_simulation import SubscriptionSimulation

_S: Final = 1_000_000
_YEARS_S: Final = 10 * 365 * 86_400
_WRONG_S: Final = (600, -600, _YEARS_S, -_YEARS_S)
#: For how long stamps are wrong at most.
_SPELL_S: Final = 20
#: One of each vnode.
GUESTS: Final = ("g1", "g4")
EXPIRY_S: Final = 300
#: How much too early a session may end: by itself, and with each change of a stream's leader.
_EARLY_S: Final = 30


class Guest(SimClient):
    """A client whose session ends a while after it has left."""

    left_us = 0
    changes = 0
    #: Whether there is a session that it may expect.
    has_session = False
    #: Whether its node was closed: the session is offline since then, though the client may not know it yet.
    is_closed = False


class ClockSimulation(SubscriptionSimulation):
    """Publishers and subscribers as there, guests that leave and come back, and clocks that are wrong."""

    # Without delays a record time is that of its record, within the seconds between two ticks.
    holds = False

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._guests = {
            name: Guest(self.world, name, self.story, replace(KEPT, client_id=name, session_expiry_s=EXPIRY_S))
            for name in GUESTS
        }
        self.clients.update(self._guests)
        self._liar = self.random.choice((1, 2, 3))
        #: Changes of the stamps, of all logs.
        self._changes = 0

    def begin(self) -> None:
        super().begin()
        for guest in self._guests.values():
            guest.has_session = True
        self.pass_led_time(10)

    def actions(self) -> list[Action]:
        return [
            *super().actions(),
            (self._pass_a_while, 12.0),
            (self._leave, 8.0),
            (self._return, 8.0),
            (self._wrong_clock, 6.0),
            (self._wrong_stamps, 6.0),
        ]

    # ---- clocks

    def slow_clock(self) -> None:
        """Not here: stamps are changed with a count."""

    def _fault(self) -> None:
        log = self.random.choice(self.world.logs)
        what = self.random.choice(["lose_answers", "lose_appends", "repeat_appends"])
        self.story.append(f"log {self.world.logs.index(log)}: {what}")
        setattr(log, what, 1)

    def _wrong_clock(self) -> None:
        for node in self.alive():
            if node.life.node == self._liar:
                ahead_s = self.random.choice((0, *_WRONG_S))
                self.story.append(f"the clock of node {self._liar} is {ahead_s} s ahead")
                node.clock.be_ahead(ahead_s * _S)

    def _wrong_stamps(self) -> None:
        log = self.random.choice(self.world.logs)
        self._stamp(log, self.random.choice(_WRONG_S))
        for node in self.alive():
            # The server of that node leads the stream, more often than not.
            if node.life.node == self._liar and self.random.random() < 0.6:
                node.clock.be_ahead(log.stamp_offset_us)

    def _stamp(self, log: MemoryOrderedLog, ahead_s: int) -> None:
        if log.stamp_offset_us != ahead_s * _S:
            self._changes += 1
            self.story.append(f"the stamps of log {self.world.logs.index(log)} are {ahead_s} s ahead")
            log.stamp_offset_us = ahead_s * _S

    def _pass_a_while(self) -> None:
        self.pass_led_time(_SPELL_S)
        for log in self.world.logs:
            self._stamp(log, 0)
        seconds = self.random.choice((0, 20, 60))
        self.story.append(f"{_SPELL_S + seconds} s pass")
        self.pass_led_time(seconds)

    # ---- guests

    def _move(self) -> None:
        others = [client for name, client in self.clients.items() if name not in GUESTS]
        self.random.choice(others).connect(self.random.choice(self.alive()))

    def _leave(self) -> None:
        guest = self._guests[self.random.choice(GUESTS)]
        guest.read()
        if guest.core.connected:
            self.story.append(f"{guest.name} leaves")
            guest.leave()
            if not guest.is_closed:
                self._note_left(guest)

    def _note_left(self, guest: Guest) -> None:
        guest.left_us = self.world.clock.monotonic_us()
        guest.changes = self._changes

    def _return(self) -> None:
        name = self.random.choice(GUESTS)
        guest = self._guests[name]
        guest.read()
        if not guest.core.connected:
            self._connect(guest, self.random.choice(self.alive()))

    def _connect(self, guest: Guest, node: ClusterNode) -> None:
        away_s = (self.world.clock.monotonic_us() - guest.left_us) / _S
        early_s = _EARLY_S * (1 + self._changes - guest.changes)
        before = len(guest.present)
        guest.is_closed = False
        guest.connect(node)
        self.work()
        if len(guest.present) > before:
            if guest.has_session and away_s + early_s < EXPIRY_S:
                self.check(guest.present[-1], f"too early: the session of {guest.name} is gone after {away_s} s")
            guest.has_session = True
        elif away_s + early_s >= EXPIRY_S:
            guest.has_session = False

    def node_fails(self, node: ClusterNode) -> None:
        for guest in self._guests.values():
            if guest.node is node and guest.core.connected and not guest.is_closed:
                guest.is_closed = True
                self._note_left(guest)

    # ---- the end

    def is_finished(self) -> bool:
        others = [client for name, client in self.clients.items() if name not in GUESTS]
        return all(client.is_done() for client in others) and not any(self._missed(tuple(self._owed)))

    def judge(self) -> None:
        for vnode in range(len(self.world.logs)):
            places = [message.position_us for message in self.world.nodes[0].messages.of(vnode)]
            self.check(places == sorted(set(places)), f"positions: {places}")
        super().judge()
