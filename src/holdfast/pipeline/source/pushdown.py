"""Conditions of a query that the log can apply, so that it reads less.

| condition                              | becomes                                     | Spark checks again |
|----------------------------------------|---------------------------------------------|--------------------|
| `ts`, `offset`: = < <= > >=            | a range of positions                        | no                 |
| `shard` =                              | one shard                                   | no                 |
| `topic` =, IN a few                    | filters without wildcards                   | no                 |
| `topic` starts with                    | the whole levels of it, and `#`             | yes                |

This is on request only (`pushdown=true`), because Spark 4.3 keeps what a source has planned in one place for each table
that was loaded. A second query on the same table finds the plan of the first, with its conditions: it would miss
messages, and so would a union of two parts of one table. A caller that wants pushdown loads the
table again for each query.

Everything else is left to Spark. With a `topicFilter`, topics that it does not match are left out, and a beginning is
left to Spark.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from holdfast.durable.log import NO_END
from holdfast.model.errors import PeerError
from holdfast.model.time import us_of
from holdfast.pipeline.source.partitions import Filters
from holdfast.pipeline.source.schema import FIELDS
from holdfast.topics.filters import REST, levels_match
from holdfast.topics.names import SEPARATOR, check_topic_name, is_dollar

#: Topics of an IN beyond which one look at everything is better than a look at each.
MAX_TOPICS: Final = 32
_POSITIONS: Final = ("ts", "offset")


class Pushdown:
    """The conditions that were taken, on top of the filter in the options."""

    def __init__(self, levels: tuple[bytes, ...]) -> None:
        self._levels: Final = levels
        self.since_us = 0
        self.until_us = NO_END
        #: None: any.
        self.shards: set[int] | None = None
        self._topics: set[bytes] | None = None
        self._beginning: tuple[bytes, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no message at all can match."""
        return self.since_us >= self.until_us or self.shards == set() or self._topics == set()

    @property
    def filters(self) -> Filters:
        """Which topics to read."""
        if self._topics is not None:
            return tuple(tuple(topic.split(SEPARATOR)) for topic in sorted(self._topics))
        levels = self._levels or self._beginning
        return (levels,) if levels else ()

    def take(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Take what can be used; yields what Spark has to check."""
        for condition in filters:
            if not self._takes(condition):
                yield condition

    def _takes(self, condition: Filter) -> bool:
        if isinstance(condition, IsNotNull):
            return len(condition.attribute) == 1 and not FIELDS[condition.attribute[0]].nullable
        if isinstance(condition, StringStartsWith):
            if condition.attribute == ("topic",):
                self._begins(condition.value.encode())
            return False
        if isinstance(condition, In):
            if condition.attribute != ("topic",) or len(condition.value) > MAX_TOPICS:
                return False
            return self._is_one_of(condition.value)
        if isinstance(condition, EqualTo) and condition.attribute == ("topic",):
            return self._is_one_of([condition.value])
        if isinstance(condition, EqualTo) and condition.attribute == ("shard",):
            self.shards = {condition.value} if self.shards is None else self.shards & {condition.value}
            return True
        return self._compares(condition)

    def _compares(self, condition: Filter) -> bool:
        if not isinstance(condition, (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
            return False
        if len(condition.attribute) != 1 or condition.attribute[0] not in _POSITIONS:
            return False
        at_us = _position(condition.value)
        if at_us is None:
            return False
        if isinstance(condition, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            self.since_us = max(self.since_us, at_us + isinstance(condition, GreaterThan))
        if isinstance(condition, (EqualTo, LessThan, LessThanOrEqual)):
            self.until_us = min(self.until_us, at_us + (not isinstance(condition, LessThan)))
        return True

    def _is_one_of(self, values: Iterable[object]) -> bool:
        topics = {value.encode() for value in values if isinstance(value, str)}
        topics = {topic for topic in topics if _is_topic(topic) and self._matches(topic)}
        self._topics = topics if self._topics is None else self._topics & topics
        return True

    def _matches(self, topic: bytes) -> bool:
        return not self._levels or levels_match(self._levels, topic.split(SEPARATOR), dollar=is_dollar(topic))

    def _begins(self, beginning: bytes) -> None:
        whole = beginning.split(SEPARATOR)[:-1]
        if whole and len(whole) + 1 > len(self._beginning) and _is_topic(beginning):
            self._beginning = (*whole, REST)


def _position(value: object) -> int | None:
    """A time or a number as a position; None if it is neither."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return us_of(value)
    return value if type(value) is int else None


def _is_topic(topic: bytes) -> bool:
    """Whether any message can have it."""
    try:
        check_topic_name(topic)
    except PeerError:
        return False
    return True
