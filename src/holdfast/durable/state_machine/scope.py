"""One record while its items are decided, one after the other."""

from typing import Final

from holdfast.durable.state_machine.epochs import Epochs
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.tables import TableChanges
from holdfast.model.time import SECOND_US
from holdfast.records.cluster.record import ClusterRecord, revision_of
from holdfast.records.cluster.rows import ClockRow


def waits_since(since_us: int, leaps: tuple[tuple[int, int], ...]) -> int:
    """Since when it counts what began to wait at a time: if that was in doubt, since the leap behind it."""
    for from_us, to_us in leaps:
        if from_us <= since_us < to_us:
            since_us = to_us
    return since_us


class Scope:
    """What all rules share. `version` is the last that was given to a retained message of the vnode."""

    def __init__(self, record: ClusterRecord, clock: ClockRow, tables: TableChanges, outcome: Outcome) -> None:
        self.record: Final = record
        self.time_us: Final = clock.time_us
        self._leaps: Final = clock.leaps
        self.tables: Final = tables
        self.outcome: Final = outcome
        self.epochs: Final = Epochs(tables, clock.time_us)
        self.version = clock.version

    def revision(self, index: int) -> int:
        """The revision of an item of the record."""
        return revision_of(self.outcome.sequence, index)

    def has_passed(self, since_us: int, wait_s: int) -> bool:
        """Whether so long a time has passed since then, or since the end of the doubt that was about that time."""
        return waits_since(since_us, self._leaps) + wait_s * SECOND_US <= self.time_us

    def is_writer(self, node: int, epoch: int) -> bool:
        """Whether this is the life of the node that wrote the record."""
        return node == self.record.node and epoch == self.record.epoch
