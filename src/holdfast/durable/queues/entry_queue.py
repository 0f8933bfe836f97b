"""What queues that keep entries have in common: entries were matched when they came, and carry their options.

So changes of subscriptions do not concern them, and no message is decided upon when it is read. The other kind of queue
is a position in the log (`log_queue`), which matches messages when it reads them.
"""

from holdfast.durable.log import NO_END
from holdfast.durable.queues.client_queue import SessionQueue
from holdfast.model.message import Message
from holdfast.model.owed import Owed
from holdfast.topics.filters import TopicFilter


class EntryQueue(SessionQueue):
    """A queue of entries. Implementations say where they are kept."""

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
