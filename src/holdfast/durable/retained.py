"""Retained messages: the last one of each topic, for whoever subscribes later."""

from collections.abc import Iterator
from typing import Protocol

from holdfast.model.message import Message
from holdfast.topics.filters import TopicFilter


class RetainedStore(Protocol):
    """The last retained message of each topic.

    1. At most one message per topic; an empty payload removes it.
    2. What has expired is never returned.
    """

    def keep(self, message: Message) -> None:
        """Insert or replace; remove if the payload is empty [MQTT-3.3.1-6].

        Survives: what the implementation says.
        """
        ...

    def get(self, topic: bytes, now_us: int) -> Message | None:
        """The message of one topic."""
        ...

    def match(self, topic_filter: TopicFilter, now_us: int) -> Iterator[Message]:
        """Messages that a filter matches as of this call, in the order of their levels, found as they are asked for.

        The store may change meanwhile: what stayed is returned, exactly once; what was replaced or came later is not,
        because whoever asks is a subscriber by then and gets it as a live message.
        """
        ...

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> Iterator[Message]:
        """What remains of a walk that was at the topic `after`: messages of the topics behind it, by levels.

        As of the change `newest`; also after a restart.
        """
        ...

    def newest(self) -> int:
        """The number of the last change that is found. Numbers increase from change to change, over restarts, too."""
        ...

    def written(self) -> int:
        """The number of the last change that was written: above `newest` while that is not committed."""
        ...

    def count(self) -> int:
        """Topics that have one."""
        ...
