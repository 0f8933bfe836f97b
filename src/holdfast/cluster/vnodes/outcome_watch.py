"""What a node notes of every record that is applied, on the way to those who act on it."""

from collections.abc import Callable
from typing import Final

from holdfast.cluster.membership.record_clock import RecordClock
from holdfast.cluster.registry.claim_history import ClaimHistory
from holdfast.cluster.vnodes.applier import ApplierStop, OutcomeListener
from holdfast.cluster.vnodes.digest_watch import DigestWatch
from holdfast.cluster.vnodes.record_counts import RecordCounts
from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.outcome import Outcome


class WatchedLog:
    """An `OutcomeListener` by shape: counts outcomes on the way to another one."""

    def __init__(self, listener: OutcomeListener, counts: RecordCounts, log: str) -> None:
        self._listener: Final = listener
        self._counts: Final = counts
        self._log: Final = log

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        self._counts.applied(self._log, outcome)
        self._listener.applied(entry, outcome)

    def stopped(self, stop: ApplierStop) -> None:
        self._listener.stopped(stop)


class WatchedVnode(WatchedLog):
    """Notes digests, record time and claims as well, and tells of channels that claims have replaced."""

    def __init__(
        self,
        listener: OutcomeListener,
        counts: RecordCounts,
        digests: DigestWatch,
        clock: RecordClock,
        claims: ClaimHistory,
        replaced: Callable[[str, tuple[int, int, int]], None],
        vnode: int,
    ) -> None:
        super().__init__(listener, counts, f"vnode {vnode}")
        self._digests: Final = digests
        self._clock: Final = clock
        self._claims: Final = claims
        self._replaced: Final = replaced
        self._vnode: Final = vnode

    def applied(self, entry: LogEntry, outcome: Outcome) -> None:
        self._clock.applied(outcome.time_us, outcome.writer, outcome.written_us)
        self._digests.applied(self._vnode, outcome.sequence, outcome.digest)
        if outcome.claims:
            self._claims.applied(outcome)
        for session_id, row in outcome.replaced.items():
            self._replaced(session_id, (row.node, row.epoch, row.connection_id))
        super().applied(entry, outcome)
