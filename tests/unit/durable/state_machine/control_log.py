"""The control log on one node, and the records that tests write into it."""

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.state_machine.control import ControlMachine, ControlOutcome, member_row
from holdfast.durable.state_machine.tables import MemoryTables
from holdfast.records.cluster.control import LINEAR, ControlItem, ControlRecord, Found, Join, encode_control
from holdfast.records.cluster.control_rows import MemberRow
from tests.unit.durable.state_machine.vnode import CLUSTER_ID, ZONES, T

FOUND = Found("test", (ZONES, ZONES))


def id_of(number: int) -> bytes:
    """A folder or a life."""
    return bytes((number,)) * 16


def control_record(node: int, epoch: int, number: int, item: ControlItem, time_us: int = T) -> bytes:
    return encode_control(ControlRecord(CLUSTER_ID, node, epoch, number, time_us, item))


class ControlLog:
    """Writes records and applies them at once."""

    def __init__(self, *, founded: bool = True) -> None:
        self.tables = MemoryTables()
        self.machine = ControlMachine(CLUSTER_ID, self.tables)
        self.sequence = 0
        self.numbers: dict[tuple[int, int], int] = {}
        if founded:
            assert self.append(control_record(0, 0, 0, FOUND)).counts

    def append(self, record: bytes) -> ControlOutcome:
        self.sequence += 1
        outcome = self.machine.apply(LogEntry(self.sequence, T + self.sequence, record))
        assert isinstance(outcome, ControlOutcome)
        self.tables.write(outcome.changes, outcome.steps, outcome.published)
        return outcome

    def join(
        self, node: int, life: int, folder: int = 0, after: int | None = None, mode: int = LINEAR
    ) -> ControlOutcome:
        after = self.sequence if after is None else after
        join = Join(f"n{node}", id_of(folder or node), id_of(life), after, mode=mode)
        return self.append(control_record(node, 0, 0, join))

    def write(self, node: int, epoch: int, item: ControlItem, number: int = 0) -> ControlOutcome:
        """A record of a member, with its next number unless one is given."""
        if not number:
            number = self.numbers.get((node, epoch), 0) + 1
            self.numbers[node, epoch] = number
        return self.append(control_record(node, epoch, number, item))

    def member(self, node: int) -> MemberRow:
        row = member_row(self.tables, node)
        assert row is not None
        return row
