"""Retained messages: the last one of each topic, for later subscriptions.

A filter is answered by a scan, and a scan is read in slices: a client chooses how many keys its filters reach, so what
bounds a slice is the keys that it visits, whether they match or not.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from holdfast.model.message import Message
from holdfast.topics.filters import TopicFilter

#: Bytes of a key or a value that cost as much as visiting one more short key.
_KEY_BYTES: Final = 256
_VALUE_BYTES: Final = 4096


class ScanBudget:
    """What scans may still cost, in keys visited: about five microseconds each."""

    def __init__(self, keys: int) -> None:
        self.left = keys

    def visit(self, key_bytes: int, value_bytes: int = 0) -> None:
        """Pay for a key, and for its value if that was read; a long one counts as several."""
        self.left -= 1 + key_bytes // _KEY_BYTES + value_bytes // _VALUE_BYTES


class RetainedScan(Protocol):
    """Messages that a filter matches, by levels, as of the time at which the scan was begun.

    1. Of the topics up to `at`, whether they match or not, every message was returned.
    2. A slice visits at most the budget, and one key more.
    """

    def at(self) -> bytes:
        """The last topic that was visited; empty before the first."""

    def over(self) -> bool:
        """Whether everything was visited and returned."""

    def next(self, budget: ScanBudget) -> Message | None:
        """The next message; None at the end (`over`), or when the budget is spent."""


class RetainedStore(Protocol):
    """The last retained message of each topic.

    1. At most one message per topic; an empty payload removes it.
    2. What has expired is never returned.
    """

    def keep(self, message: Message) -> None:
        """Insert or replace; remove if the payload is empty [MQTT-3.3.1-6].

        Survives: what the implementation says.
        """

    def get(self, topic: bytes, now_us: int) -> Message | None:
        """The message of one topic."""

    def match(self, topic_filter: TopicFilter, now_us: int) -> RetainedScan:
        """Messages that a filter matches as of this call, in the order of their levels, found as they are asked for.

        The store may change meanwhile: what stayed is returned, exactly once; what was replaced or came later is not,
        because the caller is a subscriber by then and gets it as a live message.
        """

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> RetainedScan:
        """What remains of a scan that was at the topic `after`: messages of the topics behind it, by levels.

        As of the change `newest`; also after a restart.
        """

    def newest(self) -> int:
        """The number of the last change that is found. Numbers increase from change to change, over restarts, too."""

    def written(self) -> int:
        """The number of the last change that was written: above `newest` while that is not committed."""

    def count(self) -> int:
        """Topics that have one."""


class VersionedRetained(Protocol):
    """A `RetainedStore` in parts that are changed each by itself, such as the vnodes of a node.

    One number does not tell what a reader has seen of a part that is slow: a change that comes there later may have a
    lower number than one that another part has already.
    """

    def versions(self) -> Mapping[int, int]:
        """The number of the last change of each part."""

    def match_as_of(self, topic_filter: TopicFilter, now_us: int, versions: Mapping[int, int]) -> RetainedScan:
        """As `RetainedStore.match`, as of a change of each part; a part that is not named was empty."""

    def rest_as_of(
        self, topic_filter: TopicFilter, now_us: int, after: bytes, versions: Mapping[int, int]
    ) -> RetainedScan:
        """As `RetainedStore.rest`, as of a change of each part."""
