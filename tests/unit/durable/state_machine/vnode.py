"""One vnode on one node, and the records that tests write into its log."""

from holdfast.durable.ordered_log import LogEntry
from holdfast.durable.sessions.session_store import KeepSession, SessionStep
from holdfast.durable.state_machine.machine import StateMachine, applied_row
from holdfast.durable.state_machine.outcome import Outcome
from holdfast.durable.state_machine.step_items import step_item
from holdfast.durable.state_machine.tables import CLUSTER, RETAINED, MemoryTables
from holdfast.model.ids import ClientId
from holdfast.model.message import Message
from holdfast.model.will import StoredWill
from holdfast.records.cluster.items import ChangeSettings, Claim, Item, MessageItem
from holdfast.records.cluster.record import ClusterRecord, SessionEntry, encode_record
from holdfast.records.cluster.rows import RegistrationRow, decode_registration, registration_key
from holdfast.records.cluster.session_steps import StepItem
from holdfast.records.cluster.settings import VnodeSettings, VnodeZone
from holdfast.records.retained import RetainedRecord, decode_retained, retained_key
from holdfast.records.session.session_record import SessionRecord

CLUSTER_ID = bytes(range(16))
#: 2023-11-14T22:13:20Z, and a second.
T = 1_700_000_000_000_000
S = 1_000_000

DEFAULT = VnodeZone("default", 0, "learned", {})
ZONES = VnodeSettings((DEFAULT,))


class Vnode:
    """Writes records and applies them at once. All clocks are at `now_us`, unless a record says otherwise."""

    def __init__(self, *, settings: VnodeSettings | None = ZONES) -> None:
        self.tables = MemoryTables()
        self.machine = StateMachine(CLUSTER_ID, self.tables)
        self.now_us = T
        self.entries: list[LogEntry] = []
        self.numbers: dict[tuple[int, int], int] = {}
        if settings is not None:
            assert self.write(9, ChangeSettings(1, settings)).accepted == [True]

    def write(
        self,
        node: int,
        *items: Item,
        sessions: list[tuple[str, int]] | None = None,
        epoch: int = 1,
        number: int = 0,
        time_us: int = 0,
        stamp_us: int = 0,
        seen: int = 0,
    ) -> Outcome:
        """A record of a node, with its next number unless one is given."""
        if not number:
            number = self.numbers.get((node, epoch), 0) + 1
            self.numbers[node, epoch] = number
        entries = [SessionEntry(session_id, revision) for session_id, revision in sessions or []]
        time_us = time_us or self.now_us
        record = ClusterRecord(CLUSTER_ID, node, epoch, number, time_us, seen, entries, list(items))
        return self.append(encode_record(record), stamp_us)

    def append(self, record: bytes, stamp_us: int = 0) -> Outcome:
        sequence = applied_row(self.tables).sequence + 1
        self.entries.append(LogEntry(sequence, stamp_us or self.now_us, record))
        return self.apply(self.entries[-1])

    def apply(self, entry: LogEntry) -> Outcome:
        outcome = self.machine.apply(entry)
        self.tables.write(outcome.changes, outcome.steps)
        self.tables.sessions.check_invariants()
        return outcome

    def again(self, index: int = -1) -> Outcome:
        """An earlier record comes once more."""
        return self.append(self.entries[index].record)

    # ---- clients

    def claim(self, client: str, node: int, *, expected: int = 0, at_ms: int = 0, epoch: int = 1, link: int = 1) -> int:
        """The revision of a claim that is accepted."""
        version = (at_ms or self.now_us // 1000 + link, node, 1)
        outcome = self.write(node, Claim(client, link, version, expected), epoch=epoch)
        assert outcome.accepted == [True]
        return outcome.revisions[0]

    def open(
        self,
        client: str,
        node: int,
        *,
        expiry_s: int = 100,
        will: StoredWill | None = None,
        expected: int = 0,
        epoch: int = 1,
        link: int = 1,
    ) -> int:
        """Claim a client id and store its session."""
        revision = self.claim(client, node, expected=expected, epoch=epoch, link=link)
        record = SessionRecord(expiry_s=expiry_s, disconnected_us=0, will=will)
        outcome = self.step(node, KeepSession(client, record, None), revision, epoch=epoch)
        assert outcome.accepted == [True]
        return revision

    def step(self, node: int, step: SessionStep, revision: int, *, epoch: int = 1) -> Outcome:
        return self.write(node, step_item(step, 0), sessions=[(step.client_id, revision)], epoch=epoch)

    def publish(self, node: int, client: str, revision: int, *items: Item, epoch: int = 1) -> Outcome:
        """A message of a client, or several items of its session."""
        return self.write(node, *(items or (message(),)), sessions=[(client, revision)], epoch=epoch)

    # ---- tables

    def session(self, client: str) -> SessionRecord | None:
        return self.tables.session(client)

    def registration(self, client: str) -> RegistrationRow | None:
        value = self.tables.get(CLUSTER, registration_key(client))
        return None if value is None else decode_registration(value)

    def retained(self, topic: bytes) -> RetainedRecord | None:
        value = self.tables.get(RETAINED, retained_key(topic))
        return None if value is None else decode_retained(value)


def message(
    topic: bytes = b"t",
    payload: bytes = b"x",
    *,
    qos: int = 1,
    retain: bool = False,
    packet_id: int = 0,
    number: int = -1,
    expires_us: int = 0,
    session: int = 0,
) -> MessageItem:
    published = Message(topic, payload, qos, ClientId("p"), T, retain=retain, expires_us=expires_us)
    return MessageItem(session, published, packet_id=packet_id, number=number)


def a_will(delay_s: int, topic: bytes = b"w") -> StoredWill:
    return StoredWill(topic, b"gone", 1, retain=False, properties=b"", delay_s=delay_s, expiry_s=-1)


def step(what: SessionStep, session: int = 0) -> StepItem:
    return step_item(what, session)


def topics(outcome: Outcome) -> list[bytes]:
    """What was published, wills too."""
    return [published.message.topic for published in outcome.published]
