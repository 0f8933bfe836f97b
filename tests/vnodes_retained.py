"""Retained messages of a node of a `ClusterWorld`: the tables of its vnodes, merged as those on disk are.

The greatest (version, shard) of a topic wins; a removal is one, too. A scan is fixed when it begins.
"""

from collections.abc import Mapping

from holdfast.durable.retained.memory_retained import FoundScan, MemoryRetained
from holdfast.durable.retained.retained_store import RetainedScan
from holdfast.durable.state_machine.tables import CLUSTER, RETAINED, MemoryTables
from holdfast.model.message import Message
from holdfast.records.cluster.rows import CLOCK_KEY, decode_clock
from holdfast.records.retained import MESSAGE, RetainedRecord, decode_retained, retained_topic
from holdfast.topics.filters import TopicFilter, levels_match
from holdfast.topics.names import SEPARATOR, in_level_order, is_dollar

_OWN = b"$SYS/"


class VnodesRetained:
    """A `RetainedStore` by shape. The appliers write what is kept; the node's own topics are in memory."""

    def __init__(self, tables: list[MemoryTables]) -> None:
        self._tables = tables
        self._own = MemoryRetained()

    def keep(self, message: Message) -> None:
        if message.topic.startswith(_OWN):
            self._own.keep(message)

    def get(self, topic: bytes, now_us: int) -> Message | None:
        if topic.startswith(_OWN):
            return self._own.get(topic, now_us)
        record = self._merged().get(topic)
        if record is None or record.removed() or record.stored.message.expired(now_us):
            return None
        return record.stored.message

    def match(self, topic_filter: TopicFilter, now_us: int) -> RetainedScan:
        return self.match_as_of(topic_filter, now_us, self.versions())

    def match_as_of(self, topic_filter: TopicFilter, now_us: int, versions: Mapping[int, int]) -> RetainedScan:
        if topic_filter.levels[0] == b"$SYS":
            return self._own.match(topic_filter, now_us)
        return self.rest_as_of(topic_filter, now_us, b"", versions)

    def rest(self, topic_filter: TopicFilter, now_us: int, after: bytes, newest: int) -> RetainedScan:
        return self.rest_as_of(topic_filter, now_us, after, dict.fromkeys(self.versions(), newest))

    def rest_as_of(
        self, topic_filter: TopicFilter, now_us: int, after: bytes, versions: Mapping[int, int]
    ) -> RetainedScan:
        found: list[tuple[bytes, Message]] = []
        for topic, record in self._merged().items():
            place, message = in_level_order(topic), record.stored.message
            matches = levels_match(topic_filter.levels, topic.split(SEPARATOR), dollar=is_dollar(topic))
            behind = not after or place > in_level_order(after)
            is_seen = record.stored_us <= versions.get(record.shard, -1)
            shown = is_seen and not record.removed() and not message.expired(now_us)
            if matches and behind and shown:
                found.append((place, message))
        found.sort(key=lambda entry: entry[0], reverse=True)
        return FoundScan([message for _place, message in found])

    def newest(self) -> int:
        """The greatest version of any vnode."""
        return max(self.versions().values(), default=0)

    def versions(self) -> dict[int, int]:
        """The last version that was applied in each vnode, which has one shard with its number."""
        values = [tables.get(CLUSTER, CLOCK_KEY) for tables in self._tables]
        return {at: 0 if value is None else decode_clock(value).version for at, value in enumerate(values)}

    def written(self) -> int:
        return self.newest()

    def count(self) -> int:
        return len([record for record in self._merged().values() if not record.removed()])

    def _merged(self) -> dict[bytes, RetainedRecord]:
        merged: dict[bytes, RetainedRecord] = {}
        for tables in self._tables:
            for key, value in tables.scan(RETAINED, bytes((MESSAGE,)), bytes((MESSAGE + 1,)), 0):
                topic, record = retained_topic(key), decode_retained(value)
                other = merged.get(topic)
                if other is None or (record.stored_us, record.shard) > (other.stored_us, other.shard):
                    merged[topic] = record
        return merged
