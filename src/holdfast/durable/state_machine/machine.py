"""The state machine: (tables, entry of the log) → outcome. The same on every node, whatever it remembers.

    rule                                                                                              where
    ────  ──────────────────────────────────────────────────────────────────────────────────────────  ────────────────
     1    no record of this cluster is passed over; one of ours that cannot be read stops the applier   here
     2    a closed or an earlier epoch of the writer: rejected; a higher one closes those below         epochs.py
     3    not the writer's next number: a repetition is passed over, a gap is rejected                  epochs.py
     4    record time                                                                                   record_time.py
     5    an item of a session counts if its writer holds the session; else the session is fenced       channels.py
     6    a claim                                                                                       channels.py
     7    a release; a read                                                                             channels.py
     8    wills and expiry                                                                              channels.py
     9    closed epochs                                                                                 epochs.py
    10    the leader                                                                                    leadership.py
    11    generations                                                                                   shards.py
    12    positions, serials, zones                                                                     shards.py

1. Inside the rules there is no clock, setting, file, other log, order of a set or statistic of a database.
2. A record that does not count (FOREIGN, CLOSED_EPOCH, REPEATED, GAP) changes nothing, not even the time or an epoch;
   only the applied sequence and the digest go on.
3. Items are decided one after the other; each sees what the ones before it have changed. Every prefix of a record's
   items leaves tables that can be loaded.
4. Behind an item that closes the epoch of the record's own writer, nothing of the record counts; reads are answered.
5. The digest chains the checksum of every entry with its verdict, its record time, which items were accepted, the
   places of messages, and every change in its order. Nodes with equal digests have equal tables.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final
from zlib import crc32

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.durable.state_machine.channels import Channels
from holdfast.durable.state_machine.decisions import Decisions, stored_zones
from holdfast.durable.state_machine.epochs import OPEN, judge_record
from holdfast.durable.state_machine.leadership import Leadership
from holdfast.durable.state_machine.outcome import APPLIED, FOREIGN, VERDICTS, Outcome
from holdfast.durable.state_machine.record_time import advance_clock
from holdfast.durable.state_machine.scope import Scope
from holdfast.durable.state_machine.shards import Shards
from holdfast.durable.state_machine.step_items import session_step
from holdfast.durable.state_machine.tables import CLUSTER, StateTables, TableChanges
from holdfast.durable.zones import Zones
from holdfast.model.errors import MisuseError
from holdfast.records.cluster.items import (
    Assign,
    Border,
    ChangeSettings,
    Claim,
    Closed,
    DropGeneration,
    Expire,
    Holders,
    Horizon,
    Item,
    Lead,
    Level,
    MessageItem,
    ReadRegistration,
    Release,
    Resign,
    Tick,
    Unassign,
    WillDue,
)
from holdfast.records.cluster.record import CHECK_BYTES, ClusterRecord, decode_record, is_ours
from holdfast.records.cluster.rows import (
    APPLIED_KEY,
    CLOCK_KEY,
    DIGEST_BYTES,
    SETTINGS_KEY,
    AppliedRow,
    ClockRow,
    decode_applied_row,
    decode_clock,
    encode_applied_row,
    encode_clock,
)
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.fields import i64, u8, u32

#: Of a published message: index, shard, position, serial, version. In digests: never change.
_pack_place: Final = Struct("<HHqQq").pack

#: What a vnode without records has applied.
NOTHING_APPLIED: Final = AppliedRow(0, 0, bytes(DIGEST_BYTES))


def applied_row(tables: StateTables) -> AppliedRow:
    """The last entry that is in the tables."""
    value = tables.get(CLUSTER, APPLIED_KEY)
    return NOTHING_APPLIED if value is None else decode_applied_row(value)


def checksum_of(record: bytes, cluster_id: bytes) -> int:
    """The checksum under which an entry with these bytes is noted as applied, whether it can be read or not."""
    return crc32(record[:-CHECK_BYTES] if is_ours(record, cluster_id) else record)


class StateMachine:
    """Decides the entries of one vnode's log. It remembers nothing but the zones, which it reads from the tables."""

    def __init__(self, cluster_id: bytes, tables: StateTables) -> None:
        self._cluster_id: Final = cluster_id
        self._tables: Final = tables
        #: The settings row that the zones were built from.
        self._settings: bytes | None = None
        self._zones: Zones | None = None

    def apply(self, entry: LogEntry) -> Outcome:
        """Decide the next entry of the log.

        Requires: it is the one behind the last that was applied, and that one's outcome is written; MisuseError
            otherwise.
        Ensures: nothing is written; the outcome has every change, the applied sequence and the digest among them.
        Raises PermanentError for a record of this cluster that cannot be read: the vnode has to stop here.
        """
        applied = applied_row(self._tables)
        if entry.sequence != applied.sequence + 1:
            raise MisuseError(f"entry {entry.sequence} does not follow {applied.sequence}, the last that was applied")
        record = decode_record(entry.record, self._cluster_id)
        steps = {} if record is None else _read_steps(record)
        verdict = FOREIGN if record is None else judge_record(self._tables, record)
        outcome = Outcome(entry.sequence, verdict)
        tables = TableChanges(self._tables)
        value = tables.get(CLUSTER, CLOCK_KEY)
        clock = None if value is None else decode_clock(value)
        if record is not None and verdict == APPLIED:
            outcome.writer, outcome.written_us = record.node, record.time_us
            clock = advance_clock(clock, record.node, entry.stamp_us, record.time_us)
            self._apply_record(record, clock, tables, outcome, steps)
        outcome.time_us = 0 if clock is None else clock.time_us
        checksum = crc32(entry.record) if record is None else record.checksum
        outcome.digest = chain_digest(applied.digest, checksum, outcome, tables)
        tables.put(CLUSTER, APPLIED_KEY, encode_applied_row(AppliedRow(entry.sequence, checksum, outcome.digest)))
        outcome.changes = tables.changes
        outcome.steps = tables.steps
        return outcome

    def _apply_record(
        self,
        record: ClusterRecord,
        clock: ClockRow,
        tables: TableChanges,
        outcome: Outcome,
        steps: dict[int, SessionStep],
    ) -> None:
        scope = Scope(record, clock, tables, outcome)
        scope.epochs.enter(record)
        _ItemRules(scope, self._stored_zones()).apply_all(steps)
        tables.put(
            CLUSTER,
            CLOCK_KEY,
            encode_clock(
                ClockRow(
                    clock.time_us,
                    clock.stamp_us,
                    clock.node,
                    clock.claimed_us,
                    clock.other_claimed_us,
                    scope.version,
                    clock.doubted_us,
                    clock.leaps,
                )
            ),
        )

    def _stored_zones(self) -> Zones | None:
        value = self._tables.get(CLUSTER, SETTINGS_KEY)
        if value != self._settings:
            self._settings = value
            self._zones = stored_zones(self._tables)
        return self._zones


class _ItemRules:
    """The rules of items, for one record."""

    def __init__(self, scope: Scope, zones: Zones | None) -> None:
        self._scope: Final = scope
        self._leadership: Final = Leadership(scope)
        self._shards: Final = Shards(scope, zones)
        self._channels: Final = Channels(scope, self._leadership, self._shards)
        self._decisions: Final = Decisions(scope, self._shards)

    def apply_all(self, steps: dict[int, SessionStep]) -> None:
        accepted = self._scope.outcome.accepted
        is_any_rejected = False
        for index, item in enumerate(self._scope.record.items):
            if isinstance(item, MessageItem):
                counts = self._channels.message(index, item)
            elif isinstance(item, StepItem):
                counts = self._channels.step(index, item.session, steps[index])
            else:
                counts = self._apply(index, item)
                self._channels.look_again()
            accepted.append(counts)
            if not counts:
                is_any_rejected = True
        if is_any_rejected:
            self._count_rejected()
        self._shards.flush()

    def _count_rejected(self) -> None:
        outcome = self._scope.outcome
        for item, accepted in zip(self._scope.record.items, outcome.accepted, strict=True):
            rule = 0 if accepted else _rule_of(item)
            if rule:
                outcome.rejected[rule] = outcome.rejected.get(rule, 0) + 1

    def _apply(self, index: int, item: Item) -> bool:
        channels = self._channels
        if isinstance(item, ReadRegistration):
            self._scope.outcome.reads[index] = channels.live(item.session_id)
            return True
        if isinstance(item, Claim):
            return channels.claim(index, item)
        record = self._scope.record
        if self._scope.epochs.closed_at(record.node, record.epoch) != OPEN:
            return False
        if isinstance(item, Release):
            return channels.release(index, item)
        if isinstance(item, WillDue):
            return channels.will_due(index, item)
        if isinstance(item, Expire):
            return channels.expire(index, item)
        if isinstance(item, Closed):
            return self._scope.epochs.close(item.node, item.before)
        if isinstance(item, Lead):
            return self._leadership.lead(index)
        if isinstance(item, Resign):
            return self._leadership.resign()
        if isinstance(item, Tick):
            return self._leadership.tick()
        if isinstance(item, ChangeSettings):
            return self._decisions.change_settings(item)
        if isinstance(item, Level):
            return self._decisions.change_level(item)
        if isinstance(item, Holders):
            return self._decisions.change_holders(item)
        return self._leadership.is_leader() and self._apply_of_leader(index, item)

    def _apply_of_leader(self, index: int, item: Item) -> bool:
        """Items on groups, generations and horizons count from the leader alone."""
        if isinstance(item, Assign):
            return self._leadership.assign(index, item)
        if isinstance(item, Unassign):
            return self._leadership.unassign(item)
        if isinstance(item, Border):
            return self._shards.border(item)
        if isinstance(item, DropGeneration):
            return self._shards.drop(item)
        if isinstance(item, Horizon):
            return self._shards.horizon(item)
        raise MisuseError(f"{type(item).__name__} is an item without a rule")


def _rule_of(item: Item) -> int:
    """The rule that an item was rejected by; 0 for one that every node writes, or writes again, to be certain."""
    if isinstance(item, (MessageItem, StepItem)):
        return 5
    if isinstance(item, Claim):
        return 6
    if isinstance(item, Release):
        return 7
    if isinstance(item, (WillDue, Expire)):
        return 8
    if isinstance(item, (Lead, Resign, Assign, Unassign)):
        return 10
    if isinstance(item, (Border, DropGeneration, Horizon)):
        return 11
    return 0


def _read_steps(record: ClusterRecord) -> dict[int, SessionStep]:
    """All session steps of a record, by index: it has to be readable as a whole before anything of it is decided."""
    steps: dict[int, SessionStep] = {}
    for index, item in enumerate(record.items):
        if isinstance(item, StepItem):
            steps[index] = session_step(record.sessions[item.session].session_id, item)
    return steps


def chain_digest(before: bytes, checksum: int, outcome: Outcome, tables: TableChanges) -> bytes:
    """The digest of a log up to an entry, from the one before it (rule 5)."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    digest.update(before)
    digest.update(u32(checksum) + u8(VERDICTS.index(outcome.verdict)) + i64(outcome.time_us))
    digest.update(bytes(outcome.accepted))
    places: list[bytes] = []
    for published in outcome.published:
        message = published.message
        places.append(
            _pack_place(published.index, message.shard, message.position_us, published.serial, published.version)
        )
    digest.update(b"".join(places))
    digest.update(b"".join(tables.digested))
    return digest.digest()
