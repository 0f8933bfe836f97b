"""What one client may do with a topic, as the path of a message asks it.

Rules are read elsewhere: files, their form and the client's name are unknown here. An answer holds for one
client and one topic until its rules are replaced, so the exchange asks once per topic and remembers.
"""

from typing import Protocol

from holdfast.topics.filters import TopicFilter


class Access(Protocol):
    """The rights of one client."""

    def may_publish(self, topic: bytes) -> bool:
        """Whether the client may publish to `topic`; a will counts as its publish."""
        ...

    def may_receive(self, topic: bytes) -> bool:
        """Whether a message of `topic` may be sent to the client, be it live, retained or replayed."""
        ...

    def explain(self, action: str, topic: bytes) -> str:
        """Which rule decides about `action` on `topic`, for a log line.

        `action` is `publish`, `receive`, or `subscribe`, where `topic` is the filter as the client wrote it.
        """
        ...


class ClientAccess(Access, Protocol):
    """The rights of one client, and one question more, which is asked when it subscribes."""

    def may_subscribe(self, topic_filter: TopicFilter) -> bool:
        """Whether the subscription is accepted; `$share` and `$replay` in front of the filter make no difference."""
        ...
