"""Stored retained messages, read beside the broker: those of a filter that were not erased, as they lie there."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from holdfast.durable.erasures import Erasures
from holdfast.history.reader.reader import HistoryReader
from holdfast.model.errors import PermanentError
from holdfast.records.messages import stored_position, stored_publisher
from holdfast.records.retained import VERSION, retained_topic, subtree
from holdfast.storage.rocks.engine.column_families import RETAINED
from holdfast.topics.filters import ONE, REST, levels_match
from holdfast.topics.names import SEPARATOR, is_dollar

#: In front of the message: version, shard, when it was stored.
HEAD: Final = Struct("<BHq")


def retained_range(levels: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Keys [lo, hi) among which are all topics that match a filter; those of all topics if there are no levels."""
    concrete = [i for i, level in enumerate(levels) if level in (ONE, REST)]
    return subtree(levels[: concrete[0]] if concrete else levels)


def retained_rows(
    reader: HistoryReader, lo: bytes, hi: bytes, levels: tuple[bytes, ...]
) -> Iterator[tuple[bytes, bytes]]:
    """Keys of [lo, hi) whose topics match a filter, with what is stored; removals and expired messages too."""
    return (one for one in passed_rows(reader, lo, hi, levels) if one[1])


def passed_rows(
    reader: HistoryReader, lo: bytes, hi: bytes, levels: tuple[bytes, ...]
) -> Iterator[tuple[bytes, bytes]]:
    """The same, with every key that was looked at: its value is empty if it does not match or was erased."""
    erasures = reader.erasures()
    for key, value in reader.rows(RETAINED, lo, hi):
        if levels and not _matches(levels, retained_topic(key)):
            yield key, b""
            continue
        if len(value) < HEAD.size or value[0] != VERSION:
            raise PermanentError(f"the retained message of {retained_topic(key)!r} is damaged; run: holdfast verify")
        yield key, b"" if erasures.all and _is_erased(erasures, key, value) else value


def _matches(levels: tuple[bytes, ...], topic: bytes) -> bool:
    return levels_match(levels, topic.split(SEPARATOR), dollar=is_dollar(topic))


def _is_erased(erasures: Erasures, key: bytes, value: bytes) -> bool:
    _version, shard, stored_us = HEAD.unpack_from(value)
    message = value[HEAD.size :]
    position_us, publisher = stored_position(message), stored_publisher(message)
    return erasures.hides_retained(shard, position_us, stored_us, retained_topic(key), publisher)
