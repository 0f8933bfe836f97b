"""What waits for one session or group: the contracts of its queue.

    ClientQueue          messages: appended, read, acknowledged
    QueueProgress        how far its owner was sent its messages, and where it goes on after a restart
    QueueSubscriptions   what changes when its owner subscribes
    QueueConnection      what changes when its owner connects

`SessionQueue` is all of them: what a session has. `EntryQueue` is what queues of entries have in common. A place in a
queue is a serial: dense, increasing, never used again. Packet ids are something else; they are given out when a message
is sent.
"""

from typing import Final, Protocol

from holdfast.durable.log import NO_END
from holdfast.durable.sessions.session_store import StoredSession
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.records.session.progress import ProgressEntry
from holdfast.topics.filters import TopicFilter


class BacklogEnd:
    """The end of what is owed to a client at the moment: positions in the log, a serial for what is in no log."""

    def __init__(self, positions: dict[int, int], serial: int) -> None:
        self.positions: Final = positions
        self.serial: Final = serial


class RunStart:
    """Where this run of the broker began. An earlier run that crashed may have sent anything up to here."""

    def __init__(self, heads: dict[int, int], number: int) -> None:
        #: The last position of each shard.
        self.heads: Final = heads
        #: The first outbox number of this run.
        self.number: Final = number


class ClientQueue(Protocol):
    """Messages owed to one client.

    1. Serials of what is kept are increasing, and reading returns messages in their order.
    2. What was read stays until it is acknowledged, and no longer counts toward limits: it is in flight.
    """

    def append(self, messages: list[Owed]) -> int:
        """Add messages in order; how many old ones had to go because of a limit.

        Ensures: each of them has its serial.
        Survives: what the implementation says.
        """

    def read(self, after: int, limit: int) -> list[Owed]:
        """At most `limit` messages whose serial is above `after`; none need not mean that there are none."""

    def at_end(self) -> bool:
        """Whether the last `read` that found nothing had seen everything; else it has to be asked again."""

    def acknowledge(self, serial: int) -> None:
        """The client has it: forget it. An unknown serial is harmless."""

    def release(self, serial: int) -> None:
        """The client sent PUBREC: keep the entry, its content is not needed again."""

    def count(self) -> int:
        """Messages kept, those in flight included; an estimate where an exact number would cost the backlog."""

    def drop(self) -> None:
        """Forget everything: the session has ended."""


class QueueProgress(Protocol):
    """How far the owner of a queue was sent its messages."""

    def sent(self) -> dict[int, int] | None:
        """How far, by shard; None if that is not stored, because the queue does not outlive the broker."""

    def sent_before(self) -> list[ProgressEntry]:
        """What an earlier run of the broker sent, is not acknowledged, and was not sent again yet."""

    def resume(self, stored: StoredSession, crashed: RunStart | None) -> None:
        """Go on where the stored session stopped; with `crashed`, more may have been sent than is stored."""

    def owed(self, message: Message) -> Owed | None:
        """How the owner gets a message of the log by its present subscriptions; None if the log is not what it reads,
        or if it does not get it.
        """

    def skip(self, message: Message) -> bool:
        """The message was sent already: leave it out when it is read; whether it would have been read."""

    def backlog_end(self) -> BacklogEnd:
        """The end of what is owed now."""

    def has_sent(self, end: BacklogEnd, cursor: int) -> bool:
        """Whether everything up to `end` was read; `cursor` is the last serial that was."""


class QueueSubscriptions(Protocol):
    """What a queue is told of its owner's subscriptions, which it finds with the owner's session."""

    def subscribed(self, topic_filter: TopicFilter) -> None:
        """A subscription was added or replaced."""

    def unsubscribed(self, topic_filter: TopicFilter) -> None:
        """A subscription is gone, and with it its replay and its end."""

    def replayed(self, raw: bytes, up_to: dict[int, int] | None) -> None:
        """A subscription is replayed on its own: what is not above these positions; without any, all of it."""

    def ends(self, raw: bytes, until_us: int) -> None:
        """A subscription delivers nothing from a position on."""

    def end_of(self, raw: bytes) -> int:
        """The position from which on a subscription delivers nothing; NO_END if there is none."""

    def expect_many(self) -> None:
        """Very many subscriptions follow one by one. Requires: there is none yet."""


class QueueConnection(Protocol):
    """What a queue is told of its owner's connection."""

    def online(self) -> None:
        """A connection takes what there is."""

    def offline(self) -> None:
        """The connection is gone: keep no more in memory than the queue has to."""

    def waits(self) -> bool:
        """Whether more comes by itself, when a store has answered."""

    def in_log(self) -> bool:
        """Whether everything that it holds lies in the log, so that an offline session needs no object in memory."""


class SessionQueue(ClientQueue, QueueProgress, QueueSubscriptions, QueueConnection, Protocol):
    """The queue of one session or group."""


class EntryQueue(SessionQueue):
    """A queue of entries, matched when they came, with their options. Implementations say where they are kept.

    So changes of subscriptions do not concern it, and no message is decided upon when it is read. The other kind of
    queue is a position in the log (`log_queue`), which matches messages when it reads them.
    """

    def owed(self, message: Message) -> Owed | None:  # noqa: ARG002 (the contract's)
        return None

    def skip(self, message: Message) -> bool:  # noqa: ARG002 (the contract's)
        return False

    def subscribed(self, topic_filter: TopicFilter) -> None:
        """Nothing to do."""

    def unsubscribed(self, topic_filter: TopicFilter) -> None:
        """Nothing to do."""

    def replayed(self, raw: bytes, up_to: dict[int, int] | None) -> None:
        """Nothing to do."""

    def ends(self, raw: bytes, until_us: int) -> None:
        """Nothing to do."""

    def end_of(self, raw: bytes) -> int:  # noqa: ARG002 (the contract's)
        return NO_END

    def expect_many(self) -> None:
        """Nothing to do."""

    def in_log(self) -> bool:
        return False
