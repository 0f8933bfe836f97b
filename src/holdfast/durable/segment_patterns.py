"""What the topics of a segment say about the patterns that topics follow.

A segment knows its distinct topics, so nothing is looked up for each message. Of many topics a sample decides: patterns
are few, and the next segments have the same ones.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from zlib import crc32

from holdfast.topics.learned import LearnedTopics

#: Topics of a segment that are looked at: some milliseconds in all, however many topics there are.
_SAMPLE: Final = 2_000


class StoredPatterns(NamedTuple):
    """What is known before a segment: how the structure learns, and its records in the order of their keys."""

    thresholds: tuple[int, ...]
    records: list[tuple[bytes, bytes]]


class SegmentPatterns(NamedTuple):
    """Patterns that are new, as records of the learned structure, and the messages of each stream."""

    records: list[tuple[bytes, bytes]]
    counts: list[tuple[bytes, int]]


#: Of segments that become one: their topics were learnt from.
NO_PATTERNS: Final = SegmentPatterns([], [])


def learn_patterns(known: LearnedTopics, topics: Mapping[bytes, int]) -> SegmentPatterns:
    """Learn from topics with the messages that each has. `known` gets the new patterns, and the counts.

    Counts are exact up to 2,000 topics, and estimated from as many above.
    """
    looked_at = _sample(topics)
    messages = sum(topics.values())
    sampled = max(1, sum([topics[topic] for topic in looked_at]))
    by_stream: dict[bytes, int] = {}
    for topic in looked_at:
        stream = known.place(topic).stream
        by_stream[stream] = by_stream.get(stream, 0) + topics[topic]
    counts = [(stream, count * messages // sampled) for stream, count in by_stream.items()]
    for stream, count in counts:
        known.add_messages(stream, count)
    return SegmentPatterns(known.take_changes(), counts)


def _sample(topics: Mapping[bytes, int]) -> list[bytes]:
    """By a hash, not by every n-th topic of the order: neighbours differ in a level that repeats."""
    ordered = sorted(topics)
    if len(ordered) <= _SAMPLE:
        return ordered
    return [topic for topic in ordered if crc32(topic) % len(ordered) < _SAMPLE]


def learn_from_segment(known: StoredPatterns | None, topics: Mapping[bytes, int]) -> SegmentPatterns:
    """Learn from the topics of a segment; nothing without `known`: it consists of segments that were learnt from."""
    if known is None:
        return NO_PATTERNS
    restored = LearnedTopics(known.thresholds)
    restored.load(known.records)
    return learn_patterns(restored, topics)
