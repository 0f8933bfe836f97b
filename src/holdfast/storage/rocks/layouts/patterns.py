"""Learned patterns of one shard's generation, for readers. Its layout is not used for anything else.

With the layout `paged`, what is not in segments yet is learnt from while it is read.
"""

from holdfast.durable.segment_patterns import learn_patterns
from holdfast.storage.rocks.engine.scan import FamilyReader
from holdfast.storage.rocks.layouts.layout import Layout
from holdfast.storage.rocks.layouts.paged import count_commit_topics
from holdfast.storage.rocks.layouts.streams import stored_structure
from holdfast.topics.learned import LearnedPattern, LearnedTopics


def read_structure(layout: Layout, family: FamilyReader) -> LearnedTopics | None:
    """What is known about topics, without how many messages follow each pattern; None if the layout does not learn."""
    like = layout.learned()
    return None if like is None else _with_commits(layout, stored_structure(like, family), family)


def read_patterns(layout: Layout, family: FamilyReader) -> list[LearnedPattern]:
    """Patterns with the messages of each, the busiest first; none if the layout does not learn."""
    layout.load(family)
    topics = layout.learned()
    return [] if topics is None else _with_commits(layout, topics, family).patterns()


def _with_commits(layout: Layout, topics: LearnedTopics, family: FamilyReader) -> LearnedTopics:
    if layout.name == "paged":
        learn_patterns(topics, count_commit_topics(family))
    return topics
