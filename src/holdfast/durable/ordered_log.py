"""The ordered log: records of several nodes in one order that all of them read. A contract of four calls.

    append   a record ──▶ its sequence, or that the outcome is unknown
    read     from a sequence on: every record, in order, until the reading is closed
    ends     the first and the last sequence that are kept, their bytes, and the incarnation
    trim     forget the beginning

An ordered log orders and keeps records, and decides nothing: it has no condition, no key, no expiry and no window in
which it knows a record again. Who needs a decision appends a record with a condition, and every node decides it alike
when it comes to that record (`durable/state_machine`). So a log that lost an answer, or holds a record twice, is still
one that can be worked with.

What every implementation keeps:

1. One order for all readers.
2. Sequences are dense: each is one more than the one before, the first is 1. Trimming does not change them.
3. A record whose sequence was returned, or that a reader was given, is not lost.
4. A log has an incarnation, a text that no other log had, not even one of the same name before it.

Rules 2 to 4 are what a store of records promises and a damaged one breaks. A node keeps, beside its state, the place
up to which it has applied the log. `compare` tells whether the log in front of it still leads there. Whoever begins to
read again begins **at** that place, not behind it, and compares the checksum of the record there: a log that lost its
tail and has grown again looks complete from its ends alone. So a trim leaves the record at every node's place.

Answers and entries come by call-backs, because a pure module cannot wait. They are called on the event loop that owns
the log, and may be called inside the call that asked for them.
"""

from collections.abc import Callable
from typing import Final, Protocol

from holdfast.records.fields import ValueRecord

#: The first sequence of every log.
FIRST_SEQUENCE: Final = 1


class UnknownOutcome(ValueRecord):
    """The record may be in the log, or may yet come into it, or never will.

    A full log and a log without a majority are this, too: the writer sends the same bytes again, after a pause,
    until an answer comes or it reads them. That is right whatever happened, since a repetition counts for nothing.
    """

    def __init__(self, why: str) -> None:
        self.why: Final = why

    def _fields(self) -> tuple[object, ...]:
        return (self.why,)


#: The sequence of a record, or that it is not known.
AppendResult = int | UnknownOutcome
Answered = Callable[[AppendResult], None]


class LogEntry(ValueRecord):
    """A record in its place. `stamp_us` is the wall time of the server that took it: it may be wrong, and step back."""

    def __init__(self, sequence: int, stamp_us: int, record: bytes) -> None:
        self.sequence: Final = sequence
        self.stamp_us: Final = stamp_us
        self.record: Final = record

    def _fields(self) -> tuple[object, ...]:
        return (self.sequence, self.stamp_us, self.record)


class LogEnds(ValueRecord):
    """What a log holds: the sequences [first, last], and their bytes. An empty log has last = first - 1."""

    def __init__(self, first: int, last: int, incarnation: str, size_bytes: int = 0) -> None:
        self.first: Final = first
        self.last: Final = last
        self.incarnation: Final = incarnation
        #: By the log's own count, with what it stores beside the records.
        self.size_bytes: Final = size_bytes

    def _fields(self) -> tuple[object, ...]:
        return (self.first, self.last, self.incarnation, self.size_bytes)


class LogReader(Protocol):
    """Who reads a log."""

    def entries(self, entries: list[LogEntry]) -> None:
        """The next entries: at least one, and each sequence is one more than the one before."""

    def stopped(self, why: str) -> None:
        """The log does not lead on: it was trimmed, has lost its end, or is another one. Nothing follows.

        `ends` and `compare` tell which.
        """


class LogReading(Protocol):
    """A reading that goes on."""

    def close(self) -> None:
        """Ensures: the reader is not called any more."""


class OrderedLog(Protocol):
    """One log of the cluster, of one vnode or of membership. See the rules above."""

    def append(self, record: bytes, answered: Answered) -> None:
        """Append a record.

        Requires: it is not empty and not above the bound of the log; MisuseError otherwise.
        Ensures: `answered` is called once. With a sequence: the record is there. With UnknownOutcome: nothing is said.
            Records that are appended at the same time come in any order.
        Survives: once answered with a sequence, the loss of any minority of the log's servers, at power loss too.
        """

    def read(self, from_sequence: int, reader: LogReader) -> LogReading:
        """Give a reader every entry from a sequence on, those that are appended later too.

        Requires: `from_sequence` is not below the first, and at most one above the last; else the reader is stopped.
        """

    async def ends(self) -> LogEnds:
        """The ends of the log. TransientError: its servers do not answer.

        Ensures: every record whose sequence was returned before the call is covered.
        """

    async def trim(self, before_sequence: int) -> None:
        """Forget the records below a sequence. TransientError: its servers do not answer; it may be done later.

        Requires: `before_sequence` is not above the last one, so that a record stays, and the end is where it was;
            MisuseError otherwise. Below the first it changes nothing.
        """


# ---- what a node has applied, and the log


class AppliedPlace(ValueRecord):
    """Up to where a node has applied a log, and the checksum of the record there. Sequence 0: nothing of it."""

    def __init__(self, sequence: int, checksum: int, incarnation: str) -> None:
        self.sequence: Final = sequence
        self.checksum: Final = checksum
        self.incarnation: Final = incarnation

    def _fields(self) -> tuple[object, ...]:
        return (self.sequence, self.checksum, self.incarnation)


#: The log leads on from here: read from the applied sequence on, the record there included.
FOLLOW: Final = "follow"
#: The log begins later: a checkpoint of another node has to be installed.
INSTALL: Final = "install"
#: The log has lost records that were in it: acknowledge nothing, raise the alarm.
LOST: Final = "lost"


def compare(applied: AppliedPlace, ends: LogEnds) -> str:
    """FOLLOW, INSTALL or LOST, from the ends of a log alone; then the record at the applied place has to be compared.

    A place of another incarnation is LOST even if the log is long enough: its records are not the ones applied here.
    """
    if applied.sequence == 0:
        return FOLLOW if ends.first == FIRST_SEQUENCE else INSTALL
    if applied.incarnation != ends.incarnation or applied.sequence > ends.last:
        return LOST
    if applied.sequence < ends.first - 1:
        return INSTALL
    return FOLLOW
