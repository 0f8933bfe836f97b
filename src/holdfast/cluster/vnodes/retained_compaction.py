"""Compaction of retained messages: which entries of a vnode are needed no longer, found by the node that leads it.

    topic    vnode 0 (led here)     vnode 1                      proposed
    ───────  ─────────────────────  ───────────────────────────  ──────────────────────────────────────────────────────
    a        version 5              version 9                    Horizon(a, 5): covered, never shown again
    b        version 9, removed     nothing, its time is above   Horizon(b, 9): nothing is left that it hides
    c        version 9, removed     version 5                    nothing: 5 would be shown; vnode 1 takes it out first
    d        version 9, removed     nothing, its time is 8       nothing: a message of version 8 may still come there

An entry that expired, by the time of its vnode's records, counts as removed, and so does one that was erased.

1. What was found stays true: versions of a vnode never go back, and a later one is above its record time.
2. It is true as of the places where this node looked. A member that is behind them may still have what the entry hides.
   So a finding is proposed when the last beats of all live members have passed those places.
3. The state machine takes out exactly the version that is named. One proposal is on its way at a time: what is due
   beyond it is found later.
4. Work is bounded: some hundred rows a second, or a megabyte. A table is passed again when a retained message came in
   any vnode, something was erased, or something waits to be taken out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from holdfast.durable.erasures import Erasures, no_erasures
from holdfast.durable.state_machine.machine import applied_row
from holdfast.durable.state_machine.tables import CLUSTER, RETAINED, StateTables
from holdfast.model.errors import PermanentError
from holdfast.records.cluster.items import Horizon
from holdfast.records.cluster.rows import CLOCK_KEY, ClockRow, decode_clock
from holdfast.records.retained import (
    decode_retained,
    expired_until,
    expiry_parts,
    has_payload,
    retained_key,
    retained_order,
    retained_topic,
    subtree,
)

#: Rows of the table that are looked at in a second; of those that have expired as many.
ROWS: Final = 256
#: Bytes of rows after which the rest waits for the next second. They are read in steps: a row may have megabytes.
_ROW_BYTES: Final = 1 << 20
_ROWS_AT_ONCE: Final = 16

_NO_CLOCK: Final = ClockRow(0, 0, 0, 0, 0, 0)
NOTHING_ERASED: Final = no_erasures()

#: Places that all live members have to pass: the sequence of each vnode where this node looked.
Places = Mapping[int, int]


class RetainedCompaction:
    """One vnode, on the node that leads it. Requires: `due` once a second at most, and only while it leads."""

    def __init__(
        self,
        vnode: int,
        tables: Sequence[StateTables],
        have_passed: Callable[[Places], bool],
        erasures: Callable[[], Erasures] = lambda: NOTHING_ERASED,
    ) -> None:
        """`tables` are those of all vnodes; `have_passed` says whether every live member has applied these places."""
        self._erasures: Final = erasures
        self._vnode: Final = vnode
        self._tables: Final = tables
        self._own: Final = tables[vnode]
        self._have_passed: Final = have_passed
        #: What was found, and where this node looked.
        self._found: list[Horizon] = []
        self._places: Places = {}
        #: The last row that was looked at; empty before the first one.
        self._last_key = b""
        #: The last versions of all vnodes, and what was erased, when the pass began.
        self._versions: tuple[int, ...] = ()
        self._erased = NOTHING_ERASED
        #: Whether it left something that goes later.
        self._has_waiting = False

    def due(self) -> list[Horizon]:
        """What is to be proposed now."""
        if not self._found:
            self._look()
        if not self._found or not self._have_passed(self._places):
            return []
        found, self._found = self._found, []
        return found

    def _look(self) -> None:
        clocks = [_clock(tables) for tables in self._tables]
        expired = self._expired(clocks[self._vnode].time_us)
        found = [self._judged(key, self._own.get(RETAINED, key) or b"", clocks, is_removed=True) for key in expired]
        for key, value in self._next_rows(tuple([clock.version for clock in clocks])):
            if key not in expired:
                is_removed = not has_payload(value) or self._is_erased(value)
                horizon = self._judged(key, value, clocks, is_removed=is_removed)
                found.append(horizon)
                self._has_waiting = self._has_waiting or (is_removed and horizon is None)
        self._found = [horizon for horizon in found if horizon is not None]
        self._places = {
            vnode: applied_row(tables).sequence for vnode, tables in enumerate(self._tables) if vnode != self._vnode
        }

    def _expired(self, time_us: int) -> set[bytes]:
        rows = self._own.scan(RETAINED, *expired_until(time_us), ROWS)
        return {retained_key(expiry_parts(key)[1]) for key, _value in rows}

    def _next_rows(self, versions: tuple[int, ...]) -> list[tuple[bytes, bytes]]:
        """The rows behind the last one; none if nothing has changed since the table was passed."""
        if not self._last_key:
            erased = self._erasures()
            if versions == self._versions and erased is self._erased and not self._has_waiting:
                return []
            self._versions, self._erased, self._has_waiting = versions, erased, False
        rows: list[tuple[bytes, bytes]] = []
        left_bytes = _ROW_BYTES
        lo, hi = subtree(())
        while len(rows) < ROWS and left_bytes > 0:
            lo = self._last_key + b"\x00" if self._last_key else lo
            step = self._own.scan(RETAINED, lo, hi, _ROWS_AT_ONCE)
            rows += step
            self._last_key = step[-1][0] if len(step) == _ROWS_AT_ONCE else b""
            if not self._last_key:
                break
            left_bytes -= sum([len(value) for _key, value in step])
        return rows

    def _is_erased(self, value: bytes) -> bool:
        if not self._erased.all:
            return False
        try:
            record = decode_retained(value)
        except PermanentError:
            return False
        message = record.stored.message
        place = (record.shard, message.position_us, record.stored_us)
        return self._erased.hides_retained(*place, message.topic, message.publisher)

    def _judged(self, key: bytes, value: bytes, clocks: list[ClockRow], *, is_removed: bool) -> Horizon | None:
        """The horizon of an entry that is needed no longer; None if it is, or cannot be judged."""
        try:
            order = retained_order(value)
            others = [
                None if vnode == self._vnode or (other := tables.get(RETAINED, key)) is None else retained_order(other)
                for vnode, tables in enumerate(self._tables)
            ]
        except PermanentError:
            return None  # its reader says so
        if any(other is not None and other > order for other in others):
            return Horizon(retained_topic(key), order[0])
        hides_nothing = all(
            vnode == self._vnode or (other is None and clocks[vnode].time_us > order[0])
            for vnode, other in enumerate(others)
        )
        return Horizon(retained_topic(key), order[0]) if is_removed and hides_nothing else None


def _clock(tables: StateTables) -> ClockRow:
    value = tables.get(CLUSTER, CLOCK_KEY)
    return _NO_CLOCK if value is None else decode_clock(value)
