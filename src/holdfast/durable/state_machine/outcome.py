"""What became of a record: the answers that its writer waits for, and the changes that every node writes."""

from typing import Final

from holdfast.durable.changes import Changes
from holdfast.durable.sessions.session_store import SessionStep
from holdfast.model.message import Message
from holdfast.records.cluster.items import VersionParts
from holdfast.records.cluster.record import SessionEntry
from holdfast.records.cluster.rows import AssignmentRow, RegistrationRow
from holdfast.records.generations import Generation

#: Its items were decided.
APPLIED: Final = "applied"
#: It is no record of this cluster (rule 1).
FOREIGN: Final = "foreign"
#: It is of an epoch that counts no longer (rule 2).
CLOSED_EPOCH: Final = "closed epoch"
#: It was applied before (rule 3).
REPEATED: Final = "repeated"
#: A record of its writer is missing before it (rule 3).
GAP: Final = "gap"

#: In digests. Never change.
VERDICTS: Final = (APPLIED, FOREIGN, CLOSED_EPOCH, REPEATED, GAP)


class PublishedMessage:
    """A message that counts: of a publisher, or a will.

    1. `message` has the record's time as its time of arrival, and its shard and position if it is stored.
    2. `serial` is 0 if it is not stored: it has QoS 0 in a zone that does not store that, or is in no zone.
    3. `version` is that of the retained message that it became; 0 if it is not retained.
    """

    def __init__(self, index: int, message: Message, serial: int, version: int, *, is_will: bool) -> None:
        #: The item that brought it about.
        self.index: Final = index
        self.message: Final = message
        self.serial: Final = serial
        self.version: Final = version
        self.is_will: Final = is_will


class AssignedPlace:
    """A QoS 2 message of a group that is a member's from now on."""

    def __init__(self, group: str, place: tuple[int, int], row: AssignmentRow) -> None:
        self.group: Final = group
        #: Shard and position.
        self.place: Final = place
        self.row: Final = row


class DecidedClaim:
    """A claim, and what became of it."""

    def __init__(
        self,
        session_id: str,
        connection_id: int,
        version: VersionParts,
        revision: int,
        other: RegistrationRow | None,
    ) -> None:
        self.session_id: Final = session_id
        self.connection_id: Final = connection_id
        #: The node that it was written by is the second part.
        self.version: Final = version
        #: 0 if it was refused.
        self.revision: Final = revision
        #: What it replaced, or what stood in its way; None for nothing.
        self.other: Final = other


class Outcome:
    """See `VERDICTS`. Everything but `changes`, `time_us` and `digest` is empty unless the record was applied.

    1. `accepted` has an entry for every item. An item of a session is accepted unless the session is fenced; any other
       one if it has changed something. A read is always accepted.
    2. What was rejected has changed nothing, and must not be acknowledged.
    """

    def __init__(self, sequence: int, verdict: str) -> None:
        self.sequence: Final = sequence
        self.verdict: Final = verdict
        #: The record time; that of the record before if this one does not count.
        self.time_us = 0
        #: The node that wrote the record, and its clock by then; 0 and 0 unless it was applied.
        self.writer = 0
        self.written_us = 0
        #: The digest of the log up to here.
        self.digest = b""
        self.accepted: Final[list[bool]] = []
        #: By rule: how many items were rejected, without those that are meant to change nothing when they come twice.
        self.rejected: Final[dict[int, int]] = {}
        self.published: Final[list[PublishedMessage]] = []
        #: By the index of their item: the revision of each claim that was accepted, and what stands in the way of each
        #: that was not: a registration that counts or was released lately; None if there is none.
        self.revisions: Final[dict[int, int]] = {}
        self.refused_claims: Final[dict[int, RegistrationRow | None]] = {}
        #: The versions of the claims that were accepted, but for those whose time a client gave.
        self.claimed: Final[list[VersionParts]] = []
        #: Every claim that has a version by now, to explain later what happened: no part of the state.
        self.claims: Final[list[DecidedClaim]] = []
        #: By the index of their item: who is registered.
        self.reads: Final[dict[int, RegistrationRow | None]] = {}
        #: Sessions whose writer holds them no longer. Nothing of theirs counted from the first rejected item on.
        self.fenced: Final[list[SessionEntry]] = []
        #: Registrations that claims have replaced, by session id: whose channel is here closes it.
        self.replaced: Final[dict[str, RegistrationRow]] = {}
        self.ended: Final[list[str]] = []
        #: QoS 2 messages of groups that were assigned, and assignments that went: group, and shard and position.
        self.assigned: Final[list[AssignedPlace]] = []
        self.unassigned: Final[list[tuple[str, tuple[int, int]]]] = []
        #: Whether another node leads from here on, or none.
        self.leader_changed = False
        self.begun: Final[list[Generation]] = []
        self.dropped: Final[list[Generation]] = []
        #: To be written as one batch, with the messages.
        self.changes = Changes()
        self.steps: list[SessionStep] = []
