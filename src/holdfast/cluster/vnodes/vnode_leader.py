"""What time brings about in a vnode, proposed by the node that leads it: ticks, wills that are due, sessions that end.

    every second   no leader, or one that is silent ──▶ Lead, the node of the lowest rank first
                   this node leads                  ──▶ WillDue, Expire for what is due by this node's clock; borders
                                                        and drops of generations (`generation_rules.py`); horizons of
                                                        retained messages (`retained_compaction.py`)
    every 5 s      this node leads, or has written nothing ──▶ Tick

A leader decides nothing: each proposal has a condition that every node checks where it stands in the log, by the time
of that record. One that comes too early, twice, or from a node that leads no longer changes nothing; what is still due
is proposed again with the next second.
"""

from collections.abc import Callable
from typing import Final

from holdfast.cluster.vnodes.retained_compaction import RetainedCompaction
from holdfast.cluster.vnodes.writer import ItemOutcome, Timers, VnodeWriter
from holdfast.durable.sessions.session_store import SessionStore
from holdfast.durable.state_machine.epochs import OPEN, closed_at
from holdfast.durable.state_machine.leadership import SILENCE_US
from holdfast.durable.state_machine.scope import waits_since
from holdfast.durable.state_machine.tables import CLUSTER, StateTables
from holdfast.durable.takeover.registry import NodeLife
from holdfast.model.clock import Clock
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.items import Expire, Item, Lead, Resign, Tick, WillDue
from holdfast.records.cluster.rows import (
    CLOCK_KEY,
    LEADER_KEY,
    LeaderRow,
    RegistrationRow,
    decode_clock,
    decode_leader,
    decode_registration,
    registration_key,
)
from holdfast.records.session.session_record import SessionRecord

#: Between two ticks.
TICK_US: Final = 5 * SECOND_US
#: A node waits so much longer than the one before it in rank.
RANK_S: Final = 0.2
#: Wills and ends that are proposed with one second, each: what is due beyond that follows with the next.
_MOST: Final = 1000


def registration_of(tables: StateTables, session_id: str) -> RegistrationRow | None:
    """Who is registered under a session id, released or not, as of the last record that was applied."""
    value = tables.get(CLUSTER, registration_key(session_id))
    return None if value is None else decode_registration(value)


def leader_of(tables: StateTables) -> LeaderRow | None:
    """Who leads a vnode, as of the last record that was applied, whether its epoch is closed or not."""
    value = tables.get(CLUSTER, LEADER_KEY)
    return None if value is None else decode_leader(value)


class VnodeLeader:
    """One vnode, on one node. Requires: `tick` once a second."""

    def __init__(
        self,
        life: NodeLife,
        tables: StateTables,
        sessions: SessionStore,
        writer: VnodeWriter,
        clock: Clock,
        timers: Timers,
        due_generations: Callable[[int], list[Item]] = lambda _now_us: [],
        compaction: RetainedCompaction | None = None,
    ) -> None:
        """`sessions` are those of the vnode; `due_generations` what its shards need at a time."""
        self._due_generations: Final = due_generations
        self._compaction: Final = compaction
        #: Whether horizons were written that are not decided yet.
        self._compacts = False
        self._life: Final = life
        self._tables: Final = tables
        self._sessions: Final = sessions
        self._writer: Final = writer
        self._clock: Final = clock
        self._timers: Final = timers
        self._ticked_us = 0
        self._proposed = False
        self._resigned = False
        #: False if this node is behind in the vnode, or another one should lead it.
        self.is_ready = True

    def leads(self) -> bool:
        row = self._leader()
        return row is not None and (row.node, row.epoch) == (self._life.node, self._life.epoch)

    def tick(self, rank: int = 0) -> None:
        """A second has passed. `rank` is this node's place among the live ones."""
        if not self.is_ready:
            return  # who is behind writes no tick, and is replaced
        self._resigned = False
        now_us = self._clock.wall_us()
        leads = self.leads()
        if leads:
            self._propose_due(now_us)
        elif self._is_vacant(now_us) and not self._proposed:
            self._proposed = True
            self._timers.call_later(RANK_S * rank, self._lead)
        if now_us >= self._ticked_us + TICK_US:
            self._ticked_us = now_us
            self._writer.add(Tick())
        self._writer.flush()

    def resign(self) -> None:
        """Have another node lead. Once, until this one is ready again: what is applied here may be behind."""
        if self.leads() and not self._resigned:
            self._resigned = True
            self._writer.add(Resign())
            self._writer.flush()

    def _lead(self) -> None:
        self._proposed = False
        if self._writer.closed:
            return  # the tables may be closed by now, too
        if self.is_ready and self._is_vacant(self._clock.wall_us()):
            self._writer.add(Lead())
            self._writer.flush()

    def _leader(self) -> LeaderRow | None:
        return leader_of(self._tables)

    def _is_vacant(self, now_us: int) -> bool:
        """Whether no node seems to lead. The log knows better, by its own time."""
        row = self._leader()
        if row is None or closed_at(self._tables, row.node, row.epoch) != OPEN:
            return True
        return now_us >= row.tick_us + SILENCE_US

    def _propose_due(self, now_us: int) -> None:
        for item in [*self._due_wills(now_us), *self._ended(now_us), *self._due_generations(now_us)]:
            self._writer.add(item)
        self._compact()

    def _compact(self) -> None:
        """Propose horizons, unless others are on their way: in a vnode that stands still they would pile up."""
        horizons = [] if self._compaction is None or self._compacts else self._compaction.due()
        for number, horizon in enumerate(horizons, 1):
            self._compacts = True
            self._writer.add(horizon, self._compacted if number == len(horizons) else None)

    def _compacted(self, _outcome: ItemOutcome) -> None:
        self._compacts = False

    def _due_wills(self, now_us: int) -> list[Item]:
        found: list[Item] = []
        leaps = self._leaps()
        for due_us, session_id in self._sessions.waiting_wills(0, "", _MOST):
            row = registration_of(self._tables, session_id)
            if due_us <= now_us and row is not None and row.released_us:
                record = self._tables.session(session_id) if leaps else None
                if record is None or _has_come(record, due_us, leaps, now_us):
                    found.append(WillDue(session_id, row.revision))
        return found

    def _ended(self, now_us: int) -> list[Item]:
        found: list[Item] = []
        leaps = self._leaps()
        for session_id in self._sessions.expiring(now_us, _MOST):
            record = self._tables.session(session_id)
            if record is None or record.ends_us() < 0:
                continue
            if _has_come(record, record.ends_us(), leaps, now_us):
                found.append(Expire(session_id, record.ends_us()))
        return found

    def _leaps(self) -> tuple[tuple[int, int], ...]:
        value = self._tables.get(CLUSTER, CLOCK_KEY)
        return () if value is None else decode_clock(value).leaps


def _has_come(record: SessionRecord, at_us: int, leaps: tuple[tuple[int, int], ...], now_us: int) -> bool:
    """Whether a time that an offline session waits for has come, as the rules of the state machine count it."""
    return at_us + waits_since(record.disconnected_us, leaps) - record.disconnected_us <= now_us
